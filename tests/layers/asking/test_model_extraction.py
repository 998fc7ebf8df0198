"""Extraction by a model on a real HTTP server: what it is asked, what is made of its answers, what it may not do."""

import asyncio
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from asking_kit import ENGINEER, KEY, NOON, PARTY, TEXT, data_of, decide, fact, found, ruled

from agent.chat_endpoint import chat_endpoint, said
from octavo.layers.llm_extractor import ModelExtractor
from octavo.layers.llm_messages import MOST_CHARACTERS, MOST_FACTS
from octavo.layers.values import CATEGORIES, Decision, Known
from warm import programs


async def test_it_asks_and_decides(server, rules, extractor):
    """The seed's sentence: facts by schema, in their order, with what is known in the prompt; the rules are not asked."""
    server.script.append(
        found(
            fact(action="ignore", content="用户是软件工程师", reason="已经知道", target=ENGINEER.id),
            fact(category="education", content="用户毕业于北京大学", reason="新的学历"),
            fact(layer="event", category="meeting", content="用户参加了技术分享会", reason="发生的事",
                 happened_at="2026-03-01T15:00:00+08:00"),
        )
    )  # fmt: skip
    assert await decide(extractor, known=[ENGINEER, PARTY]) == [
        Decision(
            action="ignore", layer="profile", category="career", content="用户是软件工程师", reason="已经知道",
            target=ENGINEER.id, quote="他是一名软件工程师",
        ),
        Decision(
            action="insert", layer="profile", category="education", content="用户毕业于北京大学", reason="新的学历",
            quote="他是一名软件工程师",
        ),
        Decision(
            action="insert", layer="event", category="meeting", content="用户参加了技术分享会", reason="发生的事",
            happened_at=datetime(2026, 3, 1, 7, tzinfo=UTC), quote="他是一名软件工程师",
        ),
    ]  # fmt: skip
    [request] = server.requests
    assert request["model"] == "m"
    assert (request["temperature"], request["max_tokens"]) == (0, 8000)
    assert data_of(request) == {
        "now": NOON.isoformat(),
        "memories": [
            {"id": each.id, "layer": each.layer, "category": each.category, "content": each.content}
            for each in (ENGINEER, PARTY)
        ],
        "text": TEXT,
    }
    wanted = request["response_format"]["json_schema"]
    assert wanted["strict"] is True
    properties = wanted["schema"]["properties"]["facts"]["items"]["properties"]
    assert properties["action"]["enum"] == ["insert", "update", "ignore"]
    assert properties["category"]["enum"] == [*CATEGORIES["profile"], *CATEGORIES["event"]]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert rules.asked == []


@pytest.mark.parametrize(
    ("text", "owner", "begins", "names"),
    [
        ("我喜欢猫", "user", "你负责维护一个用户的记忆", "用户是一名护士"),
        ("我喜欢猫", "agent", "你负责维护一个智能体的记忆", "智能体是一名护士"),
        ("I like cats", "user", "You keep the memory of one user", "The user is a nurse"),
        ("我 like big fluffy cats and dogs", "agent", "You keep the memory of one agent", "The agent is a nurse"),
    ],
)  # fmt: skip
async def test_it_asks_in_the_language_of_the_text(server, extractor, text, owner, begins, names):
    server.script.append(found())
    assert await decide(extractor, text, owner_type=owner) == []
    system = server.requests[0]["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith(begins)
    assert names in system["content"]
    assert all(name in system["content"] for names in CATEGORIES.values() for name in names)


async def test_an_update(server, extractor):
    server.script.append(found(fact(action="update", content="用户是高级软件工程师", target=ENGINEER.id)))
    [decision] = await decide(extractor, known=[ENGINEER])
    assert (decision.action, decision.target) == ("update", ENGINEER.id)


# --- answers that can be repaired -------------------------------------------------------------------------------------


PLAIN = json.dumps({"facts": [fact()]}, ensure_ascii=False)


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}\n```\nThat is all I found.",
        f"Here are the facts [as asked]:\n{PLAIN}\nAnything else?",
        f"<think>The {{user}} may be a nurse: [1]</think>\n{PLAIN}",
        PLAIN.replace("}]}", ",}],}"),
        "Of course! " + PLAIN.replace("}]}", ", } , ], }") + " {done}",
        json.dumps([fact()]),
        json.dumps(fact()),
        json.dumps({"memories": [fact()]}),
        json.dumps({"facts": fact()}),
        json.dumps({"count": 1, "facts": [fact(), {"content": ""}, None, 7]}),
        PLAIN.replace("用户是一名厨师", "用户是\n一名厨师").replace("用户是\n一名厨师", "用户是一名厨师\n"),
        json.dumps(fact(action="INSERT ", layer="Profile", category="Career")),
        json.dumps(fact(layer="event")),
        json.dumps(fact(layer=None)),
        json.dumps(fact(target="nobody", happened_at="2026-03-01")),
    ],
)
async def test_repaired(server, rules, extractor, answer):
    """Fences, thoughts, remarks, commas, a layer that does not fit: the fact is the same."""
    server.script.append(said(answer))
    assert await decide(extractor) == [
        Decision(action="insert", layer="profile", category="career", content="用户是一名厨师", reason="新的职业", quote="他是一名软件工程师")
    ]  # fmt: skip
    assert len(server.requests) == 1
    assert rules.asked == []


async def test_commas_inside_of_words_stay(server, extractor):
    content = 'likes "a, ]" and \\ , }'
    server.script.append(said(json.dumps({"facts": [fact(content=content)]}).replace("}]}", ",}]}")))
    [decision] = await decide(extractor)
    assert decision.content == content


async def test_facts_one_to_a_line(server, extractor):
    server.script.append(said("\n".join(json.dumps(fact(content=f"fact {n}")) for n in range(3))))
    assert [each.content for each in await decide(extractor)] == ["fact 0", "fact 1", "fact 2"]


async def test_an_unknown_category_is_the_rules_to_say(server, rules, extractor):
    """As they see the statement; what they do not see either gets the plainest of its layer."""
    rules.decided["用户爱猫"] = [ruled(layer="profile", category="preference")]
    rules.decided["两个"] = [ruled(), ruled()]
    server.script.append(
        found(
            fact(content="用户爱猫", category="animals"),
            fact(content="用户爱狗", category="animals"),
            fact(content="两个", layer="event", category=None),
            fact(content="没有层", layer="both", category=5),
        )
    )
    assert [(each.layer, each.category) for each in await decide(extractor)] == [
        ("profile", "preference"),
        ("profile", "preference"),
        ("event", "other"),
        ("event", "other"),
    ]
    assert [asked[0] for asked in rules.asked] == ["用户爱猫", "用户爱狗", "两个", "没有层"]


@pytest.mark.parametrize("target", ["user_somebody_else_9.9", None, "", ENGINEER.id.upper(), 5, PARTY.id])
async def test_an_update_of_no_memory(server, rules, extractor, target):
    """Of an id that is not known, or of the other layer: the rules compare, and without them it is new. Nothing is lost."""
    senior, nurse = "用户是高级软件工程师", "用户是一名厨师"
    rules.decided[senior] = [
        ruled(action="update", layer="profile", category="career", target=ENGINEER.id, reason="职级变了")
    ]
    server.script.append(
        found(
            fact(action="update", content=senior, target=target),
            fact(action="update", content=nurse, target=target),
        )
    )
    first, second = await decide(extractor, known=[ENGINEER, PARTY])
    assert (first.action, first.target, first.content) == ("update", ENGINEER.id, senior)
    assert (second.action, second.target, second.content) == ("insert", None, nurse)
    assert second.reason == "文本中提到的新信息。"  # what the model gave was the reason of an update


@pytest.mark.parametrize("action", ["ignore", "delete", "drop table", None, 7])
async def test_what_may_not_be_done_is_compared(server, rules, extractor, action):
    """A model cannot make a fact vanish by an action that does not exist, nor by calling it known when nothing is."""
    server.script.append(found(fact(action=action, target="user_u_404")))
    [decision] = await decide(extractor, known=[ENGINEER])
    assert (decision.action, decision.target) == ("insert", None)
    assert rules.asked == [("用户是一名厨师", [ENGINEER.id], "user", NOON)]


async def test_an_ignored_fact_is_of_the_place_of_what_it_repeats(server, extractor):
    server.script.append(found(fact(action="ignore", target=PARTY.id)))
    [decision] = await decide(extractor, known=[PARTY])
    assert (decision.action, decision.layer, decision.category, decision.target) == (
        "ignore", "event", "event", PARTY.id,
    )  # fmt: skip


async def test_one_change_of_a_memory_in_a_text(server, extractor):
    """A second update of the same memory would lose the first."""
    server.script.append(
        found(
            fact(action="update", content="用户是经理", target=ENGINEER.id),
            fact(action="update", content="用户在上海工作", target=ENGINEER.id),
        )
    )
    first, second = await decide(extractor, known=[ENGINEER])
    assert (first.action, first.target) == ("update", ENGINEER.id)
    assert (second.action, second.target) == ("insert", None)


async def test_a_memory_that_was_shown_in_part_is_not_overwritten(server, extractor):
    long = msgspec.structs.replace(ENGINEER, content="长" * 5000)
    server.script.append(found(fact(action="update", target=long.id)))
    [decision] = await decide(extractor, known=[long])
    assert decision.action == "insert"
    assert len(data_of(server.requests[0])["memories"][0]["content"]) == 1000


async def test_what_is_known_word_for_word_is_not_new(server, extractor):
    """Whatever the model says of it; but C++ is not C."""
    known = [ENGINEER, Known(id="c", layer="profile", category="ability", content="The user knows C")]
    server.script.append(
        found(
            fact(content="用户是一名软件工程师。"),
            fact(content="The user knows C++", category="ability"),
            fact(action="update", content="the user knows c.", category="ability", target=ENGINEER.id),
        )
    )
    assert [(each.action, each.target) for each in await decide(extractor, known=known)] == [
        ("ignore", ENGINEER.id),
        ("insert", None),
        ("ignore", "c"),
    ]


async def test_facts_that_repeat_each_other_are_one(server, extractor):
    server.script.append(
        found(fact(), fact(content="用户是一名厨师。", reason="again"), fact(content="别的"))
    )
    assert [each.content for each in await decide(extractor)] == ["用户是一名厨师", "别的"]


async def test_the_model_is_shown_what_matters_and_the_rules_know_the_rest(server, rules):
    """The likest memories go into the prompt; a fact new to the model is compared with the others by the rules."""
    known = [
        Known(id=f"k{n}", layer="event", category="other", content=f"something else {n}") for n in range(30)
    ]
    known.insert(20, ENGINEER)
    rules.decided["又一件事"] = [ruled(action="ignore", target="k7", reason="规则：已知")]
    server.script.append(found(fact(layer="event", category="other", content="又一件事"), fact()))
    async with chat_endpoint() as other:
        other.script.append(found())
        none = ModelExtractor("m", base_url=other.url, known_memories=0, fallback=rules)
        assert await decide(none, known=known) == []
        assert data_of(other.requests[0])["memories"] == []
        await none.close()
    few = ModelExtractor("m", base_url=server.url, known_memories=3, fallback=rules)
    first, second = await decide(few, known=known)
    await few.close()
    assert [each["id"] for each in data_of(server.requests[0])["memories"]] == ["k0", "k1", ENGINEER.id]
    assert (first.action, first.target) == ("ignore", "k7")
    assert first.reason == "规则：已知"
    assert second.action == "insert"
    unseen = [each.id for each in known if each.id not in ("k0", "k1", ENGINEER.id)]
    assert rules.asked == [("又一件事", unseen, "user", NOON), ("用户是一名厨师", unseen, "user", NOON)]


@pytest.mark.parametrize(
    ("spelled", "at", "expected"),
    [
        ("2026-02-28", NOON, datetime(2026, 2, 28, tzinfo=UTC)),
        ("2026-02-28T15:00:00Z", NOON, datetime(2026, 2, 28, 15, tzinfo=UTC)),
        (
            "2026-02-28T15:00",
            NOON.astimezone(timezone(timedelta(hours=8))),
            datetime(2026, 2, 28, 7, tzinfo=UTC),
        ),
        ("yesterday", NOON, None),
        ("2026-02-30", NOON, None),
        ("0001-01-01T00:00:00+14:00", NOON, None),
        ("0221-01-01", NOON, None),  # older than any store keeps
        (20260228, NOON, None),
        ("", NOON, None),
    ],
)
async def test_when_it_happened(server, extractor, spelled, at, expected):
    """A time that is none is left out; the fact stays."""
    server.script.append(found(fact(layer="event", category="meeting", happened_at=spelled)))
    [decision] = await decide(extractor, at=at)
    assert decision.happened_at == expected


# --- what docs/extraction.md says about it -----------------------------------------------------------------------------


PAGE = Path(__file__).parents[3] / "docs" / "extraction.md"


async def run(program, folder):
    started = await asyncio.create_subprocess_exec(
        f"{programs()}/python", "-c", program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    printed, told = await started.communicate()
    assert started.returncode == 0, told.decode()
    return printed.decode(), told.decode()


async def test_the_page(server, tmp_path):
    """Its program prints what is shown, with a model that answers and with none."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## With a model\n")[2]
    [program] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    [shown] = re.findall(r"^```output\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    address = "http://127.0.0.1:11434/v1"
    assert address in program
    rows = [line.split(maxsplit=3) for line in shown.splitlines()]
    server.script.append(
        found(*(fact(action=action, layer=layer, category=category, content=content) for action, layer, category, content in rows))
    )  # fmt: skip
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    assert await run(program.replace(address, server.url), tmp_path / "with") == (shown, "")
    assert [request["model"] for request in server.requests] == ["qwen3:8b"]
    printed, told = await run(program.replace(address, "http://127.0.0.1:1/v1"), tmp_path / "without")
    assert printed == shown
    assert "the rules decide" in told
    section = " ".join(section.split())
    assert f"{MOST_FACTS} facts" in section
    assert f"{MOST_CHARACTERS:,} characters" in section
