"""The command `octavo`. It needs the extra `cli`, which `server` brings too, and says so when that is missing."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from octavo.cli.interrupts import end_at_once, hand_over


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process: 0 is well, 1 is failed, 2 is a mistake in what was asked, 130 is interrupted."""
    end_at_once()
    try:
        _check_packages(sys.argv[1:] if args is None else args)
        from octavo.cli.commands import octavo

        octavo(args=args, prog_name="octavo")
    finally:
        hand_over()
    sys.exit(0)


def _check_packages(args: Sequence[str]) -> None:
    """Without the package that commands are made with, say what this one needs, and end."""
    from octavo.util.extras import missing_packages, store_extra

    if missing_packages("cli"):
        serves = [*args[:1]] == ["serve"]
        urls = [each for word in args for each in store_extra(word.rpartition("=")[2])]
        needed = missing_packages("server" if serves else "cli", *dict.fromkeys(urls))
        print(f"octavo: {'octavo serve' if serves else 'the command'} needs {needed}", file=sys.stderr)
        sys.exit(2)
