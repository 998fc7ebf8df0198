"""Runs in the frameworks' environment: Anthropic's tool runner on Octavo's memory tool. Prints what happened as JSON.

python anthropic_run.py URL SEEDS PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import random
import re
import sys
import tempfile
from pathlib import Path

import httpx2
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import (
    BetaAsyncLocalFilesystemMemoryTool,
    BetaLocalFilesystemMemoryTool,
)

from octavo import AsyncMemory, open_store
from octavo.integrations.anthropic import AsyncOctavoMemoryTool, OctavoMemoryTool

PLACES = [
    "/memories/a.txt", "/memories/b.md", "/memories/笔记.md", "/memories/dir/c.txt", "/memories/dir/sub/d.txt",
    "/memories/dir/sub/deep/e.txt", "/memories/other/c.txt", "/memories/A.txt", "/memories/dir.txt", "/memories/a b.txt",
    "/memories/.hidden", "/memories/dir/.secret", "/memories/.dot/x.txt",
    "/memories", "/memories/", "/memories/dir", "/memories/dir/", "/memories/dir/sub", "/memories/other",
    "/memories//a.txt", "/memories/dir/../a.txt", "/memories/./b.md", "/memories/nowhere/../a.txt", "/memoriesa.txt",
    "/memories/../memories/a.txt", "/memories/a.txt/x", "/memories/a.txt/x/y", "/memories/dir/..",
]  # fmt: skip
ATTACKS = [
    "", "/", "/etc/passwd", "memories/a.txt", "../a.txt", "/memories/..", "/memories/../a.txt", "/memories/../../etc/passwd",
    "/memories/dir/../../x", "/memories/../memories2/x", "/memories/../memories.txt", "/Memories/a.txt", "C:\\memories\\a",
    "/memories/\0", "/memories/a\0/../../x", "/memories/" + "x" * 300,
]  # fmt: skip
TEXTS = [
    "", "\n", "one", "one\n", "one\ntwo\nthree\nfour\nfive\nsix\n", "aa\naaa\naaaa", "x\r\ny\r\n", "\ufeffBOM\n", "你好\n世界 🌍\n",
    "---\ntitle: x\nlist: [1, 2]\n---\nbody\n", "---\n: broken [\n---\nbody", "---\n", "lonely\rreturn\x0bvt\x0cff\x85nel\u2028ls", "  spaces \t\n\n\n",
    "A" * 1023, "A" * 1024, "B" * 1500, "é" * 1024 * 700,
]  # fmt: skip


def draw_command(draw):
    place = draw.choice(PLACES if draw.random() < 0.93 else ATTACKS)
    piece = draw.choice(
        ["one", "two", "aa", "a", "\n", "", "missing", "你好", "B", "body", "title: x\n", "---\n"]
    )
    return draw.choice([
        {"command": "create", "path": place, "file_text": draw.choice(TEXTS[:-1] * 3 + TEXTS)},
        {"command": "create", "path": draw.choice(PLACES[:9]), "file_text": draw.choice(TEXTS[:-1])},
        {"command": "view", "path": place},
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": place, "view_range": draw.choice([[1, 2], [2, -1], [0, 1], [-3, 99], [5, 2], [3, -2], [1]])},
        {"command": "str_replace", "path": draw.choice(PLACES[:9]), "old_str": piece, "new_str": draw.choice(["ONE", "", "p\nq", "aa"])},
        {"command": "str_replace", "path": place, "old_str": piece, "new_str": "new"},
        {"command": "insert", "path": place, "insert_line": draw.randrange(-1, 8), "insert_text": draw.choice(["new", "new\n\n", "p\nq\n", ""])},
        {"command": "delete", "path": place},
        {"command": "rename", "old_path": place, "new_path": draw.choice(PLACES)},
        {"command": "rename", "old_path": draw.choice(PLACES[:9]), "new_path": draw.choice(PLACES + ATTACKS)},
    ])  # fmt: skip


def told(answer):
    """An answer without the sizes of folders, which each file system has its own of."""
    return re.sub(r"^\S+(?=\t.*/$)|(?<=items:\n)\S+(?=\t)", "folder", answer, flags=re.MULTILINE)


async def answered(tool, command):
    try:
        answer = tool.call(command) if "command" in command else tool.clear_all_memory()
        return told(await answer if asyncio.iscoroutine(answer) else answer)
    except ToolError as error:
        return f"refused: {error}"
    except (OSError, ValueError):  # a path that no file can have; ours must be a word to the model too
        return "refused"


async def compared(theirs, ours, commands):
    """Where two tools answer the same commands differently."""
    for at, command in enumerate(commands):
        one, other = await answered(theirs, command), await answered(ours, command)
        if one != other and not (one == "refused" and other.startswith("refused: ")):
            return [{"at": at, "command": command, "theirs": one[-500:], "ours": other[-500:]}]
    return []


async def like_theirs(url, store, seeds):
    differing = []
    for seed in range(seeds):
        draw = random.Random(seed)
        commands = [draw_command(draw) for _ in range(60)] + [
            {"command": "view", "path": place} for place in PLACES
        ]
        if seed % 3 == 0:
            commands.insert(40, {})
        with tempfile.TemporaryDirectory() as folder:
            if seed % 4:
                with OctavoMemoryTool(url, f"oracle-{seed}") as ours:
                    differing += await compared(BetaLocalFilesystemMemoryTool(folder), ours, commands)
            else:
                ours = AsyncOctavoMemoryTool(store, f"oracle-{seed}")
                differing += await compared(BetaAsyncLocalFilesystemMemoryTool(folder), ours, commands)
    return differing


async def attacked(url):
    """What each command answers to each path that leads elsewhere: ours, and the SDK's."""
    differing, reached = [], []
    with tempfile.TemporaryDirectory() as folder, OctavoMemoryTool(url, "attacker") as ours:
        theirs = BetaLocalFilesystemMemoryTool(folder)
        for path in ATTACKS:
            for command in (
                {"command": "view", "path": path},
                {"command": "create", "path": path, "file_text": "x"},
                {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
                {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
                {"command": "delete", "path": path},
                {"command": "rename", "old_path": path, "new_path": "/memories/new"},
                {"command": "rename", "old_path": "/memories/old", "new_path": path},
            ):
                differing += await compared(theirs, ours, [command])
                reached += [] if (await answered(ours, command)).startswith("refused: ") else [command]
    return [differing, reached]


def scripted(*script):
    """A transport that answers with these blocks, one call after the other, and what it was asked."""
    asked, script = [], list(script)

    def answer(request):
        asked.append(json.loads(request.content))
        block = script.pop(0)
        return httpx2.Response(200, json={
            "id": f"msg_{len(asked)}", "type": "message", "role": "assistant", "model": "none", "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        })  # fmt: skip

    return httpx2.MockTransport(answer), asked


def use(**command):
    return {"type": "tool_use", "id": f"use_{command['command']}", "name": "memory", "input": command}


SAID = {"type": "text", "text": "Done."}
ASKED = {
    "model": "none",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Remember: I fly to 上海."}],
}


def last(asked):
    [block] = asked[-1]["messages"][-1]["content"]
    return [block["content"], block.get("is_error", False)]


async def first(url, store, seeds):
    report = {"differing": await like_theirs(url, store, seeds), "attacks": await attacked(url)}
    transport, asked = scripted(
        use(command="create", path="/memories/trips/plan.md", file_text="Lin flies to 上海.\n"), SAID
    )
    client = AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=transport))
    tool = AsyncOctavoMemoryTool(store, "lin")
    report["real"] = [isinstance(tool, BetaAsyncAbstractMemoryTool), tool.to_dict()]
    async for _ in client.beta.messages.tool_runner(tools=[tool], **ASKED):
        pass
    report["created"] = [asked[0]["tools"], *last(asked)]
    return report


async def second(url, store, seeds):
    async with AsyncMemory(store) as memory:
        found = await memory.search("who flies to 上海?", user_id="lin")
        report = {"found": [[hit.source, hit.id, hit.text] for hit in found]}
        report["others"] = len(await memory.search("上海", user_id="bob"))
    report |= await asyncio.to_thread(in_another_thread, store, url)
    both = [AsyncOctavoMemoryTool(store, "busy") for _ in range(2)]
    await both[0].files.acreate(Namespace(path="/memories/n", file_text="0\n"))
    await asyncio.gather(*(
        tool.files.ainsert(Namespace(path="/memories/n", insert_line=0, insert_text=f"{at}")) for at in range(5) for tool in both
    ))  # fmt: skip
    report["lines"] = (await both[0].files.aview(Namespace(path="/memories/n", view_range=None))).count("\n")
    versions = await store.find(both[0].files._documents.versions("memories/n"))
    report["versions"] = len(versions)
    return report


class Namespace:
    def __init__(self, **named):
        self.__dict__ |= named


def in_another_thread(store, url):
    """The blocking client; of a store in this process's memory, from another thread than the loop it lives on."""
    view = use(command="view", path="/memories/trips/plan.md")
    transport, asked = scripted(view, use(command="view", path="/memories/../secrets"), SAID)
    client = Anthropic(api_key="none", http_client=httpx2.Client(transport=transport))
    tool = OctavoMemoryTool(store if url == "memory://" else url, "lin")
    runner = client.beta.messages.tool_runner(tools=[tool], **ASKED)
    results = [last(asked) for _ in runner if len(asked) > 1]
    report = {"real_sync": isinstance(tool, BetaAbstractMemoryTool), "viewed": [*results, last(asked)]}
    tool.close()
    return report


async def main(url, seeds, parts):
    report = {}
    async with open_store(url) as store:
        for part in parts:
            report[part] = await {"first": first, "second": second}[part](url, store, seeds)
    print(json.dumps(report))


if __name__ == "__main__":
    url, seeds, *parts = sys.argv[1:]
    assert not Path("/etc/passwd").is_symlink()
    asyncio.run(main(url, int(seeds), parts))
