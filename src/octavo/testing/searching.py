"""Searching by terms: what a store that is `Searches` finds is what `search_records` finds, at once and whatever is asked.

The index of terms may lag behind the records, and no search ever sees it: among writers, beside other stores, rebuilt.
"""

import asyncio
import functools
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from octavo.errors import InvalidQuery
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.ports import IndexesLater, Searches, Store
from octavo.kernel.terms.matches import MOST, Matches
from octavo.kernel.terms.matching import search_records
from octavo.kernel.terms.terms import terms as terms_of
from octavo.testing.agreement import outcome, run_on_a_store
from octavo.testing.strategies import Program, Seek, Write, searching_programs, spell_code
from octavo.testing.subject import NOON, StoreUnderTest, on_a_store, refuses

#: Text as people and programs write it; every term of each must find it.
LANGUAGES = (
    "Melanie painted a sunrise in 2022; the painting hangs in her children's room.",
    "HELLO Wörld, naïve café, Straße, ﬁnish, Ｆｕｌｌ Ｗｉｄｔｈ, e\u0301te\u0301",
    "我養了兩隻貓，牠們很愛睡覺；我养了两只猫",
    "我昨天在北京买了一台笔记本电脑，花了8,999元。",
    "2023年5月7日（星期日）下午3点半，和小明一起去看电影《流浪地球》",
    "我用 iPhone 15 Pro 拍了 3.14 GB 的 video，上传到 Google Drive 了",
    "東京タワーに行きました。カメラを買う。한국어 문장도 있습니다. ภาษาไทยไม่มีช่องว่าง",
    "Привет, мир! Ελληνικά. مرحبا بالعالم. שלום עולם. हिन्दी में लिखा हुआ",
    "🎉🎂 party 👍🏽 👩\u200d💻 🇨🇳",
    "def get_user_name(self, userId: int) -> str: return self.cache['user:%d' % userId]",
    "C++ and C# and F#, e-mail vs email, v2.10.3, foo.bar_baz-qux, https://example.com/a/b?c=d&e=f#g",
    "May 7th, 2023; 7 May 2023; 2023-05-07; 2023/5/7; 7 of September; 10:30; 1,000,000.5; 50%",
    "SELECT * FROM notes WHERE id = 1; -- comment",
    "the of and a to in is",
    "12345 000123 0 007 ٣٤ ½ ² Ⅷ",
)
#: Nothing of this may be an error, or find what it should not, on any engine.
HOSTILE = (
    "", " ", "\t\n", "\0", "a\0b", "*", "hel*", "he_lo", "%", "hell%", "AND", "OR", "NOT", "and", "NEAR(", "NEAR/2",
    "a:b", "text:hello", '"', '"hello', "'", "''", "'; DROP TABLE messages; --", "/* */", "--", "#", "\\", "\\'",
    "(", ")", "((hello", "[", "]", "{", "}", "{{}}", "^hello", "+hello", "-hello", "~", "<->", "hello & world",
    "hello|world", "!hello", "hello:*", "@", "@@", "?", ":name", "$1", "%s", "%(a)s", "hello world", "world hello",
    "redis.call('flushall')", "]]..x..[[", "\ud800", "a\ud800", "\U0010ffff", "\ufeff", "\u200d", "\u0301", "，", "。",
    "HELLO", "Hello", "hello\n", "x" * 10_000, "你" * 10_000, "hello" * 2_000, "é", "ß", "İ", "🎉" * 70, "1e9", "0x0",
)  # fmt: skip


def searcher(store: Store) -> Searches:
    """The store as one that searches; a test of one that does not is skipped."""
    if not isinstance(store, Searches):
        pytest.skip("this store does not search: it has no `search`, `reindex` and `verify`")
    return store


def on_an_index(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """`on_a_store`, of a store that searches."""

    @functools.wraps(test)
    async def run(self: StoreUnderTest, store: Store, home: Scope) -> None:
        searcher(store)
        await test(self, store, home)

    return on_a_store(run)


def note(name: str, home: Scope, text: str = "", **fields: Any) -> Record:
    """A record of a collection that few other tests write to, so that verifying it takes no time."""
    return Record(**{"collection": "exchanges", "id": name, "scope": home, "text": text, **fields})


def everything(home: Scope, **clauses: Any) -> Query:
    return Query(**{"collection": "exchanges", "scope": home, **clauses})


async def find_ids(store: Store, query: Query, *terms: str) -> list[str]:
    """The ids a search answers."""
    return [match.id for match in (await searcher(store).search(query, terms)).found]


async def verify_search(store: Store, query: Query, terms: tuple[str, ...], records: list[Record]) -> Matches:
    """What the store answers, which must be what `search_records` answers from these records."""
    answer = await searcher(store).search(query, terms)
    expected = search_records(query, terms, records)
    said = f"search({spell_code(query)}, {[term[:80] for term in terms]!r})"
    assert answer.held == expected.held, said
    # The first difference alone: where CI is set, pytest compares two long lists line by line, for minutes.
    pairs = itertools.zip_longest(answer.found, expected.found)
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    assert different is None, said
    return answer


class Searching(StoreUnderTest):
    """Run only for stores that are `octavo.kernel.ports.Searches`; `OCTAVO_PROGRAMS` says how many programs are run, thrice."""

    def test_searches_agree(self) -> None:
        """Whatever was added, changed and removed, a search by any terms, scope and clauses finds what `search_records` finds."""
        run_on_a_store(self, searching_programs(), self.compare_searches, share=3)

    async def compare_searches(self, store: Store, program: Program) -> None:
        """Take the steps on both stores; compare each search with what the right one's records come to."""
        searcher(store)
        async with asyncio.timeout(self.seconds), self.reference() as model:
            for step in program.under(new_id()):
                if isinstance(step, Write):
                    assert await outcome(store, step.ops) == await outcome(model, step.ops)
                elif isinstance(step, Seek):
                    whole = Query(
                        collection=step.query.collection, scope=Scope(tenant=step.query.scope.tenant)
                    )
                    await verify_search(store, step.query, step.terms, await model.find(whole))

    @on_an_index
    async def test_every_language_is_searched(self, store: Store, home: Scope) -> None:
        """English, Chinese, mixed text, other scripts, emoji, numbers, dates and code are found by each of their terms."""
        records = [
            note(str(number), home, text, created_at=NOON + timedelta(seconds=number), seq=number)
            for number, text in enumerate(LANGUAGES)
        ]
        await store.apply([Add(records)])
        for record in records:
            asked = tuple(dict.fromkeys(terms_of(record.text)))
            assert asked
            answer = await verify_search(store, everything(home), asked, records)
            assert record.id in [match.id for match in answer.found]
        for term in sorted({term for text in LANGUAGES for term in terms_of(text)}):
            await verify_search(store, everything(home), (term,), records)

    @on_an_index
    async def test_more_than_a_search_looks_at(self, store: Store, home: Scope) -> None:
        """Where more records hold the terms than MOST, the rarest terms choose, then common ones together, then the newest.

        Counts end at MOST + 1.
        """
        many = MOST + 600
        records = [_common(number, home) for number in range(many)]
        await store.apply([Add(records)])
        asked = [
            ("common",), ("half",), ("rare",), ("once",), ("common", "half"), ("common", "rare"), ("once", "common"),
            ("half", "rare", "common"), ("half", "third"), ("front", "back"), ("front", "back", "once"), ("nothere",),
            ("nothere", "common"), ("front", "middle"), ("lower", "upper"), ("lower", "upper", "rare", "common", "half"),
            ("common", "common", "half", "once", "half"), ("常见", "常", "once"), ("but0", "but1"), ("but2", "but1", "but0"),
            ("common", "but0"),
        ]  # fmt: skip
        for terms in asked:
            await verify_search(store, everything(home), terms, records)
            one = replace(home, user="u0")
            await verify_search(store, everything(one), terms, records)
        whole = await verify_search(store, everything(home), ("common",), records)
        assert (len(whole.found), whole.held) == (MOST, (MOST + 1,))
        assert whole.found[-1].id == records[-1].id
        assert len((await verify_search(store, everything(home), ("front", "back"), records)).found) == MOST
        assert len((await verify_search(store, everything(home), ("front", "middle"), records)).found) < MOST
        later = records[300].created_at
        await verify_search(store, everything(home, since=later, kinds=("k",)), ("common", "third"), records)
        await store.apply([Remove(everything(home, until=later))])
        await verify_search(store, everything(home), ("common", "once"), records[300:])
        await verify_search(store, everything(home), ("half", "third", "once"), records[300:])

    @on_an_index
    async def test_hostile_terms(self, store: Store, home: Scope) -> None:
        """Terms that no text holds (operators, quotes, brackets, NUL, 10,000 characters) find nothing and are no error."""
        texts = (
            "hello world",
            "Hello * NEAR( a:b",
            "' OR 1=1 --",
            "x" * 10_000,
            "and or not",
            "é ß İ 🎉",
            "",
            "%s $1",
        )
        records = [note(str(n), home, text, created_at=NOON, seq=n) for n, text in enumerate(texts)]
        await store.apply([Add(records)])
        for term in HOSTILE:
            await verify_search(store, everything(home), (term,), records)
            answer = await verify_search(store, everything(home), ("hello", term, "world", term), records)
            assert [match.id for match in answer.found][:2] == ["0", "1"]
        await verify_search(store, everything(home), HOSTILE, records)
        await verify_search(store, everything(home), tuple(f"w{number}" for number in range(2_000)), records)
        assert await searcher(store).search(everything(home), ()) == Matches()
        for clause in ({"ids": ()}, {"kinds": ()}, {"marks": ()}, {"where": {"a": "\0"}}):
            nothing = await searcher(store).search(everything(home, **clause), ("hello", "*"))
            assert nothing == Matches(held=(0, 0))
        await refuses(InvalidQuery, searcher(store).search(Query(collection="none"), ("hello",)), "none")
        await refuses(InvalidQuery, searcher(store).search(everything(home, limit=-1), ("hello",)), "limit")
        await refuses(InvalidQuery, searcher(store).search(everything(home), "hello"), "hello")
        await refuses(InvalidQuery, searcher(store).reindex("none"), "none")
        await refuses(InvalidQuery, searcher(store).verify("none"), "none")

    @on_an_index
    async def test_long_texts_are_searched(self, store: Store, home: Scope) -> None:
        """Ten megabytes of text are found by their beginning; a run of letters of any length is one term."""
        long = "Prologue 序言 " + "filler words 填充 " * 500_000 + " epilogue"
        records = [
            note("long", home, long[:10_000_000], created_at=NOON, seq=1),
            note("run", home, "z" * 5_000 + " tail", created_at=NOON, seq=2),
            note("wide", home, "字" * 3_000, created_at=NOON, seq=3),
        ]
        await store.apply([Add(records)])
        run = tuple(terms_of("z" * 5_000))
        for terms in (("prologu",), ("序言", "tail"), ("epilogu",), run, ("字字",), ("filler", "word")):
            await verify_search(store, everything(home), terms, records)
        assert await find_ids(store, everything(home), "prologu") == ["long"]
        assert await find_ids(store, everything(home), *run) == ["run"]
        await store.apply([Remove(everything(home))])


def _common(number: int, home: Scope) -> Record:
    """One of many records: `front` and `back` are in MOST of them together, `front` and `middle` overlap.

    Two of three records hold `but0`, two of three `but1`, one of three holds both, and none holds `but2` as well.
    """
    words = ["common", "常见"]
    words += ["half"] * (number % 2 == 0) + ["third"] * (1 + number % 2) * (number % 3 == 0)
    words += ["rare"] * (number % 100 == 7) + ["once"] * (number in {3, MOST + 500})
    words += ["front"] * (number < MOST * 3 // 4) + ["back"] * (MOST * 3 // 4 <= number < MOST)
    words += ["middle"] * (MOST // 2 <= number < MOST - 1)
    words += [f"but{rest}" for rest in range(3) if number % 3 != rest]
    words += ["lower"] * (number <= MOST // 2) + ["upper"] * (MOST // 2 < number <= MOST)
    return note(
        f"n{number}",
        replace(home, user=f"u{number % 2}"),
        " ".join(words),
        kind=("", "k")[number % 2],
        created_at=NOON + timedelta(seconds=number),
        seq=number,
    )


class Indexing(StoreUnderTest):
    """Run only for stores that are `octavo.kernel.ports.Searches`."""

    @on_an_index
    async def test_searches_among_writers(self, store: Store, home: Scope) -> None:
        """While twenty writers append, a search finds every record that was acknowledged before it began, once."""
        acknowledged: set[str] = set()
        done = 0

        async def write(writer: int) -> None:
            nonlocal done
            try:
                for number in range(8):
                    name = f"{writer}-{number}"
                    await store.apply([Add([note(name, home, f"common word{writer} number{number}")])])
                    acknowledged.add(name)
            finally:
                done += 1

        async def search() -> None:
            while done < 20:
                before = set(acknowledged)
                names = await find_ids(store, everything(home), "common")
                assert len(names) == len({*names})
                assert before <= {*names}
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(search())
            for writer in range(20):
                group.create_task(write(writer))
        records = await store.find(everything(home))
        await verify_search(store, everything(home), ("common", "word7", "number3"), records)

    @on_an_index
    async def test_two_stores_search_alike(self, store: Store, home: Scope) -> None:
        """What one store acknowledged, the next search of another on the same records sees; so does one opened later."""
        async with self.opened_again() as other:
            for number in range(6):
                one, two = (store, other) if number % 2 else (other, store)
                name = str(number)
                await one.apply([Add([note(name, home, f"fox number{number}"), note("gone", home, "whale")])])
                assert await find_ids(two, everything(home), f"number{number}", "whale") == [name, "gone"]
                await two.apply([Change(query=everything(home, ids=(name,)), text=f"owl thing{number}")])
                await two.apply([Remove(everything(home, ids=("gone",)))])
                assert await find_ids(one, everything(home), f"number{number}", "whale") == []
                assert await find_ids(one, everything(home), f"thing{number}") == [name]
                assert len(await find_ids(two, everything(home), "owl")) == number + 1
        await store.apply([Add([note("late", home, "late fox")]), Remove(everything(home, ids=("0",)))])
        await store.close()
        async with self.opened_again() as later:
            records = await later.find(everything(home))
            answer = await verify_search(later, everything(home), ("fox", "owl", "thing0", "thing1"), records)
            assert answer.held == (1, 5, 0, 1)

    @on_an_index
    async def test_reindexed(self, store: Store, home: Scope) -> None:
        """An index built anew answers as the old one did; comparing it with the records names nothing, before and after."""
        index = searcher(store)
        words = ("fox", "owl", "oak", "狐狸", "whale")
        await store.apply(
            [Add([note(f"{n}", home, " ".join(words[: n % 6]), kind="ab"[n % 2]) for n in range(300)])]
        )
        assert len(await find_ids(store, everything(home), "fox")) == 250
        await store.apply([Change(query=everything(home, ids=("1", "2", "3")), text="an elm")])
        await store.apply([Remove(everything(home, ids=("10", "11", "12")))])
        await store.apply([Add([note("late", home, "late fox")])])
        told: list[tuple[int, int]] = []
        lexicon = await index.verify("exchanges", lambda *step: told.append(step))
        assert (lexicon.collection, lexicon.missing, lexicon.stray) == ("exchanges", (), 0)
        assert lexicon.records >= 298
        assert told
        assert told[-1][0] == told[-1][1]
        records = await store.find(everything(home))
        before = [await verify_search(store, everything(home), (word, "elm"), records) for word in words]
        told.clear()
        assert await index.reindex("exchanges", lambda *step: told.append(step)) == lexicon.records
        assert told[-1:] == [(lexicon.records, lexicon.records)]
        assert [
            await verify_search(store, everything(home), (word, "elm"), records) for word in words
        ] == before
        again = await index.verify("exchanges")
        assert again == replace(lexicon, waiting=again.waiting)
        await store.apply([Remove(everything(home)), Add([note("b", home, "fox")])])
        assert await find_ids(store, everything(home), "fox", "elm") == ["b"]
        assert (await index.verify("exchanges")).missing == ()
        assert await index.reindex("turns") >= 0  # a collection nothing was ever written to

    @on_an_index
    async def test_what_waits_is_told(self, store: Store, home: Scope) -> None:
        """A store that indexes later says which records wait, finds them all the same, and indexes them once it was asked."""
        if not isinstance(store, IndexesLater):
            pytest.skip("not octavo.kernel.ports.IndexesLater")
        assert await store.unindexed(everything(home)) == set()
        await store.apply([Add([note(f"{n}", home, "a red fox") for n in range(3)])])
        waiting = await store.unindexed(everything(home))
        assert waiting <= {"0", "1", "2"}  # another test on the same database may have had them indexed
        assert await store.unindexed(everything(home, ids=("0",))) == waiting & {"0"}
        assert await store.unindexed(everything(replace(home, user="nobody"))) == set()
        assert await find_ids(store, everything(home), "fox") == ["0", "1", "2"]
        while await store.lag("exchanges", 10):
            await asyncio.sleep(0.05)
        assert await store.unindexed(everything(home)) == set()
        await store.apply([Change(query=everything(home, ids=("1",)), text="a blue whale")])
        assert await store.unindexed(everything(home)) <= {"1"}
        assert await store.lag("turns", 10) >= 0  # a collection nothing was ever written to

    @on_an_index
    async def test_searches_while_reindexed(self, store: Store, home: Scope) -> None:
        """While the index is built anew, searches find everything and writes go on."""
        index = searcher(store)
        await store.apply([Add([note(f"old-{n}", home, f"common word{n}") for n in range(200)])])
        written = {f"old-{n}" for n in range(200)}
        rebuilding = asyncio.create_task(index.reindex("exchanges"))
        number = 0
        while not rebuilding.done() or number < 3:
            assert written <= {*await find_ids(store, everything(home), "common")}
            await store.apply([Add([note(f"new-{number}", home, "common")])])
            written.add(f"new-{number}")
            number += 1
            await asyncio.sleep(0)
        await rebuilding
        assert Counter(await find_ids(store, everything(home), "common")) == Counter(written)
        lexicon = await index.verify("exchanges")
        assert (lexicon.missing, lexicon.stray) == ((), 0)
