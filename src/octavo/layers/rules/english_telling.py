"""How an English clause is told of its owner: whom it speaks of, and the same words in the third person."""

import re
from functools import lru_cache
from typing import ClassVar

from octavo.layers.rules.clauses import ClauseReader, ClauseSubject
from octavo.layers.rules.english_verbs import PRESENT, is_past, of_one_person
from octavo.layers.rules.facts import ENGLISH, StatedFact
from octavo.layers.rules.learned import Clause
from octavo.layers.rules.moments import times
from octavo.layers.rules.sentences import expanded
from octavo.layers.values import OwnerType

_I = re.IGNORECASE
_THIRD_PERSON = (
    (re.compile(r"\b(?:my|our)\b", _I), "their"), (re.compile(r"\b(?:me|us)\b", _I), "them"), (re.compile(r"\b(?:(?:my|me)self|ourselves)\b", _I), "themselves"),
    (re.compile(r"\bmine\b", _I), "theirs"), (re.compile(r"\b(?:[Ii] am|we are)\b"), "they are"), (re.compile(r"\b[Ii] was\b"), "they were"), (re.compile(r"\b(?:[Ii]|we)\b(?!\.)"), "they"),
)  # fmt: skip
_OWNER_SAID = re.compile(r"\b(?:(?P<own>my|our)|me|us)\b(?!\.)", _I)
DETAILS = (" (", ")")


class EnglishTeller(ClauseReader):
    """What a clause says of its owner, in the words of a memory."""

    table = ENGLISH
    names: ClassVar[dict[OwnerType, str]] = {"user": "The user", "agent": "The agent"}
    gap, space = " ,", " "
    changes: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("MOVED", "residence", "lives in {}"),
        ("JOINED", "employer", "works at {}"),
        ("TURNED", "age", "is {}"),
        ("RENAMED", "name", "is called {}"),
    )
    asked = "The user asked: {}"
    left, left_work = "no longer works at {}", "no longer works where they did"
    civil: ClassVar[dict[str, str]] = {}

    def _subject(self, clause: str) -> ClauseSubject:
        """Whom the clause speaks of: the owner of the memory, somebody else, or whoever was spoken of before."""
        at = self.after_leading(clause)
        narrated = self.context.narrated
        pronoun = narrated and self.context.pronoun_is_owner
        owned, owner = _owner_patterns(self.context.owner_type, narrated, pronoun)
        if match := owned.match(clause, at):
            return ClauseSubject(True, at, match.end(), match.end(), possessive=True)
        if match := owner.match(clause, at):
            return ClauseSubject(True, at, match.end(), match.end())
        writer = ENGLISH.NARRATOR.match(clause, at) if narrated else None
        if match := ENGLISH.OTHER_SUBJECT.match(clause, at) or writer:
            return ClauseSubject(False, at, match.end(), match.end())
        return ClauseSubject(None, at, at, at)

    def in_third_person(self, text: str) -> str:
        """The words after the subject, with the owner in the third person."""
        if self.context.narrated:
            return text
        for pattern, other in _THIRD_PERSON:
            text = pattern.sub(other, text)
        return text

    def _name_owner(self, text: str) -> str:
        """A text about somebody else in the third person, with the owner by name once: "the doctor put the user on metformin"."""
        name = self.name[0].lower() + self.name[1:]
        return self.in_third_person(
            _OWNER_SAID.sub(lambda match: f"{name}'s" if match["own"] else name, text, count=1)
        )

    def _hearsay(self, facts: list[StatedFact], clause: str) -> list[StatedFact]:
        """What others tell of the owner, as theirs: what they are like, all their friends may know, and what ails them a doctor."""
        known = [fact for fact in facts if fact.category == "personality" or ENGLISH.KNOWS.search(clause)]
        content = self._name_owner(clause)
        return [fact._replace(content=content[:1].upper() + content[1:]) for fact in known[:1]]

    def third_person(self, clause: str) -> str:
        """ "The user keeps bees" of "I keep bees"; what others do is told as it was said, and what has no subject follows a colon."""
        clause = ENGLISH.TRAILER.sub("", expanded(clause))
        bare = clause[self.after_fillers(clause) :]
        if ENGLISH.AS_SAID.match(bare):
            said = self._name_owner(bare)
            return said[:1].upper() + said[1:]
        subject = self._subject(clause)
        said = clause[subject.said :].strip()
        does = said.partition(" ")[0].lower() in PRESENT and not ENGLISH.THING_WITH.match(said)
        if subject.owner or (subject.owner is None and (is_past(said) or does)):
            return self.content(clause, subject)
        return f"{self.name}: {self.in_third_person(bare)}"

    def leave_out(self, clause: Clause, *, follows: bool | None) -> bool:
        """Whether a clause of any shape is no fact by itself: a question, what he or she does, a detail of the clause before.

        `follows`: whether anything was kept of the clause before in its sentence. Then a detail is put behind that.
        """
        bare = expanded(clause.text)
        bare = bare[self.after_fillers(bare) :]
        if ENGLISH.SAYS_NOTHING.match(bare):
            return True
        if ENGLISH.OURS.search(bare):
            return False
        goes_with = ENGLISH.GOES_WITH.match(bare)
        if goes_with and follows:
            self.context.add_detail(bare, DETAILS)
        return bool(
            (goes_with and clause.before)
            or (follows is False and ENGLISH.PARTLY.match(bare))
            or ENGLISH.OF_HIM.search(bare)
            or (ENGLISH.ASKING.search(bare) and not clause.asks)
        )

    def content(self, clause: str, subject: ClauseSubject | None) -> str:
        """The clause as a statement of its own."""
        start = self.after_fillers(clause)
        if subject is None:
            return self._name_owner(clause[start:])
        before, after = clause[start : subject.start].strip(" ,"), clause[subject.end :].strip()
        if subject.possessive:
            content = f"{self.name}'s {self.in_third_person(after)}"
        else:
            if subject.owner is None:  # "Had lunch with Sarah": the verb no longer begins the sentence
                after = re.sub(r"^(?:[A-Z]+\b|\w)", lambda match: match[0].lower(), after)
            after = ENGLISH.ALL_OF_US.sub(r"\g<be>", after)
            content = f"{self.name} {self.in_third_person(of_one_person(after))}"
        # The time or the adverb that stood before the subject goes to the end: it is part of what is told.
        timed = before and times(before, self.context.at)
        return f"{content}, {before[0].lower() + before[1:]}" if timed else content


@lru_cache(maxsize=16)
def _owner_patterns(
    owner_type: OwnerType, narrated: bool, pronoun: bool
) -> tuple["re.Pattern[str]", "re.Pattern[str]"]:
    """The patterns of what is the owner's, and of the owner."""
    kind = "AGENT" if owner_type == "agent" else "NARRATED" if narrated else "SPOKEN"
    names, owns = (getattr(ENGLISH, f"{role}_{kind}").pattern for role in ("OWNER", "OWNED"))
    if pronoun:
        # Of one user "they" may be said; where nobody was named, they are several.
        # "Her husband is a plumber" is about somebody else, unless it is told of the user.
        names = f"{names}|he|she{'|they' if narrated else ''}"
        owns = f"{owns}|his|her|their" if narrated else owns
    return re.compile(rf"(?:{owns})(?= )", _I), re.compile(rf"(?:{names})(?= |$)", _I)
