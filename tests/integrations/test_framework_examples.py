"""examples/: the programs for frameworks, each in the environment of its framework, print what is written here."""

import pytest
from environment import ROOT, prepared, ran_warm
from test_agentscope import REQUIREMENTS

from sampled import sampled

EXAMPLES = ROOT / "examples"
SHOWN = {
    "openai_agents_session": """\
monday: My dentist is Dr. Osei.
  Noted.
monday: Who is my dentist?
  Your dentist is Dr. Osei.
another session: Who is my dentist?
  I do not know.
""",
    "pydantic_ai_history": """\
lin, monday: My dentist is Dr. Osei.
  Dr. Osei. (2 messages)
lin, tuesday: Who is my dentist?
  Dr. Osei. (4 messages)
bob, tuesday: Who is my dentist?
  I do not know. (4 messages)
""",
    "agent_framework_history": """\
lin, monday: I am allergic to peanuts.
  Noted. (told 1 messages)
lin, monday: What shall I cook?
  Noodles with vegetables. (told 3 messages)
lin, tuesday: What shall I cook?
  Noodles with vegetables. (told 1 messages)
bob, tuesday: What shall I cook?
  Noodles with peanut sauce! (told 1 messages)
""",
    "llama_index_memory": """\
What shall I cook?
  Noodles with vegetables.
10 messages are kept, 5 are told, the first sentence: False
learnt: ['The user is allergic to peanuts']
""",
    "langgraph_threads": """\
May I remember 'My dentist is Dr. Osei.'?
['My dentist is Dr. Osei.', 'Remembered.']
['My dentist is Dr. Osei.']
""",
    "anthropic_memory_tool": """\
I fly to Shanghai on Friday.
  File created successfully at: /memories/trips/plan.md
When do I fly?
  Here's the content of /memories/trips/plan.md with line numbers:
     1\tLin flies to 上海 on Friday.
documents memories/trips/plan.md | Lin flies to 上海 on Friday.
""",
    "langchain_agent": """\
My dentist is Dr. Osei.
  remember: Lin's dentist is Dr. Osei.
Who is my dentist?
  search_memory: Lin's dentist is Dr. Osei.
for a chain: ["Lin's dentist is Dr. Osei."]
""",
}
ELSEWHERE = {
    "adk_services": """\
lin, monday: My dentist is Dr. Osei.
  You told me of Dr. Osei.
lin, tuesday: Who is my dentist?
  You told me of Dr. Osei.
bob, tuesday: Who is my dentist?
  I do not know.
""",
    "agentscope_memory": """\
lin: My dentist is Dr. Osei.
  Noted. (2 messages)
lin: Who is my dentist?
  Dr. Osei, you told me. (4 messages)
bob: Who is my dentist?
  I do not know. (2 messages)
""",
}

pytestmark = pytest.mark.timeout(900)


@sampled("name", SHOWN, share=4)
def test_what_it_prints(name, frameworks, tmp_path):
    """And it leaves nothing behind."""
    assert ran_warm(frameworks, EXAMPLES / f"{name}.py", cwd=tmp_path) == SHOWN[name]
    assert list(tmp_path.iterdir()) == []


def test_what_the_one_for_adk_prints(adk, tmp_path):
    assert ran_warm(adk, EXAMPLES / "adk_services.py", cwd=tmp_path) == ELSEWHERE["adk_services"]
    assert list(tmp_path.iterdir()) == []


def test_what_the_one_for_agentscope_prints(tmp_path):
    python = prepared("AgentScope", REQUIREMENTS)
    assert ran_warm(python, EXAMPLES / "agentscope_memory.py", cwd=tmp_path) == ELSEWHERE["agentscope_memory"]
    assert list(tmp_path.iterdir()) == []
