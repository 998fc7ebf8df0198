"""Runs in ADK's own environment: its runners and agents on Octavo's services. Prints what happened as JSON.

python adk_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import random
import sys
from contextlib import aclosing

from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.memory import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import load_memory
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from octavo import AsyncMemory, Memory
from octavo.integrations.adk import OctavoMemoryService, OctavoSessionService


class Scripted(BaseLlm):
    """A model that says what it was given to say, and keeps what it was asked."""

    model: str = "scripted"
    script: list
    asked: list

    async def generate_content_async(self, llm_request, stream=False):
        told = [part.text or "" for content in llm_request.contents for part in content.parts]
        self.asked.append([*told, str(llm_request.config.system_instruction or "")])
        said = self.script.pop(0)
        part = types.Part(text=said) if isinstance(said, str) else said
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def content(text, role="user"):
    return types.Content(role=role, parts=[types.Part(text=text)])


async def talk(memory, session_id, said, *script, user_id="lin", app="helper", tools=()):
    """One run, and what the model was asked in it."""
    model = Scripted(script=list(script), asked=[])
    agent = LlmAgent(name="helper", model=model, tools=[*tools])
    sessions = OctavoSessionService(memory.store)
    runner = Runner(
        app_name=app,
        agent=agent,
        session_service=sessions,
        memory_service=OctavoMemoryService(memory),
        auto_create_session=True,
    )
    running = runner.run_async(user_id=user_id, session_id=session_id, new_message=content(said))
    async with aclosing(running) as events:
        async for _ in events:
            pass
    return model.asked


PICTURE = types.Part(inline_data=types.Blob(data=b"\x89PNG\xff" * 40, mime_type="image/png"))
CALL = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={"at": 1}))
RESULT = types.Part(
    function_response=types.FunctionResponse(id="c1", name="look", response={"result": "一个标志"})
)


def events(draw, count):
    made = []
    for _ in range(count):
        parts = draw.choice(
            [[types.Part(text="看图 what is this?"), PICTURE], [CALL], [RESULT], [types.Part(text="ok")], []]
        )
        author = draw.choice(["user", "helper"])
        delta = {
            draw.choice(["app:a", "user:b", "c", "d", "temp:e"]): draw.choice(
                [1, "二", None, [1, {"x": True}]]
            )
            for _ in range(draw.randrange(3))
        }
        said = types.Content(role="user" if author == "user" else "model", parts=parts) if parts else None
        made.append(
            Event(author=author, content=said, invocation_id="i", actions=EventActions(state_delta=delta))
        )
    return made


def plain(answer):
    """What two services must tell alike; times of sessions that were just made differ."""
    if answer is None or isinstance(answer, str | dict):
        return answer
    if hasattr(answer, "sessions"):
        return sorted((plain(each) for each in answer.sessions), key=lambda each: each["id"])
    return answer.model_dump(mode="json", exclude={"last_update_time"})


async def like_theirs(store):
    """The same calls to ADK's own service and to ours; where their answers differ."""
    differing = []
    for seed in range(3):
        draw = random.Random(seed)
        theirs, ours = InMemorySessionService(), OctavoSessionService(store)
        for step in range(40):
            where = {"app_name": f"app-{seed}-{draw.choice('xy')}", "user_id": draw.choice(["lin", "bob"])}
            one = {**where, "session_id": draw.choice(["s", "t"])}
            verb, given = draw.choice([
                ("create_session", {**one, "state": {"c": 0, "user:u": step, "app:v": [step], "temp:w": 1}}),
                ("create_session", one),
                ("get_session", one),
                ("get_session", {**one, "config": GetSessionConfig(num_recent_events=draw.randrange(4))}),
                ("list_sessions", where),
                ("list_sessions", {"app_name": where["app_name"]}),
                ("get_user_state", where),
                ("delete_session", one) if draw.random() < 0.3 else ("append", one),
                ("append", one),
                ("append", one),
            ])  # fmt: skip
            new = events(draw, 2)
            answers = [await answered(service, verb, given, new) for service in (theirs, ours)]
            if answers[0] != answers[1]:
                differing.append([seed, step, verb, str(given), answers])
    return differing


async def answered(service, verb, given, new):
    if verb != "append":
        try:
            return plain(await getattr(service, verb)(**given))
        except AlreadyExistsError:
            return "there already"
    session = await service.get_session(**given)
    if session is None:
        return None
    for event in new:
        await service.append_event(session, event.model_copy(deep=True))
    return plain(session), plain(await service.get_session(**given))


async def at_odds(store):
    """What is refused: an event of a session that others have changed, or that is gone; and one that is there already."""
    sessions = OctavoSessionService(store)
    where = {"app_name": "odd", "user_id": "lin", "session_id": "s"}
    session = await sessions.create_session(**where)
    other = await sessions.get_session(**where)
    event = Event(author="user", content=content("one"), invocation_id="i")
    await sessions.append_event(session, event)
    await sessions.append_event(session, event)
    told = [len(session.events), len((await sessions.get_session(**where)).events)]
    late = Event(author="user", content=content("two"), invocation_id="i")
    await sessions.delete_session(app_name="odd", user_id="lin", session_id="none")
    for nobody in ({"user_id": None}, {"session_id": None}):
        try:
            await sessions.delete_session(**{**where, **nobody})
        except TypeError as error:
            told.append("user_id and session_id are strings" in str(error))
    for stale, gone in ((other, False), (session, True)):
        if gone:
            await sessions.delete_session(**where)
        try:
            await sessions.append_event(stale, late.model_copy(deep=True))
        except (StaleSessionError, SessionNotFoundError) as error:
            told.append(type(error).__name__)
    after = GetSessionConfig(after_timestamp=event.timestamp + 1)
    again = await sessions.create_session(**where)
    await sessions.append_event(
        again, Event(author="user", content=content("old"), timestamp=event.timestamp)
    )
    await sessions.append_event(
        again, Event(author="user", content=content("new"), timestamp=event.timestamp + 2)
    )
    return [
        *told,
        [one.content.parts[0].text for one in (await sessions.get_session(**where, config=after)).events],
    ]


async def remembered(memory):
    """Sessions added, found, added again and deleted; what is not in memory is not found."""
    service, sessions = OctavoMemoryService(memory), OctavoSessionService(memory.store)
    where = {"app_name": "helper", "user_id": "ann"}
    session = await sessions.create_session(**where, session_id="s")
    for said in ("I am allergic to peanuts.", "The weather is fine."):
        await sessions.append_event(session, Event(author="user", content=content(said), invocation_id="i"))

    async def search(query, app="helper", user="ann", service=service):
        found = await service.search_memory(app_name=app, user_id=user, query=query)
        return [entry.content.parts[0].text for entry in found.memories]

    told = {"before": await search("peanuts")}
    for _ in range(2):
        await service.add_session_to_memory(session)
    told["after"] = await search("peanuts")
    told["facts"] = [fact.content for fact in await memory.get_all(user_id="ann")]
    told["history"] = [len(await memory.history(fact.id)) for fact in await memory.get_all(user_id="ann")]
    told["others"] = [await search("peanuts", user="bob"), await search("peanuts", app="another")]
    told["all_apps"] = await search("peanuts", "another", service=OctavoMemoryService(memory, all_apps=True))
    entry = MemoryEntry(content=content("Ann's locker is 42."), custom_metadata={"by": "admin"})
    await service.add_memory(**where, memories=[entry])
    found = (await service.search_memory(**where, query="locker")).memories
    told["added"] = [
        found[0].content.parts[0].text,
        found[0].custom_metadata["by"],
        found[0].custom_metadata["source"],
    ]
    await service.delete_memory(**{**where, "app_name": "another"}, memory_id=found[0].id)
    told["theirs"] = await search("locker")
    for query in ("locker", "peanuts"):
        for entry in (await service.search_memory(**where, query=query)).memories:
            await service.delete_memory(**where, memory_id=entry.id)
    await service.add_session_to_memory(session)
    told["deleted"] = [await search("locker"), await search("peanuts")]
    told["session"] = len((await sessions.get_session(**where, session_id="s")).events)
    theirs = InMemorySessionService()  # a session that only ADK keeps
    session = await theirs.create_session(**where)
    await theirs.append_event(
        session, Event(author="user", content=content("Her cat is Momo."), invocation_id="i")
    )
    await service.add_session_to_memory(session)
    told["only"] = await search("Momo")
    for entry in (await service.search_memory(**where, query="Momo")).memories:
        await service.delete_memory(**where, memory_id=entry.id)
    told["only"].append(await search("Momo"))
    return told


async def first(memory):
    asked = await talk(memory, "monday", "My dentist is Dr. Osei.", "Noted.")
    asked += await talk(memory, "monday", "我住在杭州。", "Good.", tools=[PreloadMemoryTool()])
    sessions = OctavoSessionService(memory.store)
    session = await sessions.get_session(app_name="helper", user_id="lin", session_id="monday")
    await OctavoMemoryService(memory).add_session_to_memory(session)
    real = [
        isinstance(sessions, BaseSessionService),
        isinstance(OctavoMemoryService(memory), BaseMemoryService),
    ]
    told = {"real": real, "asked": asked, "events": [event.author for event in session.events]}
    told["differing"] = await like_theirs(memory.store)
    return {**told, "odds": await at_odds(memory.store), "remembered": await remembered(memory)}


async def second(memory):
    asked = await talk(memory, "monday", "Who am I?", "Lin.")
    told = {"asked": asked[0]}
    told["recalled"] = (
        await talk(memory, "tuesday", "Who is my dentist?", "Dr. Osei.", tools=[PreloadMemoryTool()])
    )[0]
    call = types.Part(function_call=types.FunctionCall(id="c", name="load_memory", args={"query": "dentist"}))
    told["loaded"] = len(
        await talk(memory, "wednesday", "Ask your memory.", call, "Dr. Osei.", tools=[load_memory])
    )
    sessions = OctavoSessionService(memory.store)
    session = await sessions.get_session(app_name="helper", user_id="lin", session_id="wednesday")
    told["result"] = str(session.events[-2].content.parts[0].function_response.response)
    told["others"] = (
        await talk(memory, "s", "Who is my dentist?", "?", user_id="bob", tools=[PreloadMemoryTool()])
    )[0]
    told["found"] = [
        hit.session_id for hit in await memory.search("Osei", user_id="lin", sources=["messages"])
    ]
    certificate = await memory.forget(user_id="lin")
    told["forgotten"] = [
        len((await sessions.list_sessions(app_name="helper", user_id="lin")).sessions),
        certificate.removed.get("items", 0) > 0,
    ]
    return told


async def blocking(url):
    """A memory for callers who block, and a service that opens its store itself."""
    with Memory(url) as memory:
        async with OctavoSessionService(url) as sessions:
            session = await sessions.create_session(
                app_name="helper", user_id="eve", state={"user:lang": "zh"}
            )
            await sessions.append_event(
                session, Event(author="user", content=content("I like tea."), invocation_id="i")
            )
            service = OctavoMemoryService(memory)
            await service.add_session_to_memory(session)
            found = await service.search_memory(app_name="helper", user_id="eve", query="tea")
            state = await sessions.get_user_state(app_name="helper", user_id="eve")
            return [found.memories[0].content.parts[0].text, found.memories[0].author, state]


async def main(url, parts):
    told = {}
    async with AsyncMemory(url) as memory:
        for part in parts:
            told[part] = await {"first": first, "second": second}[part](memory)
    told["blocking"] = await blocking(url) if "second" in parts else None
    print(json.dumps(told))


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    asyncio.run(main(address, parts))
