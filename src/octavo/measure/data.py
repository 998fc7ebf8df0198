"""What a file of questions becomes, whatever its format."""

from datetime import datetime
from random import Random

import msgspec

from octavo.kernel.model import Record, Scope

COLLECTION = "messages"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a talk, not yet in anybody's scope."""

    id: str
    text: str
    at: datetime
    kind: str = "user"
    session: str = ""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and the ids of the messages and the names of the sessions that answer it."""

    name: str
    question: str
    category: str
    gold: tuple[str, ...]
    sessions: tuple[str, ...] = ()


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """What one user said, in the order it is to be written down, and what is asked about it."""

    user: str
    said: tuple[Said, ...]
    cases: tuple[Case, ...]

    def records(self, tenant: str) -> list[Record]:
        """The messages as records of this tenant, in the order they are to be written down."""
        return [
            Record(
                collection=COLLECTION,
                id=said.id,
                kind=said.kind,
                scope=Scope(tenant=tenant, user=self.user, session=said.session or None),
                text=said.text,
                created_at=said.at,
            )
            for said in self.said
        ]


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """All talks of a file, and what of it could not be used."""

    format: str
    talks: tuple[Talk, ...]
    sessions: bool  # whether sessions are asked for as well as messages
    skipped_questions: int = 0  # none of their evidence exists
    skipped_evidence: int = 0  # ids that name no message
    unread_times: int = 0  # times in a spelling that is not known; order then stands in for them

    @property
    def messages(self) -> int:
        return sum(len(talk.said) for talk in self.talks)

    @property
    def questions(self) -> int:
        return sum(len(talk.cases) for talk in self.talks)

    def some(self, limit: int, seed: int) -> "Data":
        """The same with no more than `limit` questions, drawn from all of it; every talk stays."""
        if self.questions <= limit:
            return self
        places = [(at, nth) for at, talk in enumerate(self.talks) for nth in range(len(talk.cases))]
        drawn = set(Random(seed).sample(places, limit))  # noqa: S311 - a sample, not a secret
        talks = tuple(
            msgspec.structs.replace(
                talk, cases=tuple(case for nth, case in enumerate(talk.cases) if (at, nth) in drawn)
            )
            for at, talk in enumerate(self.talks)
        )
        return msgspec.structs.replace(self, talks=talks)
