"""Files of questions with known answers, in the formats they are published in, and what they become.

LoCoMo: long conversations of two people in many sessions, with questions and the turns that answer them. MemDaily: short
trajectories of one user's messages, each with a question and the messages that answer it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec

from octavo.errors import ConfigError
from octavo.kernel.model import Record, Scope

COLLECTION = "messages"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ADVERSARIAL = f"5 {CATEGORIES[5]}"
_SESSION = re.compile(r"session_(\d+)")
_LOCOMO_TIME = re.compile(
    r"(\d{1,2}):(\d{2})\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MEMDAILY_TIME = re.compile(
    r"(\d{4})年(\d{1,2})月(\d{1,2})日(?:\s*[周星]期?\S)?(?:\s*(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
_UNDATED = datetime(2000, 1, 1, tzinfo=UTC)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and the ids of the messages and the names of the sessions that answer it."""

    name: str
    question: str
    category: str
    gold: tuple[str, ...]
    sessions: tuple[str, ...] = ()


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """What one user said, in the order it is to be written down and in nobody's tenant yet, and what is asked about it."""

    user: str
    said: tuple[Record, ...]
    cases: tuple[Case, ...]

    def records(self, tenant: str) -> list[Record]:
        """The messages as records of this tenant, in the order they are to be written down."""
        replace = msgspec.structs.replace
        return [replace(record, scope=replace(record.scope, tenant=tenant)) for record in self.said]


class Data(msgspec.Struct, kw_only=True):
    """All talks of a file, and what of it could not be used."""

    format: str
    talks: list[Talk] = []
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
        positions = [(at, nth) for at, talk in enumerate(self.talks) for nth in range(len(talk.cases))]
        drawn = set(Random(seed).sample(positions, limit))  # noqa: S311 - a sample, not a secret
        talks = [
            msgspec.structs.replace(
                talk, cases=tuple(case for nth, case in enumerate(talk.cases) if (at, nth) in drawn)
            )
            for at, talk in enumerate(self.talks)
        ]
        return msgspec.structs.replace(self, talks=talks)

    def gold(self, named: Sequence[str], known: Mapping[str, object]) -> tuple[str, ...]:
        """The ids among these that name a message, each once; the others are counted."""
        found = [id_ for id_ in named if id_ in known]
        self.skipped_evidence += len(named) - len(found)
        self.skipped_questions += not found
        return tuple(dict.fromkeys(found))


def _message(
    user: str, id_: str, text: str, at: datetime, seq: int, kind: str = "user", session: str | None = None
) -> Record:
    scope = Scope(user=user, session=session)
    return Record(collection=COLLECTION, id=id_, kind=kind, scope=scope, text=text, created_at=at, seq=seq)


def load(path: Path | str, format: str | None = None, seed: int = 0) -> Data:  # noqa: A002 - the option's name
    """The talks and questions of a file; its format is recognised unless named."""
    if format is not None and format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    try:
        parsed = msgspec.json.decode(Path(path).read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    recognised = _format_of(parsed)
    if recognised is None and format is None:
        raise ConfigError(
            f"{path} holds neither LoCoMo conversations ('conversation' and 'qa') nor MemDaily trajectories "
            "('message_list' and 'question_list')"
        )
    if recognised is None or format not in (None, recognised):
        raise ConfigError(f"{path} is not in the format {format}")
    try:
        data = FORMATS[recognised](parsed, seed)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not data.questions:
        raise ConfigError(f"{path} has no question whose evidence exists")
    return data


def _format_of(parsed: Any) -> str | None:
    first = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if isinstance(first, dict) and "conversation" in first and "qa" in first:
        return "locomo"
    trajectory = next(_trajectories(parsed, ""), None)
    return "memdaily" if trajectory is not None and "question_list" in trajectory[1] else None


def _read(value: Any, type_: Any, where: str) -> Any:
    """The value as one of this type, or ValueError that says where it is not."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {error}") from None


# LoCoMo.


class _DataTurn(msgspec.Struct):
    dia_id: str
    text: str
    speaker: str | None = None
    blip_caption: str | None = None


class _DataQuestion(msgspec.Struct):
    question: str
    evidence: list[Any] = []
    category: Any = None


class _Conversation(msgspec.Struct):
    conversation: dict[str, Any]
    qa: list[_DataQuestion]
    sample_id: str | int | None = None


def load_locomo(parsed: Any, seed: int) -> Data:
    """The conversations as talks; nothing in them is left to chance."""
    del seed
    data = Data(format="locomo", sessions=True)
    for number, each in enumerate(parsed if isinstance(parsed, list) else [parsed], 1):
        where = f"conversation {number}"
        sample: _Conversation = _read(each, _Conversation, where)
        user = str(sample.sample_id or f"conversation-{number}")
        said = _turns(sample.conversation, user, where, data)
        sessions = {one.id: one.scope.session or "" for one in said}
        cases = []
        for nth, asked in enumerate(sample.qa):
            if gold := data.gold([str(id_) for id_ in asked.evidence], sessions):
                known = CATEGORIES.get(asked.category) if isinstance(asked.category, int) else None
                case = Case(
                    name=f"{user}/{nth}",
                    question=asked.question,
                    category=f"{asked.category} {known}" if known else str(asked.category),
                    gold=gold,
                    sessions=tuple(dict.fromkeys(sessions[id_] for id_ in gold)),
                )
                cases.append(case)
        data.talks.append(Talk(user=user, said=tuple(said), cases=tuple(cases)))
    return data


def locomo_time(spelled: Any) -> datetime | None:
    """A moment such as "1:56 pm on 8 May, 2023", or None when it is spelled otherwise."""
    found = _LOCOMO_TIME.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    if found is None:
        return None
    hour, minute, half, day, month, year = found.groups()
    if month[:3].lower() not in _MONTHS:
        return None
    # Twelve o'clock is the first hour of its half of the day.
    hours = int(hour) % 12 + (12 if half.lower() == "p" else 0)
    return _moment(year, _MONTHS.index(month[:3].lower()) + 1, day, hours, minute)


def _moment(*parts: Any) -> datetime | None:
    """The moment of year, month, day, hour, minute and second; None when the calendar has no such."""
    numbers = [int(part or 0) for part in parts]
    try:
        return datetime(*numbers, tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        return None


def _turns(conversation: dict[str, Any], user: str, where: str, data: Data) -> list[Record]:
    said: list[Record] = []
    seen: set[str] = set()
    begun = _UNDATED
    for number in sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name))):
        session = f"session_{number}"
        told = locomo_time(conversation.get(f"{session}_date_time"))
        data.unread_times += told is None
        begun = begun + timedelta(days=1) if told is None else told
        turns: list[_DataTurn] = _read(conversation[session], list[_DataTurn], f"{where}, {session}")
        for nth, turn in enumerate(turns):
            if turn.dia_id in seen:
                raise ValueError(f"{where}, {session}: the id {turn.dia_id!r} is there twice")
            seen.add(turn.dia_id)
            speaker = turn.speaker or "user"
            words = " ".join(filter(None, (f"{speaker}: {turn.text}", turn.blip_caption)))
            # A second for each turn: equal times would leave their order to chance.
            at = begun + timedelta(seconds=nth)
            said.append(_message(user, turn.dia_id, words, at, len(said), speaker, session))
    return said


# MemDaily.


class _Message(msgspec.Struct):
    mid: int | str
    message: str
    time: Any = None


class _Question(msgspec.Struct):
    question: str
    target_step_id: list[Any]
    qid: Any = None


class _Trajectory(msgspec.Struct):
    message_list: list[_Message]
    question_list: list[_Question]
    tid: Any = None


def load_memdaily(parsed: Any, seed: int) -> Data:
    """The trajectories as talks; each is written down in an order drawn from the seed, so that ties tell nothing."""
    dice = Random(seed)  # noqa: S311 - a shuffle, not a secret
    data, seen = Data(format="memdaily", sessions=False), set[str]()
    for at, (type_, each) in enumerate(_trajectories(parsed, "")):
        where = f"trajectory {at + 1}"
        trajectory: _Trajectory = _read(each, _Trajectory, where)
        user = f"{type_}/{at if trajectory.tid is None else trajectory.tid}"
        if user in seen:  # two users of one name would be one memory
            user = f"{user}#{at}"
        seen.add(user)
        dice.shuffle(trajectory.message_list)
        said = {}
        for nth, message in enumerate(trajectory.message_list):
            told = memdaily_time(message.time)
            data.unread_times += told is None
            moment = told or _UNDATED + timedelta(minutes=nth)
            said[str(message.mid)] = _message(user, str(message.mid), message.message, moment, nth)
        if len(said) < len(trajectory.message_list):
            raise ValueError(f"{where}: two messages have the same 'mid'")
        cases = []
        for nth, asked in enumerate(trajectory.question_list):
            if gold := data.gold([str(mid) for mid in asked.target_step_id], said):
                name = f"{user}/{nth if asked.qid is None else asked.qid}"
                cases.append(Case(name=name, question=asked.question, category=type_, gold=gold))
        data.talks.append(Talk(user=user, said=tuple(said.values()), cases=tuple(cases)))
    return data


def memdaily_time(spelled: Any) -> datetime | None:
    """A moment such as 2024年04月03日 周三 17:34, or None when it is spelled otherwise."""
    found = _MEMDAILY_TIME.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    return _moment(*found.groups()) if found else None


def _trajectories(parsed: Any, type_: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every trajectory with its type: its own, or else the names it stands under."""
    if isinstance(parsed, list):
        for each in parsed:
            yield from _trajectories(each, type_)
    elif isinstance(parsed, dict) and "message_list" in parsed:
        yield str(parsed.get("type") or type_ or "trajectory"), parsed
    elif isinstance(parsed, dict):
        for name, each in parsed.items():
            yield from _trajectories(each, f"{type_}/{name}".lstrip("/"))


#: How each format is read: from parsed JSON, with a seed for what is drawn.
FORMATS: Mapping[str, Callable[[Any, int], Data]] = MappingProxyType({
    "locomo": load_locomo,
    "memdaily": load_memdaily,
})  # fmt: skip
