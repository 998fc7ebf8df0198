"""What is remembered from clause to clause while a text is read: whom it speaks of, and of which day."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from octavo.layers.deciding import OwnerType
from octavo.layers.rules.times import When, times

DEEPEST = 3  # how often somebody may tell that somebody told
_NARRATED_ZH = re.compile(
    r"(?:^|[，。！？；,\s：:但而且]|今天|昨天|刚才|得知|据)(?:该|这位|本)?用户(?!体验|研究|名|界面|数据|增长|群|需求|画像|反馈|手册|量|登录|注册|们|运营|中心)"
)
_NARRATED_EN = re.compile(r"\b(?:the|this|our) user\b|(?:^|[.!?;]\s*)user (?=[a-z])", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"我(?!们公司)|\b(?:i|i'm|i've|my|we)\b", re.IGNORECASE)
_DAYLESS = re.compile(
    r"^(?:凌晨|清晨|早上|早晨|清早|上午|中午|下午|傍晚|晚上|夜里|半夜|深夜)?(?:[\d零一二两三四五六七八九十]{1,3}(?:点|[:：]).*)?$"
    r"|^(?:(?:at|around|by)\s.*|in the \w+|\d.*[ap]m)$",
    re.IGNORECASE,
)


@dataclass
class Telling:
    """Who owns the memory, how the text speaks of them, and what the last clauses were about."""

    owner_type: OwnerType
    at: datetime
    narrated: bool  # somebody else writes about the owner: "the user is …"; 我 is then the writer
    first_person: bool
    focus: bool = True  # whether what was spoken of last is the owner
    when: When | None = field(default=None)  # the last time named in this sentence

    @classmethod
    def of(cls, text: str, owner_type: OwnerType, at: datetime) -> "Telling":
        narrated = owner_type == "user" and bool(_NARRATED_ZH.search(text) or _NARRATED_EN.search(text))
        return cls(owner_type, at, narrated, first_person=bool(_FIRST_PERSON.search(text)))

    @property
    def name_zh(self) -> str:
        return "用户" if self.owner_type == "user" else "智能体"

    @property
    def name_en(self) -> str:
        return "The user" if self.owner_type == "user" else "The agent"

    def moment(self, clause: str) -> When | None:
        """The time a clause names, or the one that still holds from earlier in its sentence."""
        found = times(clause, self.at)
        told = next((one for one in found if one.at is not None), found[0] if found else None)
        if told is None:
            return self.when
        if told.at and self.when and self.when.at and _DAYLESS.match(told.words):
            # 昨天去了公司，下午开了会: the afternoon is yesterday's.
            told = told._replace(at=datetime.combine(self.when.at.date(), told.at.timetz()))
        self.when = told
        return told
