"""A LangGraph chat bot written for mem0's client, on Octavo: only `host` was added. Needs `pip install mem0ai langgraph`.

octavo serve &
MEM0_TELEMETRY=False python examples/mem0_langgraph.py
"""

import os
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from mem0 import MemoryClient

mem0 = MemoryClient(
    api_key=os.environ.get("MEM0_API_KEY", "any"),
    host=os.environ.get("OCTAVO_SERVER", "http://127.0.0.1:8000"),
)


class State(TypedDict):
    """What goes through the graph."""

    user_id: str
    message: str
    prompt: str
    answer: str


def recall(state: State) -> dict:
    found = mem0.search(state["message"], filters={"user_id": state["user_id"]}, top_k=3)
    known = "".join(f"- {memory['memory']}\n" for memory in found["results"])
    return {"prompt": f"What you know of the user:\n{known or '- nothing yet'}"}


def respond(state: State) -> dict:
    """A model would be asked here; this one tells what it was told."""
    return {"answer": state["prompt"].strip()}


def remember(state: State) -> dict:
    said = {"user": state["message"], "assistant": state["answer"]}
    mem0.add([{"role": role, "content": text} for role, text in said.items()], user_id=state["user_id"])
    return {}


graph = StateGraph(State)
for step in (recall, respond, remember):
    graph.add_node(step.__name__, step)
graph.add_edge(START, "recall")
graph.add_edge("recall", "respond")
graph.add_edge("respond", "remember")
graph.add_edge("remember", END)
bot = graph.compile()

for message in ("I live in Berlin and I am allergic to peanuts.", "Where do I live?"):
    print("user:", message)
    print(bot.invoke({"user_id": "lin", "message": message})["answer"])
