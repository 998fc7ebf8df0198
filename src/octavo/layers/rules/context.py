"""What is remembered from clause to clause while a text is read: whom it speaks of, and of which day."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from octavo.layers.rules.facts import Fact, Statement, words
from octavo.layers.rules.moments import When, times, without_times
from octavo.layers.rules.profile_en import ENGLISH
from octavo.layers.rules.profile_zh import CHINESE
from octavo.layers.values import OwnerType

DEEPEST = 3  # how often somebody may tell that somebody told
_FIRST_PERSON = re.compile(r"我(?!们公司)|\b(?:i|i'm|i've|my|we)\b", re.IGNORECASE)
_DAYLESS = re.compile(
    r"^(?:凌晨|清晨|早上|早晨|清早|上午|中午|下午|傍晚|晚上|夜里|半夜|深夜)?(?:[\d零一二两三四五六七八九十]{1,3}(?:点|[:：]).*)?$"
    r"|^(?:(?:at|around|by)\s.*|in the \w+|\d.*[ap]m)$",
    re.IGNORECASE,
)


@dataclass
class Context:
    """Who owns the memory, how the text speaks of them, and what the last clauses were about."""

    owner_type: OwnerType
    at: datetime
    narrated: bool  # somebody else writes about the owner: "the user is …"; 我 is then the writer
    first_person: bool
    about_owner: bool = True  # whether what was spoken of last is the owner
    when: When | None = None  # the last time named in this sentence

    @classmethod
    def of(cls, text: str, owner_type: OwnerType, at: datetime) -> "Context":
        """The context in which a text begins."""
        narrated = owner_type == "user" and bool(
            CHINESE.NARRATED.search(text) or ENGLISH.NARRATED.search(text)
        )
        return cls(owner_type, at, narrated, first_person=bool(_FIRST_PERSON.search(text)))

    @property
    def pronoun_is_owner(self) -> bool:
        """A pronoun is the owner unless the text says "I" for the owner, or has just spoken of somebody else."""
        return self.about_owner and not (self.first_person and not self.narrated)

    def moment(self, clause: str) -> When | None:
        """The time a clause names, or the one that still holds from earlier in its sentence."""
        found = times(clause, self.at)
        named = next((one for one in found if one.at is not None), found[0] if found else None)
        if named is None:
            return self.when
        if named.at and self.when and self.when.at and _DAYLESS.match(named.words):
            # 昨天去了公司，下午开了会: the afternoon is yesterday's.
            named = named._replace(at=datetime.combine(self.when.at.date(), named.at.timetz()))
        self.when = named
        return named

    def event(
        self, category: str, clause: str, content: str, *, begins: int, negated: bool, implied: Fact | None
    ) -> Fact:
        """What happened; the words that it is compared by begin at `begins`, and leave out when it was."""
        when = self.moment(clause)
        return Fact(
            "event",
            category,
            content,
            {},
            words(without_times(clause[begins:], self.at)),
            negated,
            happened_at=when.at if when else None,
            time_text=when.words if when else "",
            implied=implied,
        )


def profile_facts(
    statement: Statement, clause: str, begins: int, gap: str, content: Callable[[str], str]
) -> list[Fact]:
    """The facts of a statement; the things of a list become a clause each, which `content` then spells.

    The statement begins at `begins`, and `gap` stands between that and a thing that is not found as it is written.
    """
    if len(statement.items) < 2:
        return [Fact("profile", statement.category, content(clause), slots) for slots in statement.slots]
    start = clause.find(statement.items[0], begins)
    head = clause[:start] if start > 0 else clause[:begins] + gap
    return [
        Fact("profile", statement.category, content(head + item), slots)
        for slots, item in zip(statement.slots, statement.items, strict=True)
    ]


def skipped(
    clause: str,
    at: int,
    patterns: Sequence["re.Pattern[str]"],
    spans: Mapping[int, int] | None = None,
    gap: str = "",
) -> int:
    """Where a clause goes on after whatever of the patterns and spans stands at `at`, one after another."""
    while at < len(clause):
        match = next((found for pattern in patterns if (found := pattern.match(clause, at))), None)
        # 今后 is a time too: the longer reading counts.
        end = max((spans or {}).get(at, at), match.end() if match else at)
        if end == at:
            return at
        at = end
        while at < len(clause) and clause[at] in gap:
            at += 1
    return at


def time_spans(clause: str, context: Context) -> dict[int, int]:
    """Where the times of a clause begin and end."""
    return {when.start: when.end for when in times(clause, context.at)}
