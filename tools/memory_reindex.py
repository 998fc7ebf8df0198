"""Rebuild the memory's index: `python tools/memory_reindex.py reindex --config config/memory.yaml`.

The same as `octavo vault reindex`; the other commands of `octavo vault` are understood too.
"""

# ruff: noqa: INP001 - a script, in no package

import sys

from octavo.cli import main

if __name__ == "__main__":
    main(["vault", *sys.argv[1:]])
