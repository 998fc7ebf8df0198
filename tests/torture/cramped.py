"""A service whose journal has no room: `python cramped.py CONFIG`, told by lines on stdin when there is room, and when to end.

It prints what its callers are told: the ids that were acknowledged, and how many were refused.
"""

import json
import resource
import sys

from steady import said

from octavo import StoreUnavailable
from octavo.service import MemoryService

ROOM = 20_000  # bytes that any file of this process may have


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main(config: str) -> None:
    acknowledged, refused, reason = [], 0, ""
    limit(ROOM)
    with MemoryService.from_config(config) as service:
        for number in range(200):
            try:
                acknowledged.append(service.append_event(said("s", number), "s").event_id)
            except StoreUnavailable as error:
                refused, reason = refused + 1, str(error)
        state = service.health().state
        print(json.dumps({"kept": len(acknowledged), "refused": refused, "reason": reason, "state": state}))
        sys.stdout.flush()
        sys.stdin.readline()  # there is room now
        limit(resource.RLIM_INFINITY)
        acknowledged += [service.append_event(said("s", number), "s").event_id for number in range(200, 300)]
        print(json.dumps(acknowledged), flush=True)
        sys.stdin.readline()  # and the database is back


if __name__ == "__main__":
    main(sys.argv[1])
