"""`octavo mcp` as programs start it: over stdin and stdout, with the real clients, and with nothing else on stdout."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from mcp import Client, StdioServerParameters
from octavo import AsyncMemory, Scope, open_store
from octavo.mcp.graph import Entity, Graph
from sampled import only_torture, sampled
from serving import LASTING, url_of
from warm import programs

COMMAND = (sys.executable, "-m", "octavo", "mcp")
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def command():
    """The same, where it is what it answers that is tested, and not how it starts."""
    return f"{programs()}/octavo", "mcp"


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path}/octavo.db"


def started(url, *args, **env):
    """How a program starts the command."""
    return StdioServerParameters(
        command=command()[0], args=[*command()[1:], "--store", url, *args], env={**os.environ, **env}
    )


async def test_a_conversation(url):
    async with Client(started(url, "--user", "lin")) as client:
        told = await client.call_tool("remember", {"text": "I live in Berlin.", "session_id": "monday"})
        assert told.structured_content["status"] == "stored"
    async with Client(
        started(url, OCTAVO__MCP__USER="lin")
    ) as client:  # another process, and the environment
        found = await client.call_tool("search_memory", {"query": "where do I live?"})
        assert "Berlin" in found.content[0].text
        assert "user: I live" in (await client.read_resource("octavo://sessions/monday")).contents[0].text
        assert "Berlin" in (await client.get_prompt("what_do_you_know_about_me")).messages[0].content.text
    async with Client(started(url)) as client:
        assert not (await client.call_tool("list_memories", {})).structured_content["memories"]
        await client.call_tool("remember", {"text": "I live in Rome."})
    async with AsyncMemory(url) as memory:
        assert [fact.content for fact in await memory.get_all()] == ["The user lives in Rome"]


@only_torture
async def test_fastmcps_client(url):
    """Another client than the SDK's, which has a protocol of its own hand."""
    from fastmcp import Client as FastClient
    from fastmcp.client.transports import StdioTransport

    transport = StdioTransport(COMMAND[0], [*COMMAND[1:], "--store", url, "--user", "lin"])
    async with FastClient(transport) as client:
        assert {each.name for each in await client.list_tools()} >= {"remember", "search_memory"}
        await client.call_tool("remember", {"text": "I live in Berlin."})
        found = await client.call_tool("search_memory", {"query": "where do I live?"})
        assert "Berlin" in found.structured_content["hits"][0]["text"]
        refused = await client.call_tool("remember", {"text": ""}, raise_on_error=False)
        assert refused.is_error
        assert "lives in Berlin" in (await client.read_resource("octavo://profile"))[0].text
        assert (await client.get_prompt("start_with_my_context", {"topic": "home"})).messages


def ended(url, *args):
    """How a process ends to which nothing is said."""
    return subprocess.run(
        [*command(), "--store", url, *args], input="", capture_output=True, text=True, timeout=60, check=False
    )


def test_nothing_but_the_protocol_is_on_stdout(url):
    """Whatever comes in: each line of stdout is a message, and the end of stdin is the end."""
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "delete_memory", "arguments": {"memory_id": "x"}}}  # fmt: skip
    said = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"id": 3}, call]
    process = subprocess.Popen(
        [*COMMAND, "--store", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("no JSON at all\n" + "".join(f"{json.dumps(each)}\n" for each in said))
    process.stdin.flush()
    told = {}
    while 2 not in told:
        line = json.loads(process.stdout.readline())
        assert line["jsonrpc"] == "2.0"
        told[line.get("id")] = line
    assert told[1]["result"]["serverInfo"]["name"] == "octavo"
    assert told[2]["result"]["isError"]
    assert told[None]["error"] == {"code": -32700, "message": "this line is no message of JSON-RPC"}
    rest, errors = process.communicate(timeout=60)
    assert errors.count("no message of MCP") == 2
    assert (process.returncode, rest, "Traceback" in errors) == (0, "", False)


STARTED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def remembering(number, text):
    return {
        "jsonrpc": "2.0", "id": number, "method": "tools/call",
        "params": {"name": "remember", "arguments": {"text": text}},
    }  # fmt: skip


def test_what_was_asked_before_the_end_is_finished(url):
    """Whoever ends stdin at once has every answer, and all of it is kept."""
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
    said = [HELLO, STARTED, *(remembering(n, f"I have {n} cats.") for n in (2, 3, 4)), cancelled]
    lines = "".join(f"{json.dumps(each)}\n" for each in said)
    done = subprocess.run(
        [*COMMAND, "--store", url, "--user", "lin"], input=lines, capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    told = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    for number in (2, 3):
        assert told[number]["result"]["structuredContent"]["status"] == "stored"

    async def kept():
        async with AsyncMemory(url) as memory:
            return (await memory.stats(user_id="lin"))["messages"]

    assert asyncio.run(kept()) >= 2


def test_ctrl_c_ends_it_though_stdin_stays_open(url):
    process = subprocess.Popen(
        [*COMMAND, "--store", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(f"{json.dumps(HELLO)}\n".encode())
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


def test_what_the_command_refuses(url):
    for args, sentence in (
        (["--yes"], "--yes goes with --install"),
        (["--json"], "stdout is for the protocol"),
        (["--user", ""], "--user is text, not empty"),
        (["--toolset", "x"], "--toolset"),
        (["fly"], "fly"),
    ):
        done = ended(url, *args)
        assert done.returncode == 2
        assert sentence in done.stderr
    done = ended("nonsense://x")
    assert (done.returncode, done.stdout) == (2, "")


def test_help_is_that_of_all_commands():
    told = subprocess.run([*command(), "-h"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.startswith("Usage: octavo mcp")
    assert "--toolset" in told


def test_the_sdk_is_imported_by_nobody_else():
    """Neither by the library, nor by the server, nor by a command."""
    code = (
        "import sys, octavo, octavo.cli.commands, octavo.server.app, octavo.server.running, octavo.server.routes.mcp\n"
        "from octavo import Memory, open_store\n"
        "assert not [name for name in sys.modules if name == 'mcp' or name.startswith(('mcp.', 'fastmcp'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@only_torture
def test_what_it_takes_to_start(url, record_property):
    """Measured, not asserted: the CPU beside importing the SDK, 0.35 s on an idle machine."""

    def cpu(*command, said=""):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=said, capture_output=True, text=True, check=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    hello = json.dumps(HELLO) + "\n"
    sdk = min(cpu(sys.executable, "-c", "import mcp.server.mcpserver") for _ in range(2))
    whole = min(cpu(*COMMAND, "--store", url, said=hello) for _ in range(2))
    record_property("cpu_seconds_beside_the_sdk", round(whole - sdk, 3))
    print(f"\noctavo mcp takes {whole - sdk:.2f} s of CPU beside the SDK's {sdk:.2f} s")
    assert whole < 3 * sdk + 1


SPEAKER = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main(url, name, octavo):
    server = StdioServerParameters(command=octavo, args=["mcp", "--toolset", "graph", "--store", url])
    async with Client(server) as client:
        for number in range(100):
            entity = {"name": f"{name}-{number}", "entityType": "t", "observations": []}
            assert not (await client.call_tool("create_entities", {"entities": [entity]})).is_error
            said = [{"entityName": "shared", "contents": [f"{name}-{number}"]}]
            assert not (await client.call_tool("add_observations", {"observations": said})).is_error

asyncio.run(main(*sys.argv[1:]))
"""
WRITER = """
import asyncio, sys
from octavo import Scope, open_store
from octavo.mcp.graph import Entity, Graph

async def main(url, name, *_):
    async with open_store(url) as store:
        graph = Graph(store, Scope(user="default_user"))
        for number in range(100):
            assert await graph.create_entities([Entity(f"{name}-{number}", "t", [])])
            assert await graph.add_observations([("shared", [f"{name}-{number}"])]) == [[f"{name}-{number}"]]

asyncio.run(main(*sys.argv[1:]))
"""


@sampled(
    ("kind", "program"),
    [pytest.param("sqlite", SPEAKER, id="sqlite over MCP"), *((kind, WRITER) for kind in LASTING)],
    share=6,
)
def test_two_processes_lose_nothing(tmp_path, fresh_url, kind, program):
    """They write 200 times each, half of it to one and the same entity; once as two programs, each with a server of its own."""
    url = url_of(kind, tmp_path, fresh_url)

    async def graph(work):
        async with open_store(url) as store:
            return await work(Graph(store, Scope(user="default_user")))

    asyncio.run(graph(lambda graph: graph.create_entities([Entity("shared", "t", [])])))
    writers = [
        subprocess.Popen([f"{programs()}/python", "-c", program, url, name, command()[0]])
        for name in ("a", "b")
    ]
    assert [each.wait(timeout=240) for each in writers] == [0, 0]
    whole = asyncio.run(graph(Graph.read))
    wanted = sorted(f"{name}-{number}" for name in "ab" for number in range(100))
    assert sorted(each.name for each in whole.entities) == [*wanted, "shared"]
    assert sorted(whole.entities[0].observations) == wanted
