"""Everyday questions: the data are as they say, plain BM25 is what it says, and what is found is judged rightly."""

import json
from itertools import product
from pathlib import Path

import pytest
from bench import people

from octavo.errors import ConfigError
from octavo.measure.everyday import (
    LANGUAGES,
    PARTS,
    Pair,
    Person,
    Statement,
    ask_people,
    figures_of,
    load_people,
    read_people,
)
from octavo.measure.metrics import BM25, K1, B, stem, terms
from octavo.testing.embedding import HashEmbedder

FILES = list(product(PARTS, LANGUAGES))


def shares_word(question, statements):
    """Whether a question and one of the statements have a content word in common: what plain BM25 matches a text by."""
    asked = set(terms(question))
    return any(not asked.isdisjoint(terms(text)) for text in statements)


# --- the data


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_enough_people_and_pairs_of_every_kind(language):
    """At least 160 pairs of at least 16 people; nearly a third of the answerable share no word, up to a third have no answer."""
    people = [person for part in PARTS for person in load_people(language, part)]
    pairs = [pair for person in people for pair in person.pairs]
    assert len(people) >= 16
    assert len(pairs) >= 160
    assert len({pair.question for pair in pairs}) > 0.9 * len(pairs)
    answerable = [pair for pair in pairs if pair.answers]
    assert 0.3 <= sum(not pair.shares for pair in answerable) / len(answerable) <= 0.5
    assert 0.12 <= 1 - len(answerable) / len(pairs) <= 1 / 3
    kinds = [pair.kind for pair in pairs]
    for kind in ("first", "third", "smalltalk", "two_facts", "overview", "no_answer", "update"):
        assert kinds.count(kind) >= 10, kind


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("part", "size"), [("held", 19), ("strangers", 10)])
def test_no_person_is_in_two_parts(language, part, size):
    """Nor is anything that answers, and hardly a question: what was tuned on would be measured."""
    dev, held = load_people(language, "dev"), load_people(language, part)
    assert len(dev) >= len(held) == size
    assert {person.name for person in dev}.isdisjoint(person.name for person in held)
    answering, asked = zip(answering_and_asked(dev), answering_and_asked(held), strict=True)
    assert answering[0].isdisjoint(answering[1])
    assert len(asked[0] & asked[1]) <= 0.05 * len(asked[1])


@pytest.mark.parametrize("language", LANGUAGES)
def test_nobody_else_is_put_aside(language):
    """The people of `bench/everyday_people`, who may be read, say nothing that those put aside say."""
    read = Path(__file__).parents[2] / "bench" / "everyday_people" / f"{language}.jsonl"
    more = read_people(read.read_bytes(), language)
    assert len(more) > 80
    said, _ = answering_and_asked(more)
    for part in ("held", "strangers"):
        assert said.isdisjoint(answering_and_asked(load_people(language, part))[0])


async def test_every_second_person_is_measured(tmp_path, monkeypatch):
    """Even and odd ones apart: what was read is no measure of what was not."""
    rows = [
        {"person": "ada", "id": "s1", "text": "I keep bees in Bergen."},
        {"person": "ada", "question": "Where are my bees?", "kind": "first", "answers": ["s1"], "answer": ["Bergen"]},
        {"person": "bo", "id": "s1", "text": "Lovely weather today."},
        {"person": "bo", "question": "Who won the cup?", "kind": "no_answer", "answers": [], "answer": []},
    ]  # fmt: skip
    lines = [json.dumps(row if "id" in row else row | {"shares": True, "language": "en"}) for row in rows]
    (tmp_path / "en.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(people, "PEOPLE", tmp_path)
    even, odd = await people.measure_people("en", 0, None), await people.measure_people("en", 1, None)
    assert (even.answerable, even.hit_1, even.unanswerable) == (1, 1.0, 0)
    assert (odd.answerable, odd.unanswerable, odd.right_absence) == (0, 1, 1.0)


def answering_and_asked(people):
    """What these people said that answers something, and what is asked of them."""
    answers = {(pair.person, id_) for person in people for pair in person.pairs for id_ in pair.answers}
    said = {
        one.text.casefold()
        for person in people
        for one in person.statements
        if (one.person, one.id) in answers
    }
    return said, {pair.question.casefold() for person in people for pair in person.pairs}


@pytest.mark.parametrize(("part", "language"), FILES)
def test_every_pair_is_answered_as_it_says(part, language):
    """The statements exist and hold the answer, other statements stand beside them, and `shares` follows its rule."""
    for person in load_people(language, part):
        texts = {statement.id: statement.text for statement in person.statements}
        assert len(texts) == len(person.statements) >= 15
        assert len(set(texts.values())) == len(texts), "a hit is recognised by its text"
        answering = {id_ for pair in person.pairs for id_ in pair.answers}
        assert len(texts.keys() - answering) >= 4, f"{person.name} says too little that answers nothing"
        for pair in person.pairs:
            assert bool(pair.answers) is (pair.kind != "no_answer"), pair
            said = [texts[id_] for id_ in pair.answers]
            for phrase in pair.answer:
                assert any(phrase.casefold() in text.casefold() for text in said), pair
            assert bool(pair.answer) is (pair.kind not in {"no_answer", "overview"}), pair
            assert pair.shares is shares_word(pair.question, said), pair
            assert (pair.person, pair.language) == (person.name, language)


# --- plain BM25


def test_bm25_by_hand():
    """Two texts of two terms and one of four: the scores are those of the formula."""
    index = BM25(["red apple", "green apple", "a red house beside the blue lake"])
    assert index.rank("which apple is red?") == [0, 1, 2]
    mean_length = (2 + 2 + 5) / 3
    idf = 0.470003629  # ln(1 + (3 - 2 + 0.5) / (2 + 0.5))
    weight = (K1 + 1) / (1 + K1 * (1 - B + B * 2 / mean_length))
    assert index._score(0, {"red", "appl"}) == pytest.approx(2 * idf * weight)
    assert index.rank("what is it?") == []


def test_terms_are_stems_characters_and_pairs():
    assert terms("Where do I live?") == terms("She lives") == ["liv"]
    assert [stem(word) for word in ("studies", "study", "stopped", "falling", "sing", "bus")] == [
        "studi", "studi", "stop", "fall", "sing", "bus",
    ]  # fmt: skip
    assert terms("我养猫，Switch 15") == ["养", "猫", "我养", "养猫", "switch", "15"]


# --- asking and judging


def person(*pairs):
    said = ("I keep bees behind the barn.", "The train was late again.", "My bees sting only in June.")
    statements = tuple(Statement("ada", f"s{at}", text) for at, text in enumerate(said, 1))
    return Person("ada", "en", statements, tuple(pairs))


def asked(question, answers=(), answer=(), *, shares=True, kind="first"):
    return Pair("ada", question, kind, answers, answer, shares, "en")


async def test_messages_and_bm25_find_the_statement():
    one = person(
        asked("Where are the bees I keep behind something?", ("s1",), ("barn",)),
        asked("What upset me?", ("s2",), ("late",), shares=False, kind="third"),
        asked("Which zodiac sign?", kind="no_answer"),
    )
    for path in ("messages", "bm25"):
        answered = await ask_people([one], path)
        assert [each.rank for each in answered] == [1, None, None]
        figures = figures_of(answered)
        assert (figures.answerable, figures.unanswerable) == (2, 1)
        assert (figures.hit_1, figures.shared_hit_3, figures.unshared_hit_3) == (0.5, 1, 0)
        assert figures.misses == {"third": 1}
        assert (figures.right_absence is None) is (path == "bm25")


async def test_a_fact_counts_only_when_it_holds_the_answer():
    """A fact of the right statement that lost the answer is a miss."""
    statements = (Statement("ada", "s1", "I live in Porto."), Statement("ada", "s2", "I like chess."))
    pairs = (asked("What do I like?", ("s2",), ("Chess",)), asked("What do I like?", ("s2",), ("draughts",)))
    answered = await ask_people([Person("ada", "en", statements, pairs)], "facts")
    assert "chess" in answered[0].found[0]
    assert [each.rank for each in answered] == [1, None]
    assert all(each.absent is not None for each in answered)


async def test_vectors_are_there_before_the_first_question():
    one = person(asked("bees behind the barn", ("s1",), ("barn",)))
    [answered] = await ask_people([one], "messages", HashEmbedder())
    assert answered.rank == 1


class Door:
    """As the front door answers: hits with their text, id and sources."""

    def __init__(self, store):
        self.store = store

    async def add(self, text, *, user_id, session_id):
        from octavo import Add, Record, Scope

        scope = Scope(user=user_id, session=session_id)
        await self.store.apply([Add([Record(collection="messages", scope=scope, text=text)])])

    async def search(self, question, *, user_id, limit):
        from octavo import Query, Scope

        records = await self.store.find(Query(collection="messages", scope=Scope(user=user_id)))
        texts = {record.text: record.id for record in records}
        fact = Said("The user keeps bees.", "f1", (texts["I keep bees behind the barn."],))
        message = Said("My bees sting only in June.", texts["My bees sting only in June."], ())
        return Hits([fact, message][:limit])


class Said:
    def __init__(self, text, id_, sources):
        self.text, self.id, self.sources = text, id_, sources


class Hits(list):
    probably_absent = False


async def test_the_front_door_is_judged_by_facts_and_messages():
    """A fact is right when it holds the answer, a message because it is the statement."""
    one = person(
        asked("What do I keep?", ("s1",), ("bees",)),
        asked("Where?", ("s1",), ("barn",)),
        asked("When do they sting?", ("s3",), ("June",)),
    )
    answered = await ask_people([one], "front", front=Door)
    assert [each.rank for each in answered] == [1, None, 2]
    with pytest.raises(ConfigError, match="the path front cannot be asked here"):
        await ask_people([one], "front")
