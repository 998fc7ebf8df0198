"""A graph of LangGraph on Octavo's checkpointer and store: interrupted in one program, and resumed in the next one."""

import operator
import tempfile
from contextlib import chdir
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

from octavo.integrations.langgraph import OctavoSaver, OctavoStore

URL = "sqlite:///octavo.db"
MONDAY = {"configurable": {"thread_id": "monday"}}


class State(TypedDict):
    """What goes through the graph."""

    said: Annotated[list[str], operator.add]


def answer(state: State, *, store: BaseStore) -> dict[str, list[str]]:
    """Asks before it remembers."""
    allowed = interrupt(f"May I remember {state['said'][-1]!r}?")
    if allowed:
        store.put(("memories", "lin"), "dentist", {"text": state["said"][-1]})
    return {"said": ["Remembered." if allowed else "Forgotten."]}


def graph(store: OctavoStore, saver: OctavoSaver) -> CompiledStateGraph:
    built = StateGraph(State).add_node(answer).add_edge(START, "answer").add_edge("answer", END)
    return built.compile(store=store, checkpointer=saver)


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    with OctavoStore(URL) as store, OctavoSaver(URL) as saver:
        asked = graph(store, saver).invoke({"said": ["My dentist is Dr. Osei."]}, MONDAY)
        print(asked["__interrupt__"][0].value)
    with OctavoStore(URL) as store, OctavoSaver(URL) as saver:  # after a restart
        print(graph(store, saver).invoke(Command(resume=True), MONDAY)["said"])
        print([item.value["text"] for item in store.search(("memories",), query="Who is my dentist?")])
