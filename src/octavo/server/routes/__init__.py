"""The routes, by what they are about."""

from octavo.server.routes import events, memories, upkeep

#: In the order in which paths are matched: a fixed name stands before a name of the caller's in the same place.
ROUTERS = (memories.router, memories.log_router, events.router, upkeep.router, upkeep.admin_router)

__all__ = ["ROUTERS"]
