"""No question is an error."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memories import Recall, ids, keep, naming, near, note
from octavo import Query, Scope

QUESTIONS = {
    "empty": "",
    "spaces": " \t\r\n\u3000\u00a0",
    "punctuation": "?!.,;:'\"-_()[]{}<>/\\|@#$%^&*~`+=",
    "chinese punctuation": "。，！？；：“”‘’（）【】《》、…—",
    "stop words": "what is it that the of and to was",
    "fts operators": 'fox AND NOT owl OR NEAR(fox, 5) "fox* ^col: {a b} : fox',
    "unbalanced": '(((fox "owl [{<',
    "closing": ")]}>fox",
    "column filter": "text : fox - owl",
    "tsquery": "fox & !owl | <-> :* 'fox' \\ ::tsquery",
    "boolean mode": '+fox -owl ~fox <fox >owl fox* @3 "fox',
    "sql": "'; DROP TABLE messages; -- fox",
    "sql union": "fox' UNION SELECT password FROM users WHERE '1'='1",
    "like": "%fox_ \\% fox ESCAPE",
    "percent": "%s %(x)s %d {0} {} $1 ? :name @p1",
    "lua": "fox]] redis.call('FLUSHALL') --[[ return KEYS[1]",
    "redis glob": "fox* ?ox [a-z] \\*",
    "json": '{"fox": null, "$ne": 1}',
    "nul": "fox\0owl",
    "nul alone": "\0",
    "lone surrogate": "fox \ud800 owl",
    "surrogates alone": "\udfff\ud800",
    "control": "fox\x01\x02\x1b[31mowl\x7f",
    "right to left": "ثعلب שועל \u202efox\u202c",
    "zero width": "f\u200bo\u200cx \u200d\ufeff fox",
    "combining": "f\u0301\u0302\u0303o\u0308x" + "\u0301" * 500,
    "zalgo only": "\u0301" * 50,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 fox 🦊",
    "nonsense date": "fox on 2023-99-99, 0000-00-00, 9999-12-31, 31 February, 二月三十日 99月99日",
    "relative": "fox 999 years ago, 999 days ago, 三百年前, last month, 去年, 上周日",
    "digits": "9" * 500,
    "one long word": "fox" * 2000,
    "10k characters": ("fox owl 狐狸 " * 1000)[:10_000],
    "10k distinct": " ".join(f"w{n}x" for n in range(2000)),
    "10k brackets": "(" * 10_000,
    "1 MB": "fox " * 262_144,
    "1 MB chinese": "狐狸猫头鹰" * 70_000,
    "1 MB of months": "May 2023 " * 116_000,
    "traversal": "../../etc/passwd\n{{7*7}} ${jndi:ldap://fox}",
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_every_question_is_answered(store, home, name):
    """Operators, quotes, brackets, nothing, NUL, half characters, a megabyte: results or nothing, from every method."""
    question, recall = QUESTIONS[name], Recall(store)
    records = [
        note(home, "fox", "the fox met an owl 狐狸 in 2023"),
        note(home, "odd", "'; DROP TABLE %s NEAR( fox* :: ثعلب 🦊", minutes=1),
        note(home, "late", "fox", minutes=2),
    ]
    await keep(store, *records)
    hits = await recall.recall(question, home, explain=True)
    assert set(ids(hits)) <= {"fox", "odd", "late"}
    assert 0 <= hits.presence <= 1
    if "fox" in question.replace("\0", " ").split():
        assert "late" in ids(hits)
    for found in await recall.sessions(question, home):
        assert found.hits
    block = await recall.context(question, home, 100)
    assert block.tokens <= 100
    assert (await recall.why_not("fox", question, home)).reason
    assert len(await store.find(Query(collection="messages", scope=home))) == 3


async def test_every_question_with_vectors(in_memory, home):
    """The same beside an index: no question becomes one that a model could not be asked."""
    kept = note(home, "fox", "the fox met an owl")
    await keep(in_memory, kept)
    asked = naming(in_memory, near(kept, 0.5))
    for question in QUESTIONS.values():
        hits = await Recall(in_memory).recall(question, home)
        assert ids(hits) == (["fox"] if question.strip() else [])
        assert hits.notes == ()
    for question in asked:
        question.encode()  # half of a surrogate pair would break whatever sends or hashes it
        assert len(question) <= 10_000


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(codec=None), max_size=60))
async def test_any_string(in_memory, question):
    """Whatever characters a question is made of."""
    scope = Scope(tenant="any")
    await in_memory.apply([])
    hits = await Recall(in_memory).recall(question, scope, explain=True)
    assert hits == []


async def test_hostile_names(store, home):
    """Scopes, kinds and marks that no record can have find nothing and are no error."""
    recall = Recall(store)
    await keep(store, note(home, "fox", "the fox"))
    for word in ("\0", "\ud800", "x" * 5000, "' OR 1=1 --", "*", "%"):
        assert await recall.recall("fox", Scope(tenant=home.tenant, user=word)) == []
        assert await recall.recall("fox", Scope(tenant=word)) == []
        assert await recall.recall("fox", home, kinds=[word]) == []
        assert await recall.recall("fox", home, marks=[word]) == []
        assert ids(await recall.recall("fox", home, without=[word])) == ["fox"]
        assert await recall.recall("fox", home, where={word: 1, "k": word}) == []
