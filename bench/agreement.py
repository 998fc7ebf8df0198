"""`python -m bench.agreement --data FILE`: the same questions on all six stores, compared with the first.

Starts servers of its own; everything it does not know itself goes to `octavo bench recall`.
"""

import sys
from pathlib import Path

from bench.places import Places
from octavo.cli import main

RESULTS = Path(__file__).parent / "results"


def run(given: list[str]) -> None:
    RESULTS.mkdir(exist_ok=True)
    with Places(RESULTS) as places:
        urls = [
            "memory://",
            f"sqlite:///{places.path('.db')}",
            f"file://{places.path()}",
            *(places.database(kind) for kind in ("postgres", "mysql", "redis")),
        ]
        main(["bench", "recall", *(word for url in urls for word in ("--store", url)), *given])


if __name__ == "__main__":
    run(sys.argv[1:])
