"""A fact found in a text, and how its parts are spelt so that equal ones compare equal."""

import re
from datetime import datetime
from typing import NamedTuple

from octavo.kernel.terms.english import STOP_WORDS, stem
from octavo.kernel.text import fold
from octavo.layers.values import Layer

YES, NO = "yes", "no"
#: Of these there is one, and "not this one" is worth knowing.
DENIED = frozenset(
    (
        "occupation",
        "employer",
        "workplace",
        "residence",
        "home town",
        "name",
        "student",
        "study",
        "civil status",
    )
)


class Fact(NamedTuple):
    """One statement: what it is about and what it says of it (`slots`), or, for what happened, its words.

    A slot of something that can have one value only is {"occupation": "nurse"}; of something that can have many,
    the value is part of the name: {"like:coffee": "yes"}. So a denial is a changed value and never the same fact.
    """

    layer: Layer
    category: str
    content: str
    slots: dict[str, str]
    words: frozenset[str] = frozenset()
    negated: bool = False
    happened_at: datetime | None = None
    time_text: str = ""
    implied: "Fact | None" = None  # what changes with what happened: who moved lives elsewhere now


class Statement(NamedTuple):
    """A category, and the slots of each fact of it; `items` are the things of a list as they were written."""

    category: str
    slots: list[dict[str, str]]
    items: tuple[str, ...] = ()


_HAN = re.compile(r"[\u3400-\u9fff]")
_SPOKEN_EN = re.compile(r"\W*(?:(?:hi|hello|hey|well|actually|and|but),?\s)?(?:i|i'm|i've|my|we|our|the user|the user's|the agent|the agent's|she|he)\s", re.IGNORECASE)  # fmt: skip
_WORD = re.compile(r"[a-z0-9+#]+(?:[.'’-][a-z0-9+#]+)*|[\u3400-\u9fff]+")
_EMPTY_ZH = re.compile(
    "[的了呢吧啊呀嘛哦着过]|一名|(?<!第)一位|一个|这个|那个|非常|特别|比较|有点|一些|一下|其实|真的|现在|目前|自己"
)
_OWNER_ZH = re.compile("我们?|用户|智能体|他们?|她们?")
_WEAK_WORDS = "user agent user's agent's really very quite pretty also currently much lot lots well just"
_WEAK = STOP_WORDS.union(_WEAK_WORDS.split())
SYNONYMS = {
    "程序员": "软件工程师", "码农": "软件工程师", "软件开发": "软件工程师", "软件开发工程师": "软件工程师", "开发工程师": "软件工程师",
    "软件开发者": "软件工程师", "开发者": "软件工程师", "software developer": "软件工程师", "programmer": "软件工程师",
    "software engineer": "软件工程师", "developer": "软件工程师", "coder": "软件工程师", "swe": "软件工程师",
    "大夫": "医生", "doctor": "医生", "physician": "医生", "教师": "老师", "teacher": "老师", "pm": "产品经理",
    "product manager": "产品经理", "lawyer": "律师", "attorney": "律师", "nurse": "护士", "accountant": "会计", "会计师": "会计",
    "designer": "设计师", "北大": "北京大学", "清华": "清华大学", "复旦": "复旦大学", "浙大": "浙江大学", "上海交大": "上海交通大学",
    "英文": "英语", "english": "英语", "中文": "汉语", "普通话": "汉语", "mandarin": "汉语", "chinese": "汉语", "日文": "日语",
    "japanese": "日语", "french": "法语", "german": "德语", "spanish": "西班牙语", "coffee": "咖啡", "tea": "茶", "swimming": "游泳",
    "running": "跑步", "reading": "阅读", "看书": "阅读", "读书": "阅读", "engineer": "工程师", "student": "学生",
    "已婚": "married", "结婚": "married", "未婚": "single", "单身": "single", "离异": "divorced", "离婚": "divorced", "beijing": "北京", "shanghai": "上海",
    "shenzhen": "深圳", "guangzhou": "广州", "hangzhou": "杭州", "chengdu": "成都", "nanjing": "南京", "wuhan": "武汉", "hong kong": "香港",
}  # fmt: skip


def plain(value: str) -> str:
    """A value as it is compared: case, particles, articles and word forms aside; near synonyms are one."""
    value = fold(value).strip(" \t.,;:!?。，；：！？、\"'“”‘’()（）")
    if found := SYNONYMS.get(value):
        return found
    if _HAN.search(value):
        short = _EMPTY_ZH.sub("", value).replace(" ", "")
        return SYNONYMS.get(short, short) or value
    strong = [word for word in _WORD.findall(value) if word not in _WEAK]
    if found := SYNONYMS.get(" ".join(strong)):
        return found
    return " ".join(stem(word) for word in strong) or value


def words(text: str) -> frozenset[str]:
    """What a happening is compared by: pairs of Chinese characters and stems of English words, the empty ones aside."""
    found: set[str] = set()
    for run in _WORD.findall(_EMPTY_ZH.sub("", _OWNER_ZH.sub("", fold(text)))):
        if _HAN.match(run):
            found.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif run not in _WEAK:
            found.add(stem(run))
    return frozenset(found)


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two happenings are told in nearly the same words."""
    if not one or not other:
        return one == other
    shared = len(one & other)
    if not shared or any(word.isdigit() for word in one ^ other):
        return False  # five kilometres are not ten
    fewer = min(len(one), len(other))
    return shared / len(one | other) >= 0.72 or (fewer >= 3 and shared / fewer >= 0.9)


def has_han(text: str) -> bool:
    """Whether a text is read by the Chinese rules; "my name is 王芳" is not."""
    return _HAN.search(text) is not None and _SPOKEN_EN.match(text) is None


def denied(statement: Statement | None) -> Statement | None:
    """That something is not so, or no more; None where that says nothing."""
    if statement is None or not all(
        ":" in key or key in DENIED for slots in statement.slots for key in slots
    ):
        return None
    return statement._replace(slots=[dict(map(_not, slots.items())) for slots in statement.slots])


def _not(slot: tuple[str, str]) -> tuple[str, str]:
    key, value = slot
    return (key, NO if value == YES else YES) if ":" in key else (f"not {key}", value)
