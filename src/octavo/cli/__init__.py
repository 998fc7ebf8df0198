"""The command `octavo`. It needs the extra `cli`, and says so when that is missing."""

import importlib.util
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command and end the process: 0 is well, 1 is failed, 2 is a mistake in what was asked."""
    if importlib.util.find_spec("click") is None:
        print("octavo: the command needs click: pip install 'octavo[cli]'", file=sys.stderr)
        sys.exit(2)
    from octavo.cli.commands import octavo

    octavo(args=args, prog_name="octavo")
    sys.exit(0)
