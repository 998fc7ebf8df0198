"""What AgentScope, LangChain and mem0 themselves write is read; and tables of database servers."""

import json
from pathlib import Path

import asyncmy
import asyncpg
import pytest
from import_cases import LANGCHAIN

from integrations.environment import prepared, ran
from octavo import open_store
from octavo.chat import ChatMemory
from octavo.conversation import StoreChatMessageHistory
from octavo.importers.sources import ImportSource, open_reader
from octavo.importers.values import DefaultOwner, bring
from octavo.layers import LayeredMemory
from octavo.stores.sql.urls import parse

pytestmark = pytest.mark.timeout(900)
HERE = Path(__file__).parent
#: As bench/peers/environment.py has them.
MAKERS = (
    "agentscope==1.0.21", "mcp==1.30.0", "tqdm==4.70.1", "langchain-community==0.4.2", "sqlalchemy[asyncio]==2.1.8",
    "aiosqlite==0.22.1",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the makers wrote."""
    made = tmp_path_factory.mktemp("made")
    ran(prepared("makers", MAKERS), HERE / "makers_run.py", made, cwd=made)
    return made


@pytest.fixture
async def store(tmp_path):
    async with open_store(f"sqlite:///{tmp_path / 'octavo.db'}") as opened:
        yield opened


async def brought(format_, source, store, **owner):
    given, read = ImportSource.parse(str(source), format_), open_reader(format_)
    told = await bring(lambda: read(given, DefaultOwner(**owner)), store, "run")
    assert told.unreadable == []
    again = await bring(lambda: read(given, DefaultOwner(**owner)), store, "run")
    assert (again.added, again.read) == (0, told.read)
    return told


@pytest.mark.parametrize("spelled", ["agentscope.db", "sqlite:///"])
async def test_agentscope_tables(folder, store, spelled):
    path = folder / "agentscope.db"
    told = await brought("agentscope", path if spelled != "sqlite:///" else f"sqlite:///{path}", store)
    assert told.collections == {"messages": 6}
    for user, session in (("lin", "monday"), ("bob", "tuesday")):
        memory = ChatMemory(store, user_id=user, session_id=session)
        assert [(m.name, m.role, m.get_text_content()) for m in await memory.get_memory()] == [
            ("lin", "user", "我住在柏林。"),
            ("Friday", "assistant", "Noted."),
            ("system", "system", "Be kind."),
        ]
        assert len(await memory.get_memory(mark="hint")) == 1


async def test_agentscope_sessions(folder, store):
    told = await brought("agentscope", folder / "states", store, user="lin")
    assert told.collections == {"messages": 3, "summaries": 1}
    summary, first, *_ = await ChatMemory(store, user_id="lin", session_id="monday").get_memory()
    assert (summary.content, first.content) == ("They spoke of Berlin.", "我住在柏林。")


@pytest.mark.parametrize("name", ["langchain.db", "files"])
async def test_langchain(folder, store, name):
    told = await brought("langchain", folder / name, store, user="lin")
    assert told.collections == {"messages": 3}
    human, ai, tool = await StoreChatMessageHistory(store, "monday", "lin").aget_messages()
    assert (human.content, ai.content, tool.content) == ("I live in Berlin.", "Noted.", "done")
    assert (ai.tool_calls[0]["args"], tool.tool_call_id) == ({"city": "Berlin"}, "t1")


async def test_mem0_history(store, tmp_path):
    python = prepared("mem0", ("mem0ai==2.2.1", "langgraph==1.2.20"))
    ran(python, HERE / "mem0_history_run.py", tmp_path / "history.db", cwd=tmp_path)
    told = await brought("mem0", tmp_path / "history.db", store, user="ann")
    assert (told.collections, told.left_out) == (
        {"profile": 2, "log": 2, "messages": 1},
        {"memories that were deleted": 1},
    )
    facts = await LayeredMemory(store).profile(user_id="ann")
    assert {fact.content for fact in facts} == {"Lives in Potsdam", "Likes tea"}
    [said] = await ChatMemory(store, user_id="lin", session_id="monday").get_memory()
    assert said.content == "I moved."


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_tables_of_a_server(kind, store, fresh_url):
    """`message_store` as LangChain's SQLAlchemy makes it there."""
    url = fresh_url(kind)
    rows = [(json.dumps(message),) for message in LANGCHAIN[:2]] * 700
    if kind == "postgres":
        db = await asyncpg.connect(url)
        await db.execute("CREATE TABLE message_store (id SERIAL PRIMARY KEY, session_id TEXT, message TEXT)")
        await db.executemany("INSERT INTO message_store (session_id, message) VALUES ('monday', $1)", rows)
        await db.close()
    else:
        address = parse(url)
        db = await asyncmy.connect(
            host=address.host, port=address.port or 3306, user=address.user, password=address.password,
            db=address.path.strip("/"), autocommit=True, unix_socket=address.option("unix_socket", None),
        )  # fmt: skip
        async with db.cursor() as cursor:
            await cursor.execute(
                "CREATE TABLE message_store (id INTEGER AUTO_INCREMENT PRIMARY KEY, session_id TEXT, message TEXT)"
            )
            await cursor.executemany(
                "INSERT INTO message_store (session_id, message) VALUES ('monday', %s)", rows
            )
        await db.ensure_closed()
    told = await brought("langchain", url, store, user="lin")
    assert told.read == 1400
    assert await StoreChatMessageHistory(store, "monday", "lin").acount() == 1400
