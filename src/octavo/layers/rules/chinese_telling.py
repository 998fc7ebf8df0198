"""How a Chinese clause is told of its owner: whom it speaks of, and the same words with the owner's name."""

import re
from typing import ClassVar

from octavo.layers.rules.chinese_events import owner_patterns
from octavo.layers.rules.clauses import ClauseReader, ClauseSubject
from octavo.layers.rules.facts import CHINESE, OF_SELF, is_personal
from octavo.layers.rules.profile import CHINESE_PROFILE
from octavo.layers.values import OwnerType


class ChineseTeller(ClauseReader):
    """What a clause says of its owner, in the words of a memory."""

    table = CHINESE
    names: ClassVar[dict[OwnerType, str]] = {"user": "用户", "agent": "智能体"}

    def _subject(self, clause: str) -> ClauseSubject:
        """Whom the clause speaks of: the owner of the memory, somebody else, or whoever was spoken of before."""
        at = self.after_leading(clause)

        def subject(
            owner: bool, written: int, end: int, kin: bool = False, own: bool = False
        ) -> ClauseSubject:
            said = self.skipped(clause, end, CHINESE.ADVERB, timed=True)
            return ClauseSubject(owner, at, written, said, kin=kin, possessive=own)

        people, close, owner = owner_patterns(
            self.context.owner_type, self.context.narrated, self.context.pronoun_is_owner
        )
        if match := people.match(clause, at):
            name = CHINESE.NAME_AFTER.match(clause, match.end())
            end = name.end() if name else match.end()
            return subject(False, end, end, kin=close.match(clause, at) is not None, own=True)
        if match := owner.match(clause, at):
            return subject(True, match.end("who"), match.end())
        if not self.context.narrated and (match := CHINESE.BARE_KIN.match(clause, at)):
            name = CHINESE.NAME_AFTER.match(clause, match.end())
            end = name.end() if name else match.end()
            return subject(False, end, end, kin=True, own=True)
        spoken = self.context.about_owner and not self.context.narrated
        match = None if CHINESE.WEATHER.search(clause) else CHINESE.BARE_THING.match(clause, at)
        if match and spoken and not CHINESE_PROFILE.statement(clause[at:]):
            return subject(False, match.end(), match.end(), own=True)
        if match := CHINESE.OTHERS.match(clause, at):
            return subject(False, match.end(), match.end())
        if self.context.narrated and clause.startswith(("我", "助手"), at):
            return subject(False, at + 1, at + 1)
        return ClauseSubject(None, at, at, at)

    def in_third_person(self, text: str) -> str:
        """The text with the owner's name where it says "I"."""
        return text if self.context.narrated else re.sub("我们|咱们|我|咱|俺", self.name, text)

    def third_person(self, clause: str) -> str:
        """A clause of any shape as a statement about the owner."""
        return self.as_told(clause, self._subject(clause))

    def as_told(self, clause: str, subject: ClauseSubject | None) -> str:
        """The clause as a statement of its own; 用户：焙茶房失火, since no rule knows that it is not the subject."""
        content, at = self.content(clause, subject), self.after_leading(clause)
        said = (subject is not None and subject.owner is not None) or re.search("我|本人", clause)
        if said or self.context.narrated or self.context.owner_type == "agent":
            return content
        own = CHINESE.VERBAL.match(clause, at) or is_personal(clause, OF_SELF)
        return content if own else f"{self.name}：{content.removeprefix(self.name)}"

    def content(self, clause: str, subject: ClauseSubject | None) -> str:
        """The clause as a statement of its own."""
        start, name = self.after_fillers(clause), self.name
        if subject is None or subject.owner is None:
            head, tail = "" if "我" in clause and not self.context.narrated else name, clause[start:]
            tail = CHINESE.BESIDES.sub("", tail)
        elif subject.owner:
            family = CHINESE.FAMILY.search(clause, subject.start, subject.end)  # 全家都很难过
            head = clause[start : subject.start] + name + (family[0] if family else "")
            tail = re.sub("^也(?!许)", "", clause[subject.end :])
        else:
            head, tail = clause[start : subject.start], clause[subject.start :]
            if subject.possessive and not re.match("[我咱俺用]", tail):  # 儿子在多伦多
                tail = re.sub("^[他她](?:的|家)?", "", tail)
                return f"{self.in_third_person(head)}{name}的{self.in_third_person(tail)}"
            if self.context.narrated or not tail.startswith("我"):
                return head + (re.sub("^[他她]", name, tail) if self.context.pronoun_is_owner else tail)
            return f"{head}{name}的{self.in_third_person(re.sub('^我们?家?的?', '', tail))}"
        tail = re.sub("^(?:这个人|本人)", "", tail)
        return self.in_third_person(head).replace(name * 2, name) + self.in_third_person(tail)
