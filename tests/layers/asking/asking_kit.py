"""A model's answers, what is known, and rules that say what they are told, for the tests of extraction by a model."""

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from agent.chat_endpoint import http, said
from octavo.layers.llm_extractor import ModelExtractor
from octavo.layers.rules import RuleExtractor
from octavo.layers.values import Decision, Known

KEY = "sk-very-secret-0123456789"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEXT = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"
ENGINEER = Known(id="user_u_1.5", layer="profile", category="career", content="用户是一名软件工程师")
PARTY = Known(id="user_u_2.5", layer="event", category="event", content="用户参加了公司年会")

UNAUTHORISED = http("401 Unauthorized", json.dumps({"error": {"message": f"Incorrect key: {KEY}"}}).encode())


class Rules:
    """Stands in for the rules: what it decides is scripted by the text, and what it was asked is kept."""

    def __init__(self, **decided):
        self.decided = decided
        self.asked = []
        self.closed = False

    async def decide(self, text, known, *, owner_type, at):
        self.asked.append((text, [each.id for each in known], owner_type, at))
        return list(self.decided.get(text, ()))

    async def close(self):
        self.closed = True


def ruled(**more):
    return Decision(
        **{"action": "insert", "layer": "event", "category": "other", "content": "by rules", "reason": "ruled", **more}
    )  # fmt: skip


def fact(**more):
    return {
        "action": "insert", "layer": "profile", "category": "career", "content": "用户是一名厨师", "quote": "他是一名软件工程师", "reason": "新的职业",
        "target": None, "happened_at": None, **more,
    }  # fmt: skip


def found(*facts):
    return said(json.dumps({"facts": list(facts)}, ensure_ascii=False))


@asynccontextmanager
async def asking(url):
    """An extractor with the real rules behind it."""
    made = ModelExtractor("m", base_url=url, fallback=RuleExtractor())
    try:
        yield made
    finally:
        await made.close()


def decide(extractor, text=TEXT, known=(), owner_type="user", at=NOON):
    return extractor.decide(text, list(known), owner_type=owner_type, at=at)


def data_of(request):
    """What stands in the fence, which must be one and must hold nothing else."""
    content = request["messages"][1]["content"]
    head, data, tail = content.split("\n")
    assert (head, tail) == ("<data>", "</data>")
    assert "<" not in data
    assert ">" not in data
    return json.loads(data)
