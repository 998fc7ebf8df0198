"""LangGraph's two kinds of memory on any store: a `BaseStore` for what outlives a thread, and a saver of its checkpoints.

from octavo.integrations.langgraph import OctavoSaver, OctavoStore

with OctavoStore("sqlite:///octavo.db") as store, OctavoSaver("sqlite:///octavo.db") as saver:
    graph = builder.compile(store=store, checkpointer=saver)
"""

from octavo.integrations import require_package

with require_package(__name__, "LangGraph", "langgraph"):
    import langgraph.store.base  # type: ignore[import-not-found] # noqa: F401 - or the modules below fail without a cure

from octavo.integrations.langgraph.saver import OctavoSaver
from octavo.integrations.langgraph.store import OctavoStore

__all__ = ["OctavoSaver", "OctavoStore"]
