"""Runs in the frameworks' environment: real agents on Octavo's sessions. Prints what happened as one line of JSON.

python openai_agents_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import random
import sys

from agents import Agent, ModelResponse, Runner, SessionABC, SQLiteSession, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from octavo import AsyncMemory, Memory
from octavo.errors import InvalidQuery
from octavo.integrations.openai_agents import OctavoSession, memory_tools

set_tracing_disabled(disabled=True)


class Scripted(Model):
    """A model that says what it was given to say, and keeps what it was asked."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.tools = []

    async def get_response(self, system_instructions, input, model_settings, tools, *_, **__):  # noqa: A002
        self.asked.append(input if isinstance(input, list) else [input])
        self.tools = [[tool.name, sorted(tool.params_json_schema["properties"])] for tool in tools]
        said = self.script.pop(0)
        if isinstance(said, str):
            text = ResponseOutputText(text=said, type="output_text", annotations=[])
            said = ResponseOutputMessage(
                id=f"msg_{len(self.asked)}",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


def call(name, **arguments):
    return ResponseFunctionToolCall(
        call_id=f"call_{name}", name=name, arguments=json.dumps(arguments), type="function_call"
    )


PICTURE = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + "iVBORw0K" * 40}
ITEMS = [
    {"role": "user", "content": "Tomorrow I fly to 上海 🛫"},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "   "},
    {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, PICTURE]},
    {"role": "user", "content": [PICTURE]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "杭州"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "23 degrees"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}, PICTURE]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" * 30},
    {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It is a logo.", "annotations": [], "logprobs": []}],
    },
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
]  # fmt: skip


async def like_theirs(url):
    """The same calls to a session of the SDK's own and to one of ours; where their answers differ."""
    differing = []
    for seed in range(3):
        draw = random.Random(seed)
        settings = draw.choice([None, {"limit": 3}])
        theirs = SQLiteSession("same", session_settings=settings)
        async with OctavoSession(url, f"like-{seed}", "oracle", session_settings=settings) as ours:
            for _ in range(25):
                verb, *given = draw.choice([
                    ("add_items", draw.choices(ITEMS, k=draw.randrange(5))),
                    ("add_items", [draw.choice(ITEMS)]),
                    ("get_items", draw.choice([None, 0, 1, 2, 5, 1000, -1])),
                    ("get_items",),
                    ("pop_item",),
                    ("clear_session",) if draw.random() < 0.1 else ("pop_item",),
                ])  # fmt: skip
                answers = [await getattr(one, verb)(*given) for one in (theirs, ours)]
                if answers[0] != answers[1]:
                    differing.append([seed, verb, given, answers])
    return differing


async def at_once(url):
    """Twelve items that two sessions add side by side; each is taken once."""
    async with OctavoSession(url, "busy", "lin") as one, OctavoSession(url, "busy", "lin") as other:
        two = one if url == "memory://" else other
        await asyncio.gather(*(
            session.add_items([{"role": "user", "content": f"{number}"}])
            for number in range(6) for session in (one, two)
        ))  # fmt: skip
        taken = await asyncio.gather(*(session.pop_item() for _ in range(5) for session in (one, two)))
        left = await one.get_items()
        return [sorted(item["content"] for item in [*taken, *left]), len(left)]


async def first(url, store):
    told = {"differing": await like_theirs(url), "busy": await at_once(url)}
    model = Scripted("Hello Lin.", "Noted.")
    agent = Agent(name="helper", model=model)
    session = OctavoSession(store, "monday", "lin")
    told["real"] = isinstance(session, SessionABC) and [session.session_id, session.session_settings.limit]
    for said in ("My name is Lin, my dentist is Dr. Osei.", "The meeting is in 杭州."):
        await Runner.run(agent, said, session=session)
    told["asked"] = [len(items) for items in model.asked]
    return told


async def second(url, store):
    model = Scripted("Dr. Osei.", call("remember", text="I am allergic to peanuts."), "I will.")
    async with AsyncMemory(store) as memory:
        agent = Agent(name="helper", model=model, tools=memory_tools(memory, user_id="lin"))
        session = OctavoSession(store, "monday", "lin")
        await Runner.run(agent, "Who is my dentist?", session=session)
        told = {"asked": [len(items) for items in model.asked], "tools": model.tools}
        await Runner.run(agent, "Remember my allergy: peanuts.", session=session)
        told["kinds"] = [item.get("type") or item["role"] for item in await session.get_items()]
        told["last"] = [item.get("type") for item in await session.get_items(2)]
        found = await memory.search("Osei my dentist", user_id="lin", sources=["messages"])
        told["found"] = found[0].text
        told["not_found"] = len(await memory.search("dentist", user_id="bob"))
        model.script = [call("search_memory", query="what is she allergic to?"), "To peanuts."]
        await Runner.run(agent, "Anything I should not eat?", session=OctavoSession(store, "tuesday", "lin"))
        told["recalled"] = model.asked[-1][-1]["output"]
        await session.clear_session()
        told["cleared"] = await session.get_items()
        told["facts"] = [fact.content for fact in await memory.get_all(user_id="lin")]
    return told


def blocking(url):
    """Runs that block, each on an event loop of its own, and tools over a memory for callers who block."""
    model = Scripted("One.", call("search_memory", query="peanuts"), "Two.")
    with Memory(url) as memory, OctavoSession(url, "sync", "lin") as session:
        agent = Agent(name="helper", model=model, tools=memory_tools(memory, user_id="lin"))
        Runner.run_sync(agent, "first", session=session)
        Runner.run_sync(agent, "second", session=session)
    return [[len(items) for items in model.asked], "peanuts" in model.asked[-1][-1]["output"]]


def refused():
    told = []
    try:
        asyncio.run(OctavoSession("memory://", "monday").add_items(["x"]))
    except TypeError as error:
        told.append(str(error))
    for wrong in ({"user_id": ""}, {"agent_id": 3}):
        try:
            memory_tools(None, **wrong)
        except InvalidQuery as error:
            told.append(str(error))
    return told


async def main(url, parts):
    told = {}
    async with AsyncMemory(url) as memory:
        for part in parts:
            told[part] = await {"first": first, "second": second}[part](url, memory.store)
    return told


if __name__ == "__main__":
    url, *parts = sys.argv[1:]
    told = asyncio.run(main(url, parts))
    if "second" in parts and url != "memory://":
        told["blocking"] = blocking(url)
        told["refused"] = refused()
    print(json.dumps(told))
