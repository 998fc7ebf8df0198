"""What a clause says that lasts: one of the six kinds of profile facts, by the patterns of a language's table."""

import re
from collections.abc import Callable
from typing import TypeAlias

from octavo.layers.rules.facts import NO, SYNONYMS, YES, Statement, plain
from octavo.layers.rules.tables import Table

_Kind: TypeAlias = Callable[["re.Match[str]", str, str], Statement | None]


class ProfileRules:
    """The patterns of one language in their order; the first that fits, and says something, decides.

    A pattern has a kind, which is the method that makes a statement of its groups: `v` is the value, `k` what it is the value
    of, `no` and `hates` are there when it is denied.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rules: list[tuple[re.Pattern[str], _Kind, str, str]] = [
            (each.pattern, getattr(self, each.kind), each.slot, each.category) for each in table.facts
        ]

    def statement(self, said: str) -> Statement | None:
        """What the words after a subject say; None when they say nothing that lasts."""
        for pattern, kind, slot, category in self._rules:
            if (match := pattern.match(said)) and (found := kind(match, slot, category)) is not None:
                return found
        return None

    def cleaned(self, value: str) -> str:
        """A value without the words that add nothing to it."""
        return value

    def listed_items(self, value: str) -> list[tuple[str, str]]:
        """The things of a list, each as it is written and as it is compared; none where there is no thing."""
        raise NotImplementedError

    def one(self, match: "re.Match[str]", slot: str, category: str) -> Statement | None:
        """Something of which there is one: an age, an employer."""
        return Statement(category, [{slot: plain(self.cleaned(match["v"]))}])

    def affirmed(self, match: "re.Match[str]", slot: str, category: str) -> Statement | None:
        """Something of which there may be many, so that the value is part of the name."""
        name = f"{slot}:{plain(self.cleaned(match['v']))}"
        return Statement(category, [{name: NO if is_denied(match) else YES}])

    def listed(self, match: "re.Match[str]", slot: str, category: str) -> Statement | None:
        """Things of which there may be many, one fact each."""
        items = self.listed_items(match["v"])
        if not items:
            return None
        value = YES if is_denied(match) == bool(match.groupdict().get("hates")) else NO
        slots = [{f"{slot}:{plain(compared)}": value} for _, compared in items]
        return Statement(category, slots, tuple(item for item, _ in items))

    def keyed(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """Something that the clause names itself: my shoe size is 43."""
        return Statement(category, [{plain(match["k"]): plain(match["v"])}])

    def favourite(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """The one of its kind that is liked best."""
        kind = match["k"] + match.groupdict().get("x", "")
        return Statement(category, [{f"favourite:{plain(kind)}": plain(match["v"])}])

    def civil_status(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """Married or not."""
        value = match["v"].lower()
        name = "not civil status" if is_denied(match) else "civil status"
        return Statement(category, [{name: SYNONYMS.get(value, value)}])


def is_denied(match: "re.Match[str]") -> bool:
    """Whether the words say that it is not so."""
    return bool(match.groupdict().get("no"))
