"""How candidates are put in order: one BM25 over what a store found, fused with times, vectors and what stands around.

The statistics are those of the candidates themselves. So nothing but them has to be read, whatever the store: taking all
records of the scope into the counts moved no figure of the benchmarks by more than two thousandths.
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

import msgspec

from octavo.kernel.model import Record
from octavo.kernel.terms import TOPIC_PREFIX, is_topic
from octavo.kernel.terms.dates import DayRange
from octavo.kernel.terms.matches import MOST, Match
from octavo.kernel.terms.matching import index_text, topic_in
from octavo.kernel.terms.terms import is_unspaced
from octavo.search.alike import AskedWords
from octavo.search.candidates import Candidates
from octavo.search.question import Question, only_asks
from octavo.search.subject import OTHER, OWN, PEOPLE, begins_with_speaker, names_in, subjects_of, told_of

K1, B = 0.9, 0.5
SESSION_K1, SESSION_B = 1.2, 0.75
PARTICLE = 0.3  # of a character that only holds a sentence together:
PARTICLES = frozenset("的了是在有个着过也都就和与")
SINGLE = 0.5  # of another character by itself: most are half of a word that means something else
ASIDE = 0.2  # of a term of the small talk around a question
NAMED = 1.2  # of what somebody is called whom the question asks about, in up to
_NAMES = 2  # terms: a longer name is that of a thing
TOPIC = 0.8  # of a topic beside words as rare as it is
#: What is told first when all that is known is asked for.
OVERVIEW = {"profile": 3.0, "episodes": 2.0, "knowledge": 1.0, "messages": 1.0}
#: What each signal weighs beside the record's own terms, in standard deviations of that signal.
SESSION, TIME, VECTOR, RECENCY, IMPORTANCE = 0.8, 6.0, 1.0, 0.001, 0.3
EVOKED = 1.4  # of VECTOR where nothing is asked: what is said brings to mind what has few of its words
#: What a record adds that tells of the person who is asked about, and takes that tells of somebody else.
OWN_FACT, OTHERS_FACT = 0.3, 2.5
ASKING = 1.5  # what a record takes that asks for something itself
ALIKE = 1.5  # what a word adds that a record says in other words, one that is half alike half of it
MOST_ALIKE = 2  # words that count of one record
FAINT = 0.35  # of a word: what shares no more than that with a question is no answer
LATER = 0.7  # of what a record lacks beside the best hit, added if it was told later and goes on about that,
RARE = 0.35  # with a word of both that weighs so much: one that no record has weighs 1
ABOUT = 0.6  # what a fact adds whose own topic is asked about
NOW = 1.0  # what the newest adds where it is asked what is so now
RERANK = 2.0  # of a second model beside all of these, among the best
LINK = 0.3  # of a hit that tells of the same as the first ones
NEIGHBOUR, VECTOR_NEIGHBOUR = 0.2, 0.3  # what the match before or after in a session adds
_NEIGHBOUR_WITHIN = timedelta(hours=1)
_HALF_LIFE_DAYS = 10.0
_AGREEING = 0.3  # of the twenty best, when words and vectors share that many both are believed
_DEPTH = 20
_LEAD = 1.5  # the power of a vector's lead
_LEAST_DEVIATION = 0.2  # of the best score
LOOKED_AT = 10  # hits that tell who says what, and whom each tells of
_FEW = 100  # candidates: among fewer, BM25 knows little of what a word says,
_FEW_READ = 40  # and so do fewer records than these
TOLD = 500  # characters of a record in which it says what it tells, and of whom
_LINKING = (
    1  # the first hit, or two if several things are asked for, says whom or what the others should tell of
)
_MANY = 4 * MOST  # the same where terms are in more than are counted: they would weigh nothing

Scored: TypeAlias = tuple[int, Record, float]  # a candidate's position, the record and its score
#: Of one term: where it stands among the candidates, and how often there; or what it adds there.
_Column: TypeAlias = list[tuple[int, int]]
_Gains: TypeAlias = list[tuple[int, float]]


class Ranking(msgspec.Struct):
    """Every candidate's standing by each signal; all lists are in the order of the candidates, oldest first."""

    question: Question
    candidates: Candidates
    sessions: "_Sessions"
    session_scores: list[float]  # by their own words, in the order of the sessions; none if there is just one
    signals: dict[str, list[float]]
    trust: float  # how far the vectors were believed, 0 to 1
    total: list[float]
    order: list[int]  # the positions of the candidates, best first
    words: AskedWords
    others: set[int] = msgspec.field(default_factory=set)  # those read that tell of somebody else, or nothing

    @property
    def found(self) -> list[Match]:
        """The candidates as the terms found them."""
        return self.candidates.found

    def ranks(self, ats: Sequence[int]) -> dict[str, dict[int, int]]:
        """The rank of these candidates by each signal they are in; candidates with the same score share a rank."""
        ranks: dict[str, dict[int, int]] = {}
        for name, scores in self.signals.items():
            inside = sorted([score for score in scores if score])
            ranks[name] = {at: len(inside) - bisect_right(inside, scores[at]) + 1 for at in ats if scores[at]}
        return ranks

    @property
    def most_told(self) -> float:
        """What a whole record may add or take at most."""
        return (
            ALIKE * MOST_ALIKE * self.words.any
            + IMPORTANCE / 2
            + max(ASKING, (ABOUT + max(OWN_FACT, OTHERS_FACT)) * self.question.own)
        )

    def told_by(self, at: int, record: Record) -> float:
        """What only the whole record tells: how important it is, how much of the question it says in other words, and whether
        it is about whom and what the question asks about.

        One that only asks, or tells of somebody else, is noted in `others`.
        """
        alike = self.signals["alike"][at] = min(self.words.score(record.text[:TOLD]), MOST_ALIKE)
        added = importance(record) + ALIKE * alike
        if only_asks(record.text[:TOLD]):
            self.others.add(at)
            return added - ASKING
        # The "I" of an assistant is somebody else, and that of a line in a transcript anybody.
        if self.question.own and record.kind != "assistant" and not begins_with_speaker(record.text):
            text, quote = index_text(record.text, record.data)
            told = told_of((quote or text)[:TOLD], self.question.terms)
            added += {OWN: OWN_FACT, OTHER: -OTHERS_FACT}.get(told, 0.0)
            if told == OTHER:
                self.others.add(at)
            if f"{TOPIC_PREFIX}{topic_in(record.data)}" in self.question.terms:
                added += ABOUT
        return added

    @property
    def looks_further(self) -> bool:
        """Whether there are candidates that share no term with the question: these stand at the end."""
        return not any(self.found[self.order[-1]].counts)

    def told_later(self, rows: Sequence[Scored]) -> dict[int, float]:
        """What those of the records add that go on about the best one: told later, with a word of it that few of them have.

        "Orkney's off, the Hebrides instead" goes on about "We fly to Orkney in September".
        """
        if self.question.ending and self.candidates.cosines:
            return {}  # nothing was asked that could have a later answer, and vectors know what belongs to it
        telling = [row for row in rows if row[0] not in self.others and self.says_something(row[0])]
        if not (telling and self.looks_further):
            return {}
        first, _, most = max(telling, key=lambda row: row[2])
        words = {at: self.words.others_in(record.text[:TOLD]) for at, record, _ in rows}
        held = Counter(word for each in words.values() for word in each)
        total = max(len(rows), _FEW_READ)
        rarity = {word: weigh(held[word], total) / weigh(0, total) for word in words[first]}
        added: dict[int, float] = {}
        for at, _, score in rows:
            rarest = max((rarity.get(word, 0.0) for word in words[at]), default=0.0)
            if at > first and at not in self.others and rarest >= RARE:
                self.signals["later"][at] = rarest
                added[at] = LATER * rarest * max(most - score, 0.0)
        return added

    def says_something(self, at: int) -> bool:
        """Whether a record that was read says anything of what is asked, goes on about the best, or was named by the vectors."""
        shares = any(self.found[at].counts) or at in self.candidates.cosines or self.signals["later"][at] > 0
        return shares or self.question.overview or self.signals["alike"][at] >= FAINT

    def pick_about_person(self, hits: Sequence[Scored]) -> set[int] | None:
        """Those of the hits that tell of whom the question asks about; None if it asks of nobody else.

        "My daughter Kiara" tells whose college "Kiara is pre-med" is about.
        """
        question = self.question
        people = {at for at, term in enumerate(question.terms) if term in PEOPLE} - question.aside
        # By what the question calls them, or else by who they are: "my kid" is "one boy, Kayden" where nobody says kid.
        telling = [at for at, _, _ in hits if at not in self.others]
        holding = (
            {at for at in telling if any(map(self.found[at].counts.__getitem__, n))}
            for n in (question.named, people)
        )
        if not (told := next(filter(None, holding), None)):
            return None
        texts = {at: index_text(record.text, record.data)[0][:TOLD] for at, record, _ in hits}
        names = {name for at in told for name in names_in(texts[at])}
        return told | {at for at, text in texts.items() if any(name in text for name in names)}

    def linked(self, hits: list[Scored]) -> list[Scored]:
        """The hits, those moved up that tell of whom or what the first ones tell of, if the question does not name it.

        Who asks for the hobby of somebody called Wang is answered by 我叔叔叫王志强 and 我叔叔喜欢钓鱼 together.
        """
        asked = self.question.text.casefold()
        subjects = [subjects_of(index_text(record.text, record.data)[0][:TOLD]) for _, record, _ in hits]
        first = subjects[: _LINKING + bool(self.question.parts)]
        # Who asks about himself does not ask whom else he told of.
        named = {name for names in first for name in names if name not in asked and not self.question.own}
        scored = [
            (at, record, score + LINK * (not names.isdisjoint(named)))
            for (at, record, score), names in zip(hits, subjects, strict=True)
        ]
        return sorted(scored, key=lambda row: -row[2]) if named else hits

    def by_session(self) -> dict[str, float]:
        """The same signals for whole sessions, by scope: the session's own words, and the best records in it."""
        scope_keys = self.sessions.scope_keys
        members: list[list[int]] = [[] for _ in scope_keys]
        for at, slot in enumerate(self.sessions.slots):
            if slot >= 0:
                members[slot].append(at)
        terms, vector, time = (self.signals[name] for name in ("terms", "vector", "time"))
        own = standard(self.session_scores) if self.session_scores else [0.0] * len(scope_keys)
        best = standard([_few_best([terms[at] for at in ats]) for ats in members])
        near = standard([_few_best([vector[at] for at in ats]) for ats in members])
        when = [max(time[at] for at in ats) for ats in members]
        return {
            scope_key: 0.4 * around + 0.6 * record + 0.6 * VECTOR * self.trust * closeness + TIME * fit
            for scope_key, around, record, closeness, fit in zip(
                scope_keys, own, best, near, when, strict=True
            )
        }


def rank(question: Question, candidates: Candidates) -> Ranking:
    """Fuse what is known of each candidate.

    Scores are standardised and added, not their ranks: a record that fits far better than the next one keeps its lead.
    """
    found, cosines = candidates.found, candidates.cosines
    sessions = _Sessions.of(found)
    record_scores, session_scores = _lexical_scores(question, found, candidates.held, sessions)
    none = [0.0] * len(found)
    terms = sessions.spread(record_scores, NEIGHBOUR)
    around = [*standard(session_scores), 0.0]  # the last is for records without a session, whose slot is -1
    session = [around[slot] for slot in sessions.slots] if session_scores else none
    vector = sessions.spread(_above_floor(len(found), cosines), VECTOR_NEIGHBOUR) if cosines else none
    trust = _trust(terms, cosines)
    meaning = trust * VECTOR * (EVOKED if question.ending else 1.0)
    time = [time_fit(question.spans, match.created_at) for match in found] if question.spans else none
    if question.overview:
        terms = [OVERVIEW.get(name, 0.0) for name in candidates.collections]
    recency = [at / len(found) for at in range(len(found))]  # found stands oldest first
    recent = NOW if question.now else RECENCY
    total = [
        own + SESSION * near_by + TIME * when + meaning * near + recent * late
        for own, near_by, when, near, late in zip(
            standard(terms), session, time, standard(vector) if cosines else none, recency, strict=True
        )
    ]
    signals = {"terms": terms, "session": session, "vector": vector, "time": time, "recency": recency}
    for name in ("alike", "later"):
        signals[name] = [0.0] * len(found)  # of a record that is read
    # Of two that are alike in everything, the newer one: it stands later.
    order = sorted(range(len(total) - 1, -1, -1), key=total.__getitem__, reverse=True)
    return Ranking(
        question,
        candidates,
        sessions,
        session_scores,
        signals,
        trust,
        total,
        order,
        _asked_words(question, candidates),
    )


def _asked_words(question: Question, candidates: Candidates) -> AskedWords:
    """The words of the question by what each says: one that is in many records says little."""
    total = max(len(candidates.found), _FEW)
    held = dict(zip(question.terms, candidates.held, strict=True))
    rarity = {word: weigh(held.get(word, 0), total) / weigh(0, total) for word in question.words}
    # Among few candidates the words themselves are counted here too.
    return AskedWords(rarity, _FEW / total)


def importance(record: Record) -> float:
    """What the record's own `importance` (metadata, 0 to 1, or up to 10) adds or takes; nothing when it has none."""
    given = record.metadata.get("importance")
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    share = min(max(given / 10 if given > 1 else given, 0.0), 1.0)
    return IMPORTANCE * (share - 0.5)


def standard(scores: Sequence[float]) -> list[float]:
    """The scores in standard deviations from their mean; all zero when they do not differ."""
    if not scores:
        return []
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum([(score - mean) ** 2 for score in scores]) / len(scores))
    # Among a few candidates that are nearly alike, a hair's breadth would count as much as the time a question names.
    deviation = max(deviation, _LEAST_DEVIATION * max([abs(score) for score in scores]))
    return [(score - mean) / deviation for score in scores] if deviation > 1e-9 else [0.0] * len(scores)


def time_fit(named: Sequence[DayRange], at: datetime) -> float:
    """1.0 for a time inside one of the spans; half of that ten days after, or five before.

    What happened is told later: a record from soon after the day is likelier about it than one from before.
    """
    day = at.astimezone(UTC).date()
    off = min((_days_off(span, day) for span in named), default=None)
    return 0.0 if off is None else float(0.5 ** (off / _HALF_LIFE_DAYS))


def _days_off(span: DayRange, day: date) -> int:
    return 2 * (span.first - day).days if day < span.first else max(0, (day - span.last).days)


class _Sessions(msgspec.Struct):
    """The sessions that candidates stand in, and which candidates are neighbours in them."""

    scope_keys: list[str]
    slots: list[int]  # for each candidate the number of its session in `scope_keys`, or -1
    neighbours: list[tuple[int, int]]  # one right after the other in a session, not long apart

    @classmethod
    def of(cls, found: list[Match]) -> "_Sessions":
        numbers: dict[str, int] = {}
        known: dict[
            int, int
        ] = {}  # by identity: rows of one session share their scope, and hashing it takes longer
        slots: list[int] = []
        for match in found:
            scope = match.scope
            slot = known.get(id(scope))
            if slot is None:
                slot = numbers.setdefault(scope.key, len(numbers)) if scope.session else -1
                known[id(scope)] = slot
            slots.append(slot)
        neighbours: list[tuple[int, int]] = []
        last: dict[int, int] = {}
        # Where there is one session only, there may be no order in it that means anything.
        for at, slot in enumerate(slots if len(numbers) > 1 else ()):
            before = last.get(slot)
            if slot < 0:
                continue
            if before is not None and found[at].created_at - found[before].created_at <= _NEIGHBOUR_WITHIN:
                neighbours.append((before, at))
            last[slot] = at
        return cls(list(numbers), slots, neighbours)

    def spread(self, scores: list[float], share: float) -> list[float]:
        """Each score with a share of its neighbours': in a conversation an answer stands next to its question."""
        out = list(scores)
        for first, second in self.neighbours:
            out[first] += share * scores[second]
            out[second] += share * scores[first]
        return out

    def sums(self, column: _Column) -> _Column:
        """The same for sessions: what those of their candidates come to."""
        sums: dict[int, int] = {}
        slots = self.slots
        for at, value in column:
            slot = slots[at]
            sums[slot] = sums.get(slot, 0) + value
        sums.pop(-1, None)  # records without a session
        return list(sums.items())


def _lexical_scores(
    question: Question, found: list[Match], held: Sequence[int], sessions: _Sessions
) -> tuple[list[float], list[float]]:
    """The scores of every candidate by its words, and of every session; none of these if there is just one."""
    if not found:
        return [], []
    # Most records hold few of the terms.
    columns = [_nonzero(counts) for counts in zip(*[match.counts for match in found], strict=True)]
    holding = [False] * len(found)  # those that only the vectors named hold no term
    for column in columns:
        for at, _ in column:
            holding[at] = True
    candidates = sum(holding)
    total = _MANY if max(held, default=0) > MOST else candidates
    weights = [weigh(n, total) * _weight_of_kind(term) for n, term in zip(held, question.terms, strict=True)]
    if question.asked:  # what is asked is known, and all else is small talk
        weights = [weight * (ASIDE if at in question.aside else 1.0) for at, weight in enumerate(weights)]
    if len(question.named) <= _NAMES:
        weights = [weight * (NAMED if at in question.named else 1.0) for at, weight in enumerate(weights)]
    lengths = [match.length if holds else 0 for match, holds in zip(found, holding, strict=True)]
    gains = _gains(columns, lengths, sum(lengths) / (candidates or 1), weights, K1, B)
    records = _sum(gains, len(found))
    if question.parts:
        # Each sentence of a long question counts as much as the whole: otherwise the longest one takes every hit.
        parts = [_relative(_sum([gains[at] for at in part], len(found))) for part in question.parts]
        records = [whole + max(each) for whole, *each in zip(_relative(records), *parts, strict=True)]
    size = len(sessions.scope_keys)
    if size < 2:
        return records, []
    # Sessions as documents; one is as long as what was found of it.
    columns = [sessions.sums(column) for column in columns]
    weights = [weigh(len(column), size) for column in columns]
    long = dict(sessions.sums(_nonzero(lengths)))
    lengths = [long.get(slot, 0) for slot in range(size)]
    return records, _sum(_gains(columns, lengths, sum(lengths) / size, weights, SESSION_K1, SESSION_B), size)


def _weight_of_kind(term: str) -> float:
    """What a term says beside a word, as rare as it may be."""
    if is_topic(term):
        return TOPIC
    if term in PARTICLES:
        return PARTICLE
    return SINGLE if len(term) == 1 and is_unspaced(term) else 1.0


def weigh(held: int, total: int) -> float:
    """What a term says that stands in `held` of `total` records: a rare one says more."""
    return math.log(1 + (total - min(held, total) + 0.5) / (held + 0.5))


def _nonzero(values: Sequence[int]) -> _Column:
    return [(at, value) for at, value in enumerate(values) if value]


def _gains(
    columns: Sequence[_Column], lengths: list[int], mean: float, weights: list[float], k1: float, b: float
) -> list[_Gains]:
    """What each term adds to each document that holds it, by BM25."""
    norms = [k1 * (1 - b + b * length / (mean or 1.0)) for length in lengths]
    return [
        [(at, says * n / (n + norms[at])) for at, n in column]
        for column, says in zip(columns, [weight * (k1 + 1) for weight in weights], strict=True)
    ]


def _sum(gains: list[_Gains], size: int) -> list[float]:
    sums = [0.0] * size
    for column in gains:
        for at, gain in column:
            sums[at] += gain
    return sums


def _relative(scores: list[float]) -> list[float]:
    best = max(scores) or 1.0
    return [score / best for score in scores]


def _few_best(scores: list[float]) -> float:
    return sum([score * 0.3**n for n, score in enumerate(sorted(scores, reverse=True)[:3])])


def _above_floor(n: int, cosines: dict[int, float]) -> list[float]:
    """How far each candidate stands above the farthest of the nearest; cosines of two models mean different things.

    A lead counts for more than it is long: those in the middle are all about as near, and should not vote.
    """
    floor = min(cosines.values(), default=0.0)
    return [(cosines[at] - floor) ** _LEAD if at in cosines else 0.0 for at in range(n)]


def _trust(terms: list[float], cosines: dict[int, float]) -> float:
    """A model that knows what the words are about names some of the records that the words find.

    One that does not (another language, hashed or static vectors) is heard less, or not at all. Where no words match,
    there is nothing to hold it against.
    """
    if not cosines:
        return 0.0
    worded = heapq.nlargest(
        _DEPTH, [at for at, score in enumerate(terms) if score > 0], key=terms.__getitem__
    )
    if not worded:
        return 1.0
    nearest = heapq.nlargest(_DEPTH, cosines, key=cosines.__getitem__)
    shared = len(set(worded) & set(nearest)) / min(len(worded), len(nearest))
    return min(1.0, shared / _AGREEING)
