"""examples/: each file is short, needs no network, leaves nothing behind and prints what is written here."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from warm import programs

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

SHOWN = {
    "chat_memory": """\
kept 7 messages
hint: Ask one question at a time.
used and gone: 1
compressed 4 messages: 113 tokens are now 92

what the model is told:
  - user: My name is Lin.
  - user: I am allergic to peanuts, remember that.
  - assistant: 好的，我会记住您对花生过敏。
  请订湖畔居，每晚不要超过400元。
  已预订湖畔居四晚，共1520元。
nothing was deleted: 6 messages
""",
    "conversation_memory": """\
8 messages kept, names heard: 小明, 杭州, 张伟, 北京

the last turn:
Human: What should he take along?
AI: The software contract.

about 张伟:
我的同事张伟是设计师，他下周去北京出差。

in short:
- Human: 我叫小明，在杭州做软件工程师。
- Human: 请记住，我对花生过敏。
- Human: What should he take along?
""",
    "layered_memory": """\
> 用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。
  insert  profile  career     用户是一名软件工程师
  insert  profile  education  用户毕业于北京大学
  insert  event    meeting    用户下午参加了技术分享会
> 用户毕业于北京大学。
  ignore  profile  education  用户毕业于北京大学
> 他现在是高级软件工程师。
  update  profile  career     用户现在是高级软件工程师

profile:
  preference  v1  Prefers green tea
  career      v2  用户现在是高级软件工程师
  education   v1  用户毕业于北京大学
events:
  meeting     v1  用户下午参加了技术分享会

found: Prefers green tea

changed, because: “用户现在是高级软件工程师”比已有记忆“用户是一名软件工程师”更具体，以新的为准。
undone: 用户是一名软件工程师
  insert  v1  用户是一名软件工程师
  update  v2  用户现在是高级软件工程师
  update  v3  用户是一名软件工程师
""",
    "three_faces": """\
chat: 4 messages
conversation, the last turn:
Human: 我喜欢喝绿茶，对花生过敏。
AI: 记住了。
chat again: 6 messages
layers:
  career      The user is a software engineer in Hangzhou
  preference  用户喜欢喝绿茶
  preference  用户对花生过敏
recall, over all of it:
  profile    用户喜欢喝绿茶
  messages   我喜欢喝绿茶，对花生过敏。
  profile    用户对花生过敏
messages: 6 records
profile: 3 records
log: 3 records
""",
    "with_memory": """\
monday: I am allergic to peanuts.
  Noted.
tuesday: What shall I cook?
  Noodles with vegetables, no peanuts.
without memory:
  Noodles with peanut sauce!
""",
}
#: What is run, and what it prints compared, by tests of its own.
RUN_BY = {
    "chat_redis_service": "examples/test_chat_services.py",
    "chat_sqlalchemy_service": "examples/test_chat_services.py",
    "mem0_langgraph": "mem0/test_mem0_page.py",
    "first_memory": "cli/test_first_memory.py",
    "memory_service": "config/test_service_example.py",
    "memory_storage": "agent/test_agent_page.py",
    "recall": "search/test_search_page.py",
    **dict.fromkeys(
        (
            "openai_agents_session",
            "langgraph_threads",
            "anthropic_memory_tool",
            "pydantic_ai_history",
            "agent_framework_history",
            "llama_index_memory",
            "adk_services",
            "agentscope_memory",
            "langchain_agent",
        ),
        "integrations/test_framework_examples.py",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_prints(name, tmp_path):
    done = subprocess.run(
        [f"{programs()}/python", "-W", "error", EXAMPLES / f"{name}.py"], cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "OPENAI_API_KEY": "", "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == SHOWN[name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_run_and_short(path):
    """Under 60 lines, with a first line that says what it shows, and run here or by the test that names it."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert ast.get_docstring(ast.parse(text))
    if path.stem not in SHOWN:
        assert path.stem in (ROOT / "tests" / RUN_BY[path.stem]).read_text(encoding="utf-8")


def test_every_face_has_one():
    """What stands in the table of faces of the README is used by an example."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    for face in ("Agent.create", "ChatMemory", "Conversation", "MemoryService(", "LayeredMemory("):
        assert any(face in text for text in texts.values()), face
    assert all(face in texts["three_faces"] for face in ("ChatMemory(", "Conversation", "LayeredMemory("))
