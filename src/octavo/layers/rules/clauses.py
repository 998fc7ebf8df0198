"""What reading a clause takes in either language, and what is remembered from clause to clause."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, NamedTuple

from octavo.kernel.terms.dates import small_number
from octavo.layers.rules.facts import (
    CHINESE,
    COMMON,
    ENGLISH,
    SYNONYMS,
    YES,
    ProfileStatement,
    RuleTable,
    StatedFact,
    has_han,
    plain,
    words,
)
from octavo.layers.rules.learned import Clause
from octavo.layers.rules.moments import When, times, without_times
from octavo.layers.rules.sentences import LONGEST_CLAUSE
from octavo.layers.values import OwnerType

DEEPEST = 3  # how often somebody may tell that somebody told
INTRODUCING = frozenset({"name", "age", "home town", "birthday", "occupation", "student"})


@dataclass
class ReadingContext:
    """Who owns the memory, how the text speaks of them, and what the last clauses were about."""

    owner_type: OwnerType
    at: datetime
    narrated: bool  # somebody else writes about the owner: "the user is …"; 我 is then the writer
    first_person: bool
    about_owner: bool = True  # whether what was spoken of last is the owner
    when: When | None = None  # the last time named in this sentence
    other: str = ""  # whom or what of the owner's was spoken of last, as it was written
    named: str = ""  # the name of whoever the last clause with a name was about
    people: dict[str, str] = field(default_factory=dict)  # the owner's people by name: Funmi is the wife
    found: list[StatedFact] = field(default_factory=list)  # what the text was read to say so far
    asked: str = ""  # what the last sentence asked with nothing else: "Marmite? Can't stand it"
    last_clause: Clause | None = None  # of the sentence before, as it was typed
    others: str = ""  # the clauses of this sentence that tell of somebody or something else
    open: bool = False  # whether what follows may still tell details of the last fact

    @classmethod
    def of(cls, text: str, owner_type: OwnerType, at: datetime) -> "ReadingContext":
        """The context in which a text begins."""
        narrated = owner_type == "user" and bool(
            CHINESE.NARRATED.search(text) or ENGLISH.NARRATED.search(text)
        )
        # 给闺蜜挑礼物，她什么都不缺: she is not whoever asks.
        spoken = COMMON.FIRST_PERSON.search(text) or CHINESE.SOMEBODY_FIRST.match(text)
        return cls(owner_type, at, narrated, first_person=bool(spoken))

    @property
    def pronoun_is_owner(self) -> bool:
        """A pronoun is the owner unless the text says "I" for the owner, or has just spoken of somebody else."""
        return self.about_owner and not (self.first_person and not self.narrated)

    def begin(self, sentence: str) -> None:
        """Another sentence: no time holds any more, and only "she is called Vespa" still adds to what was said."""
        self.when, self.others = None, ""
        self.open = self.open and COMMON.GOES_ON.match(sentence) is not None

    def add(self, facts: list[StatedFact]) -> None:
        """What a clause was read to say; the clauses after it may add details."""
        self.found += facts
        self.open = bool(facts)

    @property
    def last(self) -> StatedFact | None:
        """The fact that the next clause may go on from."""
        return self.found[-1] if self.open else None

    @property
    def introducing(self) -> bool:
        """Whether the owner has just said something of themselves: what else they are may follow without a verb."""
        if (last := self.last) is None or last.layer != "profile":
            return False
        return not last.content.startswith("用户的") or not INTRODUCING.isdisjoint(last.slots)

    def introduced(self, pattern: "re.Pattern[str]") -> bool:
        """Whether the last fact ends with something new, of which the next clause may tell more."""
        return bool(self.found) and pattern.search(self.found[-1].content) is not None

    def add_detail(self, detail: str, brackets: tuple[str, str], implied: StatedFact | None = None) -> None:
        """Put what a clause adds to the last fact behind it: a price, a place, the name of a cat; and what that implies."""
        last = self.found[-1]
        if len(last.content) + len(detail) > LONGEST_CLAUSE:
            return
        begin, end = brackets
        if last.content.count(end) < last.content.count(begin.strip()):  # 茶馆（叫听雨轩，在西湖边）
            before = f"{last.content}, "
        else:
            before = f"{last.content[: -len(end)]}, " if last.content.endswith(end) else last.content + begin
        implied = last.implied or (implied if last.layer == "event" else None)
        self.found[-1] = last._replace(content=before + detail + end, implied=implied)

    def add_time(self, clause: str, brackets: tuple[str, str]) -> None:
        """Put a time that stands by itself behind the last fact: what happens, happens then."""
        self.add_detail(clause, brackets)
        when, last = self.moment(clause), self.found[-1]
        if when and when.at and last.layer == "event":
            self.found[-1] = last._replace(happened_at=when.at)

    def moment(self, clause: str) -> When | None:
        """The time a clause names, or the one that still holds from earlier in its sentence."""
        found = times(clause, self.at)
        dated = (one for one in found if one.at and not COMMON.DAYLESS.match(one.words))
        named = next((one for one in found if one.at is not None), found[0] if found else None)
        if named is None:
            return self.when
        day = next(dated, self.when)
        if named.at and day and day.at and COMMON.DAYLESS.match(named.words):
            # 昨天去了公司，下午开了会: the afternoon is yesterday's; so is the hour of "a 9am meeting yesterday".
            named = named._replace(at=datetime.combine(day.at.date(), named.at.timetz()))
        self.when = named
        return named


class ClauseSubject(NamedTuple):
    """Who a clause speaks of (None: it does not say), where that is written, and where what is said begins."""

    owner: bool | None
    start: int
    end: int
    said: int
    possessive: bool = False  # it is something of the owner's: my job, my mother
    kin: bool = False  # it is one of the owner's family


class ClauseReader:
    """What reading a clause takes in either language; the rest each language knows by itself."""

    table: RuleTable
    names: ClassVar[dict[OwnerType, str]]  # what the owner is called in a statement
    gap = ""  # what may stand between words
    space = ""  # what does
    #: What is so after a move, a new job, a birthday or a new name: the pattern, the slot that changes, and its statement.
    changes: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("MOVED", "residence", "住在{}"),
        ("JOINED", "employer", "在{}工作"),
        ("TURNED", "age", "{}岁"),
        ("RENAMED", "name", "叫{}"),
    )
    asked = "用户问：{}"
    left, left_work = "不再在{}工作", "辞去了原来的工作"
    civil: ClassVar[dict[str, str]] = {"结婚": "已婚", "离婚": "离异"}

    def __init__(self, context: ReadingContext) -> None:
        self.context = context
        self.name = self.names[context.owner_type]

    def leave_out(self, clause: Clause, *, follows: bool | None) -> bool:
        """Whether a clause of any shape is no fact of the owner by itself; `follows`: whether anything was kept of the one before."""
        raise NotImplementedError

    def after_fillers(self, clause: str) -> int:
        """Where a clause begins after the words that only lead to it."""
        return self.skipped(clause, 0, self.table.FILLER)

    def after_leading(self, clause: str) -> int:
        """Where a clause begins after its fillers, adverbs and times."""
        return self.skipped(clause, 0, self.table.FILLER, self.table.ADVERB, gap=self.gap, timed=True)

    def skipped(
        self, clause: str, at: int, *patterns: "re.Pattern[str]", gap: str = "", timed: bool = False
    ) -> int:
        """Where a clause goes on after whatever of the patterns, and of its times, stands at `at`, one after another."""
        spans = {when.start: when.end for when in times(clause, self.context.at)} if timed else {}
        while at < len(clause):
            match = next((found for pattern in patterns if (found := pattern.match(clause, at))), None)
            # 今后 is a time too: the longer reading counts.
            end = max(spans.get(at, at), match.end() if match else at)
            if end == at:
                return at
            at = end
            while at < len(clause) and clause[at] in gap:
                at += 1
        return at

    def content(self, clause: str, subject: ClauseSubject | None) -> str:
        """The clause as a statement of its own."""
        raise NotImplementedError

    def as_told(self, clause: str, subject: ClauseSubject | None) -> str:
        """The clause as a statement of its own, where no rule knows what it is about."""
        return self.content(clause, subject)

    def in_third_person(self, text: str) -> str:
        """The text with the owner in the third person."""
        raise NotImplementedError

    def implied(self, clause: str) -> StatedFact | None:
        """What is so since it happened: who moved lives elsewhere."""
        for name, key, told in self.changes:
            if match := getattr(self.table, name).search(clause):
                value = match["to"]
                compared = str(small_number(value)) if key == "age" and has_han(value) else plain(value)
                category = "career" if key == "employer" else "preference"
                said, slots = told.format(value), {key: compared}
                break
        else:
            category, said, slots = self._ended(clause)
        return StatedFact("profile", category, f"{self.name}{self.space}{said}", slots) if slots else None

    def _ended(self, clause: str) -> tuple[str, str, dict[str, str]]:
        """What is no longer so, or so from then on: who resigned has no job, who married is married."""
        category, said, slots = "preference", "", {}
        if match := self.table.QUIT.search(clause):
            category, where = "career", match["where"] or ""
            said = self.left.format(self.in_third_person(where)) if where else self.left_work
            slots = {"not employer": plain(where)} if where else {"not occupation": "", "not employer": ""}
        elif match := self.table.WED.search(clause):
            status = match[1].lower()
            said, slots = (
                self.civil.get(status, f"is {status}"),
                {"civil status": SYNONYMS.get(status, status)},
            )
        return category, said, slots

    def of_owners(self, who: str, slots: list[dict[str, str]], said: str, content: str) -> list[StatedFact]:
        """What is said of one of the owner's people or things."""
        one = slots[0] if len(slots) == 1 else {f"says:{plain(said)}": YES}
        theirs = {f"{who} {key}": value for key, value in one.items()}
        return [StatedFact("profile", "preference", content, theirs)]

    def as_typed(self, clause: str, category: str, *, asks: bool) -> StatedFact:
        """A clause of any shape that tells something of the owner, kept as it was typed but for the person."""
        when = self.context.moment(clause)
        content = self.asked.format(self.in_third_person(clause)) if asks else self.third_person(clause)
        if when and when.at and when.at > self.context.at:
            return StatedFact("event", "event", content, {}, words(without_times(clause, self.context.at)), happened_at=when.at, time_text=when.words)  # fmt: skip
        return StatedFact("profile", category, content, {f"says:{plain(clause)}": YES})

    def third_person(self, clause: str) -> str:
        """A clause of any shape as a statement about the owner."""
        raise NotImplementedError

    def stated(
        self, category: str, clause: str, subject: ClauseSubject | None, key: str, value: str = YES
    ) -> list[StatedFact]:
        """One fact that lasts, kept as it was said."""
        return [StatedFact("profile", category, self.as_told(clause, subject), {key: value})]

    def lasting(self, statement: ProfileStatement, clause: str, subject: ClauseSubject) -> list[StatedFact]:
        """The facts of a statement; the things of a list become a clause each."""
        category = statement.category
        if len(statement.items) < 2:
            content = self.content(clause, subject)
            return [StatedFact("profile", category, content, slots) for slots in statement.slots]
        start = clause.find(statement.items[0], subject.said)
        head = clause[:start] if start > 0 else clause[: subject.said] + self.space
        verb, _, thing = statement.items[0].partition(" ")
        can = thing and head.rstrip().endswith(
            (" can", " can not")
        )  # speak English and German, play the piano and the violin
        items = [
            f"{verb} {item}" if can and re.match("(?:the|an?) |[A-Z]", item) else item
            for item in statement.items
        ]
        return [
            StatedFact("profile", category, self.content(head + item, subject), slots)
            for slots, item in zip(statement.slots, items, strict=True)
        ]

    def event(
        self, category: str, clause: str, subject: ClauseSubject | None, said: str, *, implies: bool
    ) -> list[StatedFact]:
        """What happened; the words that it is compared by leave out when it was."""
        when = self.context.moment(clause)
        compared = without_times(clause[self.after_fillers(clause) :], self.context.at)
        fact = StatedFact(
            "event",
            category,
            self.as_told(clause, subject),
            {},
            words(compared),
            self.table.DENIED.search(said) is not None,
            happened_at=when.at if when else None,
            time_text=when.words if when else "",
            implied=self.implied(clause) if implies else None,
        )
        return [fact]
