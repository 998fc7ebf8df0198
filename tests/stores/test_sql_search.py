"""What is particular to searching in SQL: indexes filled late, by others, beside others, inside a caller's transaction."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.kernel.terms.matches import MOST
from octavo.kernel.terms.matching import search_records
from octavo.stores.sql import SQLAlchemyStore, indexing
from octavo.stores.sql.statements import Do, Fetch
from octavo.stores.sql.term_index import entry, scope_tags, spell_term, tags
from warm import programs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS = ["fox", "owl", "oak", "elm", "red", "blue", "狐狸", "猫头鹰", "橡树", "2024", "getUserName", "🎉"]


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return request.getfixturevalue(f"fresh_{request.param}")


@pytest.fixture
async def engine(url):
    driver = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}
    scheme, _, rest = url.partition("://")
    made = create_async_engine(f"{driver[scheme]}://{rest}")
    yield made
    await made.dispose()


def note(number, text="", **more):
    given = {"collection": "messages", "id": f"n{number}", "text": text, "seq": number}
    return Record(**given | {"scope": Scope(user="u"), "created_at": NOON + timedelta(seconds=number)} | more)


def ask(store, sql, values=()):
    def script():
        return (yield Fetch(sql, values))

    return store._driver.read(script)


def do(store, *statements):
    def script():
        for sql in statements:
            yield Do(sql)

    return store._driver.write(script)


async def found(store, *terms, **clauses):
    answer = await store.search(Query(**{"collection": "messages"} | clauses), terms)
    return [match.id for match in answer.found]


async def agrees(store, terms, **clauses):
    """A search answers what `search_records` says of the records that a find answers."""
    query = Query(**{"collection": "messages"} | clauses)
    assert await store.search(query, terms) == search_records(
        query, terms, await store.find(Query(collection="messages"))
    )


async def settled(store, collection="messages"):
    """Wait until the background has indexed everything; the test's own time limit ends a wait that is in vain."""
    while (await store.verify(collection)).waiting:
        await asyncio.sleep(0.05)


async def test_random_lives(url):
    """Through adds, changes and removals, indexed or not, every search agrees with `search_records`."""
    chance = random.Random(7)
    async with open_store(url) as store:
        for turn in range(12):
            texts = [" ".join(chance.choices(WORDS, k=chance.randrange(8))) for _ in range(40)]
            added = [
                note(
                    turn * 100 + at, text, scope=Scope(user=chance.choice("uv"), session=chance.choice("st"))
                )
                for at, text in enumerate(texts)
            ]
            await store.apply([Add(added)])
            users = Scope(user=chance.choice("uv"))
            await store.apply(
                [Change(query=Query(collection="messages", scope=users, limit=5), text=chance.choice(WORDS))]
            )
            await store.apply([Remove(Query(collection="messages", scope=users, limit=chance.randrange(9)))])
            if turn % 3 == 0:
                await store.reindex("messages")
            for scope in (Scope(), users, Scope(session="s"), Scope(user="v", agent="", session="t")):
                asked = tuple(dict.fromkeys(t for w in chance.sample(WORDS, 4) for t in entry_terms(w)))
                await agrees(store, asked, scope=scope)
                await agrees(
                    store, asked[:1], scope=scope, until=NOON + timedelta(seconds=chance.randrange(1200))
                )
        lexicon = await store.verify("messages")
        assert (lexicon.missing, lexicon.stray) == ((), 0)


def entry_terms(text):
    from octavo.kernel.terms.terms import terms

    return terms(text)


async def test_an_old_table_becomes_searchable(url):
    """Records written before anybody searched are found by the first search, and so is what is written meanwhile."""
    async with open_store(url) as store:
        await store.apply([Add([note(n, f"old word{n % 7}") for n in range(3000)])])
        assert (await store.verify("messages")).waiting == 3000
        searching = asyncio.create_task(found(store, "word3"))
        await store.apply([Add([note(n, "new word3") for n in range(3000, 3010)])])
        names = await searching
        assert {f"n{n}" for n in range(3, 3000, 7)} <= set(names)
        assert len(await found(store, "word3")) == 439
        assert len(await found(store, "old")) == MOST
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (3010, (), 0)


async def test_a_word_that_every_few_records_hold(url):
    """The newest ones are found, whatever waits."""
    async with open_store(url) as store:
        texts = ("dense other", "dense", "other words", "dense words")
        await store.apply([Add([note(n, texts[n % 4]) for n in range(4400)])])
        await agrees(store, ("dense",))
        # What waits is older than all others, and has an entry of another text, or none.
        await store.apply(
            [Change(query=Query(collection="messages", ids=("n4", "n4398")), text="dense again")]
        )
        early = [note(n, "dense", created_at=NOON - timedelta(days=n)) for n in range(5000, 5100)]
        await store.apply([Add(early)])
        for asked in (("dense",), ("dense", "words", "other"), ("dense", "again"), ("nowhere", "dense")):
            await agrees(store, asked)
            await agrees(store, asked, kinds=("",))
            await agrees(store, asked, until=NOON + timedelta(seconds=4000))


@pytest.mark.parametrize("beside", [1000, 30])
async def test_common_words_beside_what_has_expired(url, beside, monkeypatch):
    """Where the index alone counts, neither what has expired nor what was said before a change is counted."""
    monkeypatch.setattr("octavo.stores.sql.searching._BESIDE", beside)
    alive = {"scope": Scope(user="u"), "alive_at": NOON + timedelta(days=1)}
    async with open_store(url) as store:
        texts = ("common half", "common third", "common")
        ends = {n: NOON + timedelta(hours=n % 2 * 48) for n in range(0, 3400, 40)}
        await store.apply([Add([note(n, texts[n % 3], expires_at=ends.get(n)) for n in range(3400)])])
        # As many as are looked at, and one more that has expired.
        edge = [
            note(n, "edge", expires_at=None if n < 5000 + MOST else NOON) for n in range(5000, 5001 + MOST)
        ]
        await store.apply([Add(edge)])
        for asked in (("half", "third", "common"), ("half",), ("common",), ("edge", "half"), ("edge",)):
            await agrees(store, asked, **alive)
        changed = Query(collection="messages", ids=("n1", "n3", "n5001"))
        await store.apply([Change(query=changed, text="edge half rare")])
        for asked in (
            ("half", "third", "common"),
            ("edge", "rare", "common"),
            ("edge",),
            ("half", "nowhere"),
        ):
            await agrees(store, asked, **alive)


async def test_a_writer_that_never_searches(url):
    """What a store writes that has never searched, and was open before the index was made, is found by another."""
    async with open_store(url) as writer, open_store(url) as searcher:
        await writer.apply([Add([note(1, "red fox"), note(2, "blue owl")])])
        assert await found(searcher, "fox", "owl") == ["n1", "n2"]
        await searcher.reindex("messages")
        await writer.apply(
            [Add([note(3, "old oak")]), Change(query=Query(collection="messages", ids=("n1",)), text="elm")]
        )
        assert await found(searcher, "oak", "elm", "fox") == ["n1", "n3"]
        await searcher.reindex("messages")
        await writer.apply([Remove(Query(collection="messages", ids=("n1", "n3"))), Add([note(4, "fox")])])
        assert await found(searcher, "oak", "elm", "fox", "owl") == ["n2", "n4"]
        lexicon = await searcher.verify("messages")
        assert (lexicon.missing, lexicon.stray) == ((), 0)


async def test_numbers_given_out_again(url):
    """A record that gets the row number of a removed one is found by its own words and by no other's."""
    async with open_store(url) as store:
        for turn in range(4):
            await store.apply([Add([note(n, f"fox turn{turn}") for n in range(5)])])
            assert len(await found(store, f"turn{turn}")) == 5
            if turn % 2:
                await store.reindex("messages")
            await store.apply([Remove(Query(collection="messages"))])
            if turn > 1:
                await store.reindex("messages")
            await store.apply([Add([note(n, f"owl after{turn}") for n in range(3)])])
            assert await found(store, "fox") == []
            assert len(await found(store, f"after{turn}", f"turn{turn}")) == 3
            await store.apply([Remove(Query(collection="messages"))])


async def test_indexed_in_idle_time(url, monkeypatch):
    """After a search, what is written is indexed by itself; before the first one, nothing is."""
    monkeypatch.setattr(indexing, "_IDLE_SECONDS", 0.01)
    async with open_store(url) as store:
        await store.apply([Add([note(1, "fox")])])
        assert (await store.verify("messages")).waiting == 1
        assert await found(store, "fox") == ["n1"]
        await store.apply([Add([note(n, "fox") for n in range(2, 700)])])
        await store.apply([Remove(Query(collection="messages", ids=("n1",)))])
        await settled(store)
        assert len(await ask(store, "SELECT number FROM messages_terms")) == 698


async def test_many_at_once(url):
    """Stores that search, write and rebuild at the same time neither fail nor miss anything nor leave anything wrong."""
    async with open_store(url) as one, open_store(url) as two, open_store(url) as three:
        done = 0

        async def write(store, name):
            nonlocal done
            for number in range(30):
                record = note(number, f"common {name}", id=f"{name}{number}", kind="k")
                await store.apply([Add([record])])
                assert f"{name}{number}" in await found(store, "common", kinds=("k",))
                if number % 5 == 0:
                    named = Query(collection="messages", ids=(record.id,))
                    await store.apply([Change(query=named, text=f"common changed {name}")])
                    assert record.id in await found(store, "chang")
                if number % 7 == 0:
                    await store.apply([Remove(Query(collection="messages", ids=(record.id,)))])
                    assert record.id not in await found(store, "common")
            done += 1

        async def rebuild(store):
            while done < 3:
                await store.reindex("messages")

        await asyncio.gather(write(one, "a"), write(two, "b"), write(three, "c"), rebuild(one), rebuild(two))
        await agrees(two, ("common", "chang", "a"))
        lexicon = await three.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (3 * 25, (), 0)


PROCESS = """
import asyncio, sys
from octavo import Add, Query, Record, Scope, open_store
async def main(url, name):
    async with open_store(url) as store:
        for n in range(40):
            await store.apply([Add([Record(collection="messages", id=f"{name}{n}", text=f"common {name}")])])
            answer = await store.search(Query(collection="messages"), ("common",))
            assert f"{name}{n}" in {match.id for match in answer.found}
asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_on_a_new_database(url):
    """Processes that make the same table and the same index at the same moment all succeed, and miss nothing."""
    runs = [
        await asyncio.create_subprocess_exec(f"{programs()}/python", "-c", PROCESS, url, name)
        for name in ("a", "b", "c")
    ]
    assert [await run.wait() for run in runs] == [0, 0, 0]
    async with open_store(url) as store:
        assert len(await found(store, "common")) == 120
        await store.reindex("messages")
        assert (await store.verify("messages")).missing == ()


async def test_what_verify_names(url):
    """Damage is named by `verify` and mended by `reindex`."""
    async with open_store(url) as store:
        await store.apply([Add([note(n, f"fox number{n}") for n in range(10)])])
        assert len(await found(store, "fox")) == 10
        await store.reindex("messages")
        numbers = [row[0] for row in await ask(store, "SELECT rowno FROM messages ORDER BY id")]
        await do(
            store,
            f"DELETE FROM messages_terms WHERE number = {numbers[2]}",
            f"UPDATE messages_terms SET bag = ' owl ' WHERE number = {numbers[3]}",
            f"INSERT INTO messages_terms (SELECT number + 1000, length, bag, more, tags, lexemes FROM messages_terms "
            f"WHERE number = {numbers[4]})"
            if store._driver.dialect.name == "postgresql"
            else f"INSERT INTO messages_terms SELECT number + 1000, length, bag, more, tags FROM messages_terms "
            f"WHERE number = {numbers[4]}",
        )
        lexicon = await store.verify("messages")
        assert {"n2", "n3"} <= set(lexicon.missing)
        assert (lexicon.stray, lexicon.records) == (1, 10)
        assert await store.reindex("messages") == 10
        lexicon = await store.verify("messages")
        assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0)
        for number in range(10):
            assert await found(store, f"number{number}") == [f"n{number}"]
        assert await found(store, "owl") == []


async def test_an_index_that_disagrees_with_its_entries(tmp_path):
    """Where FTS5 itself has lost a record, `verify` names it, and `reindex` brings it back."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([note(n, f"fox number{n}") for n in range(5)])])
        await store.reindex("messages")
        await do(
            store,
            "INSERT INTO messages_index (messages_index, rowid, tags, bag) SELECT 'delete', number, tags, bag FROM messages_terms WHERE number = 3",
        )
        assert await found(store, "number2") == []
        assert (await store.verify("messages")).missing == ("n2",)
        await store.reindex("messages")
        assert await found(store, "number2") == ["n2"]
        assert (await store.verify("messages")).missing == ()


async def test_a_huge_record(url):
    """A text with more distinct words than one tsvector takes is found by each of them, and counted."""
    chance = random.Random(3)
    long = "".join(chr(chance.randrange(0x4E00, 0x9FA0)) for _ in range(200_000))
    async with open_store(url) as store:
        await store.apply([Add([note(1, long), note(2, "一 fox"), note(3, "elm")])])
        await store.reindex("messages")
        for terms in ((long[5:7],), (long[-2:], "fox"), ("nothere",), ("elm", "fox")):
            await agrees(store, terms)


async def test_a_word_in_a_wide_scope(url):
    """In a scope too wide to be read whole, words are looked up, counted and cut as `search_records` does it."""
    async with open_store(url) as store:
        texts = [f"common {'half ' * (n % 2)}{'tenth tenth ' * (n % 10 == 0)}word{n}" for n in range(5000)]
        await store.apply([Add([note(n, text, kind="ab"[n % 2]) for n, text in enumerate(texts)])])
        for terms in (
            ("common",), ("half", "tenth"), ("word17",), ("word17", "word18", "tenth"), ("common", "half", "tenth", "word4999"),
            ("nothere", "neither", "none"), ("word1", "word2", "word3", "word4", "common"),
        ):  # fmt: skip
            await agrees(store, terms)
            await agrees(store, terms, kinds=("b",))
        await store.apply([Remove(Query(collection="messages", ids=("n17", "n4999")))])
        await store.apply([Change(query=Query(collection="messages", ids=("n18",)), text="common word17")])
        for terms in (
            ("common",),
            ("word17",),
            ("word17", "word18", "tenth"),
            ("common", "half", "tenth", "word4999"),
        ):
            await agrees(store, terms)


async def test_a_session_searches_what_it_alone_can_see(engine, url):
    """Inside a caller's transaction a search finds what that has written, commits nothing, and leaves no trace of it."""
    async with open_store(url) as store:
        await store.apply([Add([note(1, "red fox"), note(2, "blue fox")])])
        if store._driver.dialect.name != "mysql":
            assert await found(store, "fox") == ["n1", "n2"]
    async with AsyncSession(engine) as session:
        joined = SQLAlchemyStore(session)
        assert await found(joined, "fox", "owl") == ["n1", "n2"]
        await joined.apply([Add([note(3, "an owl")]), Remove(Query(collection="messages", ids=("n1",)))])
        await joined.apply([Change(query=Query(collection="messages", ids=("n2",)), text="blue elm")])
        assert await found(joined, "fox", "owl") == ["n3"]
        assert await found(joined, "elm") == ["n2"]
        await session.rollback()
        assert await found(joined, "fox", "owl", "elm") == ["n1", "n2"]
        await joined.apply([Add([note(4, "late fox")])])
        assert await found(joined, "fox") == ["n1", "n2", "n4"]
        await session.commit()
        await joined.close()
    async with open_store(url) as store:
        assert await found(store, "fox") == ["n1", "n2", "n4"]
        assert await found(store, "owl", "elm") == []


async def test_a_session_writes_first_and_searches_then(engine, url):
    """The first search of all, inside a transaction that has locked the table, is answered all the same."""
    async with AsyncSession(engine) as session:
        joined = SQLAlchemyStore(session)
        await joined.apply([Add([note(n, f"fox number{n}") for n in range(400)])])
        assert len(await found(joined, "fox")) == 400
        await joined.apply([Change(query=Query(collection="messages", ids=("n7",)), text="owl")])
        assert await found(joined, "owl", "number7") == ["n7"]
        await session.commit()
        assert len(await found(joined, "fox")) == 399
        await joined.apply([Add([note(n, "oak") for n in range(400, 900)])])
        assert len(await found(joined, "oak", "owl")) == 501
        await session.commit()
        assert len(await found(joined, "oak", "owl")) == 501
    async with open_store(url) as store:
        assert len(await found(store, "oak", "owl", "fox")) == 900
        assert (await store.verify("messages")).missing == ()


async def test_a_session_that_holds_what_waits(engine, url):
    """A search does not wait for an open transaction that has locked more records than are looked at besides."""
    if engine.dialect.name == "sqlite":
        pytest.skip("whoever writes to SQLite has all of it")
    async with open_store(url) as store, AsyncSession(engine) as session:
        await store.apply([Add([note(n, "fox") for n in range(400)])])
        await SQLAlchemyStore(session).apply([Change(query=Query(collection="messages"), text="owl")])
        async with asyncio.timeout(30):
            assert len(await found(store, "fox", "owl")) == 400
        await session.commit()
        assert len(await found(store, "owl")) == 400
        assert await found(store, "fox") == []


async def test_reindex_beside_a_session_that_removes(engine, url):
    """A rebuild waits for who is removing an indexed record, so that no entry of it is left."""
    async with open_store(url) as store, AsyncSession(engine) as session:
        await store.apply([Add([note(n, f"fox number{n}") for n in range(3)])])
        await store.reindex("messages")
        await SQLAlchemyStore(session).apply([Remove(Query(collection="messages", ids=("n1",)))])
        rebuild = asyncio.create_task(store.reindex("messages"))
        await asyncio.wait([rebuild], timeout=0.5)
        await session.commit()
        await rebuild
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (2, (), 0)


async def test_reindex_inside_a_session(engine, url):
    """A session may reindex what it has written, and what it has committed."""
    async with AsyncSession(engine) as session:
        joined = SQLAlchemyStore(session)
        await joined.apply([Add([note(1, "fox")])])
        assert await joined.reindex("messages") == 1
        await session.commit()
        assert await joined.reindex("messages") == 1
        await session.commit()
        assert await found(joined, "fox") == ["n1"]
        assert (await joined.verify("messages")).missing == ()
        await session.commit()


def test_words_and_tags():
    """A word stands for one term; whatever an engine would alter becomes a digest; absent parts have tags as well."""
    assert [spell_term(term) for term in ("fox", "狐狸", "2024", "🎉")] == ["fox", "狐狸", "2024", "🎉"]
    odd = ["Fox", "a b", "", "a'b", 'a"b', "~x", "x" * 65, "\ud800", "a\0"]
    assert all(spell_term(term).startswith("~") for term in odd)
    assert len({spell_term(term) for term in odd}) == len(odd)
    made = entry(7, ("t", "u", "", "s"), "fox owl fox FOX", "")
    assert (made.length, made.bag, made.more) == (4, " fox owl 0topic0animals ", "fox fox")
    assert made.tags.split(" ") == list(tags("t", "u", "", "s"))
    assert scope_tags(Scope(tenant="t")).tags == (tags("t", "", "", "")[0],)
    assert set(scope_tags(Scope(tenant="t", user="u", agent="")).tags) == set(tags("t", "u", "", "s")[1:3])
    assert set(tags("t", "u", "", "s")).isdisjoint(tags("T", "u", "", "s"))
