"""What a text says of its owner, in Chinese or English, sentence by sentence; and what the memories there are say."""

import re
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from octavo.kernel.terms.english import stem
from octavo.kernel.terms.terms import restore, simplify, terms
from octavo.kernel.terms.topics import topics
from octavo.layers.rules import learned
from octavo.layers.rules.chinese import ChineseReader, read_chinese
from octavo.layers.rules.clauses import ReadingContext
from octavo.layers.rules.english import EnglishReader, people_in, read_english
from octavo.layers.rules.facts import (
    CHINESE,
    COMMON,
    ENGLISH,
    SYNONYMS,
    YES,
    StatedFact,
    has_han,
    plain,
    words,
)
from octavo.layers.rules.moments import without_times
from octavo.layers.rules.sentences import Sentence, beginning, own_words, sentences
from octavo.layers.topic import names_topic
from octavo.layers.values import Known, OwnerType
from octavo.util.cache import Cache, size_of
from octavo.util.sync import run_steps

MOST_FACTS = 200  # of one text; a text with more is a list of something else
MOST_SENTENCES = 2000  # of one text; in 20,000 characters there are more only if nobody wrote them
MOST_OF_MEMORY = 2000  # characters of one memory there is; it is compared by what it says first
_MOST_COMPARED = 100_000  # characters of all of them together; the nearest come first
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)  # memories bring their own time; this one is never looked at
#: What contents were found to say: each is asked for again whenever its owner says something.
_read: Cache[tuple[str, OwnerType], tuple[StatedFact, ...]] = Cache()
#: Of these a longer value says more of the same thing, and a shorter one less.
GRADED_MANY = ("school:", "degree:", "has:", "business:")
_PART = re.compile("[^，,]+[，,]?")
_AS_TAKEN = frozenset(ENGLISH.words["AS_TAKEN"])
#: The things of a list are made plain twice, so they are stemmed twice.
_STEMMED = {stem(stem(word)): other for word, other in SYNONYMS.items() if word.isascii()}
_NAMED = re.compile(
    r" (?:[A-Z\d]|(?:two|three|four|five|six|seven|eight|nine|ten)\b)"
)  # what names somebody, a place or a number is no trifle
_BROAD = ("preference", "action", "other")  # what is kept of a clause that says nothing of a finer kind
#: How likely it must be that a clause tells something of its writer, to be kept where no rule knows it, and to stay where one does.
SURE, DOUBTED = 0.85, {"en": 0.1, "zh": 0.3}
#: Of a clause's words: if memories of the sentence hold more of them, they hold the clause; of a question, what it takes for granted.
_SAME, _SAME_ASKED = 0.5, 0.2
_FORMERLY_MANY = ("like:", "is:", "has:", "can:", "habit:")
_FORMERLY = ("occupation", "employer", "residence", "workplace", "work", "leads")


def read(text: str, owner_type: OwnerType, at: datetime) -> list[StatedFact]:
    """What the text says of its owner that is worth keeping, in the order of the text."""
    return run_steps(reading(text, owner_type, at))


def reading(
    text: str, owner_type: OwnerType, at: datetime, known: Sequence[Known] = (), *, weighed: bool = False
) -> Generator[None, None, list[StatedFact]]:
    """`read` in steps: about a sentence each. `known` are memories that say who somebody is whom the text names.

    `weighed`: what the rules find is held against what was learned, and clauses they know nothing of are kept by it.
    """
    told = beginning(text)
    plain = simplify(told)
    text = own_words(COMMON.EMPTY_LINES.sub("\n\n", plain), owner_type)
    if COMMON.NOT_KEPT.search(text):
        return []
    yield
    context = ReadingContext.of(text, owner_type, at)
    if not context.narrated:
        context.people = _people_of(known)
    text = COMMON.QUOTED.sub(" ", text)
    if context.narrated:
        text = COMMON.ASIDE.sub("", text)  # details of a memory; whose they are, only its own text said
    found = context.found
    for number, whole in enumerate(sentences(text)):
        yield
        if number >= MOST_SENTENCES or len(found) >= MOST_FACTS:
            break
        for sentence in _by_language(whole):
            chinese, before = has_han(sentence.text), len(found)
            (read_chinese if chinese else read_english)(sentence, context)
            tells = len(found) > before
            if weighed and not context.narrated and owner_type == "user":
                _weigh(sentence, context, before)
            said = found[before:] if chinese or context.narrated else _without_trifles(found[before:])
            found[before:] = [fact._replace(quote=sentence.text) for fact in said]
            context.open = context.open and (bool(said) or not tells)  # nothing is added to what was dropped
    facts = [_as_former(fact) for fact in found[:MOST_FACTS] if fact.content]
    return facts if plain == told else [_as_written(fact, plain, told) for fact in facts]


def _weigh(sentence: Sentence, context: ReadingContext, start: int) -> None:
    """Keep what the rules found from `start` on if it is likely enough, and clauses that they know nothing of if those are."""
    language = "zh" if has_han(sentence.text) else "en"
    split = learned.split(sentence.text, context.last_clause, asks=sentence.asks, language=language)
    context.last_clause = split[-1] if split else context.last_clause
    clauses = [
        (learned.WeighedClause(clause, language), words(clause.text.replace("'s ", " "))) for clause in split
    ]
    known: frozenset[str] = frozenset().union(*(words(fact.content) for fact in context.found))
    likely, read = [], [words(fact.content) for fact in context.found[start:]]
    for fact, held in zip(context.found[start:], read, strict=True):
        own = [one for one, told in clauses if len(told & held) > 0.4 * len(told)]
        best = max(own, key=lambda one: one.told, default=None)
        # What people say of themselves was learned; where 他 is the owner, somebody else tells it.
        third = best is not None and context.pronoun_is_owner and best.text.startswith(("他", "她"))
        if best is None or third or best.told >= DOUBTED[language] or not _is_free(fact):
            likely.append(_lasting(fact, best) if best else fact)
    context.found[start:] = likely
    chinese = language == "zh"
    reader = (ChineseReader if chinese else EnglishReader)(context)
    wished, shortest = (CHINESE.WISHING, 1) if chinese else (ENGLISH.IFFY, 0)
    kept: bool | None = None  # whether anything was kept of the clause before in the sentence, and last
    for (clause, told), typed in zip(clauses, split, strict=True):
        read_from = any(2 * len(told & held) >= len(held) for held in read if held)
        share = _SAME_ASKED if sentence.asks else _SAME
        new = len(told) > shortest and not read_from and len(told & known) < share * len(told)
        keeps = new and clause.told >= SURE and not wished.search(clause.text)
        if keeps and not reader.leave_out(typed, follows=kept):
            asked = sentence.asks and (chinese or typed is split[-1])
            context.found.append(reader.as_typed(clause.text, clause.category, asks=asked))
        kept = bool(context.found) and len(told & words(context.found[-1].content)) > 0.4 * len(told)


def _is_free(fact: StatedFact) -> bool:
    """Whether a fact was kept as it was said, and no rule knows what it is about, nor when it was."""
    known = fact.time_text or fact.category in ("conversation", "meeting", "decision", "event")
    return not known and all(key.startswith(("says:", "habit:")) for key in fact.slots)


def _lasting(fact: StatedFact, clause: learned.WeighedClause) -> StatedFact:
    """Something done at no time that is told, and so for good: who kept bees for years is a beekeeper."""
    done = (
        fact.layer == "event"
        and fact.category in ("action", "other")
        and not (fact.time_text or fact.implied)
    )
    if not done or clause.lasting <= 0.7:
        return fact
    return fact._replace(layer="profile", category=clause.category, slots={f"says:{plain(clause.text)}": YES})


def _as_written(fact: StatedFact, plain: str, told: str) -> StatedFact:
    """A fact of a text in traditional characters: its words are as they were told, and compared as simplified ones."""
    content, quote, time_text = (
        restore(text, plain, told) for text in (fact.content, fact.quote, fact.time_text)
    )
    implied = fact.implied and _as_written(fact.implied, plain, told)
    return fact._replace(content=content, quote=quote, time_text=time_text, implied=implied)


def _without_trifles(facts: list[StatedFact]) -> list[StatedFact]:
    """The facts of a sentence without those about nothing in particular, unless it has no others."""
    telling = [
        fact
        for fact in facts
        if fact.category not in _BROAD
        or any(key.startswith(("like:", "wish:")) for key in fact.slots)
        or _NAMED.search(fact.content)
        or names_topic(fact.content, fact.slots)
    ]
    return telling or facts


def _by_language(sentence: Sentence) -> list[Sentence]:
    """The sentence in parts of one language each: 我叫Tom，I'm from London."""
    parts = _PART.findall(sentence.text) if has_han(sentence.text) else [sentence.text]
    joined: list[str] = []
    for part in parts:
        if joined and (COMMON.LATER_ENGLISH.match(part) is None) == (
            COMMON.LATER_ENGLISH.match(joined[-1]) is None
        ):
            joined[-1] += part
        else:
            joined.append(part)
    return [Sentence(part.strip(" ，,"), sentence.asks and part is joined[-1]) for part in joined]


def _people_of(known: Sequence[Known]) -> dict[str, str]:
    """What the owner's people are called, and who each is: Funmi is the wife, 安然 the 妹妹."""
    contents = [simplify(one.content[:MOST_OF_MEMORY]) for one in known]
    people = people_in(contents)
    for match in filter(None, map(CHINESE.OWN_PERSON.match, contents)):
        name = match["called"] or match["name"]
        if match["called"] or name[0] in "阿小" or not topics(name, terms(name)):  # 用户的老公老家在武威
            people |= {name: match["who"], name[-2:]: match["who"]}  # 蓝静雯 is 静雯 among her own
    return people


def _as_former(fact: StatedFact) -> StatedFact:
    """What was so once is not what is so now: it must not supersede it."""
    if not fact.slots or not COMMON.FORMER.search(fact.content):
        return fact
    return fact._replace(slots=dict(_former_slot(key, value) for key, value in fact.slots.items()))


def _former_slot(key: str, value: str) -> tuple[str, str]:
    if key in _FORMERLY:
        return f"former {key}:{value}", "yes"
    return (f"former {key}", value) if key.startswith(_FORMERLY_MANY) else (key, value)


# --- what is known


class KnownFact(NamedTuple):
    """One fact of a memory there is."""

    known: Known
    fact: StatedFact
    facts: tuple[StatedFact, ...]


class KnownFacts:
    """The facts that are known, found by what they are about: a fact is compared with few of them."""

    def __init__(self) -> None:
        self.count = 0
        self._by_topic: dict[str, list[KnownFact]] = {}
        self._events: list[KnownFact] = []  # what has no slots is compared by its words
        self._by_content: dict[str, KnownFact] = {}

    def add(self, known: Known, facts: tuple[StatedFact, ...]) -> None:
        self.count += 1
        if known.content and len(facts) == 1:
            self._by_content.setdefault(known.content, KnownFact(known, facts[0], facts))
        for fact in facts:
            entry = KnownFact(known, fact, facts)
            if not fact.slots:
                self._events.append(entry)
            for key in fact.slots:
                self._by_topic.setdefault(topic_of_slot(key), []).append(entry)

    def same(self, fact: StatedFact) -> KnownFact | None:
        """The memory that says this in the very same words, of whatever day they are."""
        found = self._by_content.get(fact.content)
        return found if found and fact.layer == "profile" == found.known.layer else None

    def lasting(self, at: datetime) -> Iterator[KnownFact]:
        """All that may still be so, or is ahead; not what happened on a day that is past."""
        for entry in {
            id(one.fact): one for some in (self._events, *self._by_topic.values()) for one in some
        }.values():
            day = entry.known.happened_at
            if entry.known.layer == "profile" or day is None or day.date() >= at.date():
                yield entry

    def near(self, fact: StatedFact) -> Iterator[KnownFact]:
        """The facts that may be the same as this one, or be changed by it."""
        for key in fact.slots:
            yield from self._by_topic.get(topic_of_slot(key), ())
        for entry in self._events:
            # Who somebody is, and what happened, are two things; but a text no rule read may be either.
            if not fact.slots or entry.fact.category == "other":
                yield entry


def topic_of_slot(key: str) -> str:
    """Things of which a longer name says more are found together, and what is with what is not; so is coffee, black or not."""
    if key.startswith("like:"):
        named = " ".join(word for word in key[5:].split() if word not in _AS_TAKEN)
        return f"like:{_STEMMED.get(named, named)}"
    return key.partition(":")[0] if key.startswith(GRADED_MANY) else key.removeprefix("not ")


def memories_of(known: Sequence[Known], owner_type: OwnerType) -> Generator[None, None, KnownFacts]:
    """The memories there are with what they say, in steps."""
    found = KnownFacts()
    room = _MOST_COMPARED
    for one in known:
        content = one.content[:MOST_OF_MEMORY]
        room -= len(content)
        if room < 0:
            break
        found.add(one, (yield from facts_of(content, owner_type)))
    return found


def facts_of(content: str, owner_type: OwnerType) -> Generator[None, None, tuple[StatedFact, ...]]:
    """What a memory says, in steps; read once, then remembered."""
    known = _read.get((content, owner_type))
    if known is not None:
        return known
    told = content.replace("用户：", "用户", 1)  # as typed, and not the line of a conversation
    found = tuple((yield from reading(told, owner_type, _ANY_TIME)))
    if not found:  # what no rule understands is still compared by its words
        plain = simplify(content)
        left = words(without_times(plain, _ANY_TIME))
        found = (StatedFact("event", "other", content, {}, left, COMMON.NEGATED.search(plain) is not None),)
    _read.put((content, owner_type), found, size_of(content) + sum(map(_size, found)))
    return found


def _size(fact: StatedFact) -> int:
    """The bytes a fact takes, about; its words are mostly the same few objects."""
    return 600 + size_of(fact.content, *fact.slots) + 64 * len(fact.words)
