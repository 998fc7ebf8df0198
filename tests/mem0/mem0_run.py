"""Runs in mem0's own environment: every method of its real clients against a server. Prints what they answered as JSON.

python mem0_run.py URL KEY
"""

import asyncio
import json
import os
import sys
from pathlib import Path

os.environ["MEM0_TELEMETRY"] = "False"
os.environ.setdefault("MEM0_DIR", str(Path.cwd() / "mem0"))

from mem0.client.types import DeleteAllMemoryOptions, SearchMemoryOptions

from mem0 import AsyncMemoryClient, MemoryClient

TALK = [
    {"role": "user", "content": "I live in Berlin and I am allergic to peanuts."},
    {"role": "assistant", "content": "I will keep that in mind."},
]
PLAIN = "The quarterly figures go to Ann before noon"


def refused(call, *args, **more):
    """The kind of the error and what it says."""
    try:
        call(*args, **more)
    except Exception as error:
        details = getattr(error, "details", {})
        return [type(error).__name__, str(error), details.get("code") if isinstance(details, dict) else None]
    return None


async def every_method(call):
    """Every method once or more, whether it is awaited or not; what each answered."""
    told = {}
    told["add"] = await call("add", TALK, user_id="lin", run_id="monday", metadata={"topic": "home"})
    told["add again"] = await call("add", TALK[0], user_id="lin")
    told["add as it is"] = await call("add", "Ann is her sister", user_id="lin", infer=False, app_id="desk")
    told["add without a fact"] = await call("add", PLAIN, user_id="bob")
    brief = [{"role": "assistant", "content": "Answers briefly"}]
    told["add for an agent"] = await call("add", brief, agent_id="planner")
    told["add with an end"] = await call(
        "add", "Has a cold", user_id="lin", infer=False, expiration_date="2099-01-01"
    )
    told["search"] = await call("search", "where does she live?", filters={"user_id": "lin"}, top_k=3)
    told["search options"] = await call(
        "search",
        "figures for Ann",
        SearchMemoryOptions(filters={"AND": [{"user_id": "bob"}]}, fields=["memory"]),
    )
    told["search in a run"] = await call("search", "Berlin", filters={"user_id": "lin", "run_id": "monday"})
    told["search in another run"] = await call(
        "search", "Berlin", filters={"user_id": "lin", "run_id": "friday"}
    )
    told["search by metadata"] = await call(
        "search", "Berlin peanuts", filters={"user_id": "lin", "metadata": {"topic": "home"}}
    )
    told["get_all"] = await call("get_all", filters={"user_id": "lin"})
    told["get_all second page"] = await call("get_all", filters={"user_id": "lin"}, page=2, page_size=2)
    told["get_all of an app"] = await call("get_all", filters={"user_id": "lin", "app_id": "desk"})
    [home] = [m for m in told["get_all"]["results"] if "Berlin" in m["memory"]]
    told["get"] = await call("get", home["id"])
    told["update"] = await call("update", home["id"], text="Lives in Potsdam", metadata={"sure": True})
    told["update the end"] = await call("update", home["id"], expiration_date="2099-12-31")
    told["update no end"] = await call("update", home["id"], expiration_date=None)
    told["history"] = await call("history", home["id"])
    told["users"] = await call("users")
    told["delete"] = await call("delete", home["id"])
    told["history after"] = await call("history", home["id"])
    ids = [m["id"] for m in (await call("get_all", filters={"user_id": "lin"}))["results"]]
    changes = [{"memory_id": one, "text": f"number {n}"} for n, one in enumerate(ids)]
    told["batch_update"] = [len(ids), await call("batch_update", changes)]
    told["after batch_update"] = await call("get_all", filters={"user_id": "lin"})
    told["batch_delete"] = await call("batch_delete", [{"memory_id": ids[0]}])
    told["after batch_delete"] = await call("get_all", filters={"user_id": "lin"})
    told["delete_all"] = await call("delete_all", user_id="lin")
    told["after delete_all"] = await call("get_all", filters={"user_id": "lin"})
    await call("add", "Wakes early", user_id="lin", infer=False)
    told["delete_all options"] = await call("delete_all", DeleteAllMemoryOptions(filters={"user_id": "lin"}))
    told["after delete_all options"] = await call("get_all", filters={"user_id": "lin"})
    told["delete_users"] = await call("delete_users", agent_id="planner")
    told["reset"] = await call("reset")
    told["users after reset"] = await call("users")
    return told


def errors(client, url):
    """What the client raises for what cannot be done."""
    return {
        "wrong key": refused(MemoryClient, api_key="oct_wrong", host=url),
        "unknown id": refused(client.get, "nothing"),
        "nobody": refused(client.search, "tea"),
        "nobody added": refused(client.add, "tea"),
        "or": refused(client.search, "tea", filters={"OR": [{"user_id": "a"}, {"user_id": "b"}]}),
        "everybody": refused(client.get_all, filters={"user_id": "*"}),
        "instructions": refused(client.add, "tea", user_id="a", custom_instructions="only hobbies"),
        "feedback": refused(client.feedback, "some", "POSITIVE"),
        "export": refused(client.create_memory_export, "{}"),
        "get export": refused(client.get_memory_export),
        "summary": refused(client.get_summary),
        "webhooks": refused(client.get_webhooks, "p"),
        "profile": refused(client.get_profile, "lin"),
        "profile settings": refused(client.get_profile_settings),
    }


async def main(url, key):
    told = {}
    client = MemoryClient(api_key=key, host=url)

    async def plain(name, *args, **more):
        return getattr(client, name)(*args, **more)

    told["sync"] = await every_method(plain)
    awaited = AsyncMemoryClient(api_key=key, host=url)
    told["async"] = await every_method(lambda name, *args, **more: getattr(awaited, name)(*args, **more))
    told["errors"] = errors(client, url)
    print(json.dumps(told))


asyncio.run(main(*sys.argv[1:]))
