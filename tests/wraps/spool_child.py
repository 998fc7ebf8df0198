"""A process that queues writes for ever and says of each when it is safe: `spool_child.py FOLDER NAME [OPTIONS]`."""

import json
import sys

from spooling import write

from octavo.wraps.journal import Spool


def main(folder, name, options="{}"):
    spool = Spool(folder, **json.loads(options))
    spool.open()
    for n in range(1_000_000):
        entries = [write(f"{name}-{n}-{part}") for part in range(3)]
        spool.put(entries)
        print("kept", *[entry.id for entry in entries], flush=True)
        if n % 3 == 2:
            first = spool.head(2)
            spool.mark_done([entry.id for entry in first])
            print("done", *[entry.id for entry in first], flush=True)


main(*sys.argv[1:])
