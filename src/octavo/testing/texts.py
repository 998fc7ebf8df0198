"""What goes in comes out: texts that databases get wrong, names that must never be taken for one another, bodies, times and scopes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from msgspec.structs import replace

from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES
from octavo.testing.agreement import spelling
from octavo.testing.subject import StoreUnderTest, count, ids, message, messages, on_a_store

#: (what is looked for, what was written, whether it is found). Judged by hand, not by the code under test.
NEEDLES = (
    ("hello", "Say HELLO", True),
    ("STRASSE", "Hauptstraße 5", True),
    ("ß", "STRASSE", True),
    ("straße", "strase", False),
    ("İSTANBUL", "i̇stanbul", True),
    ("istanbul", "İstanbul", False),  # the dot of İ stays, between i and s
    ("ı", "I", False),
    ("I", "ılık ı", False),
    ("I", "i", True),
    ("fi", "ﬁn", True),
    ("ABC", "ａｂｃ", True),
    ("12", "第１２章", True),
    ("ΟΔΟΣ", "οδος", True),
    ("café", "un cafe\u0301", True),
    ("cafe", "café", False),
    ("cafe", "cafe\u0301", False),
    ("å", "\u212b", True),
    ("k", "\u212a", True),
    ("한", "\u1112\u1161\u11ab", True),
    ("하", "한", False),
    ("ガ", "ｶﾞ", True),
    ("计算器", "打开计算器。", True),
    ("計算", "计算", False),
    ("?", "吗？", True),
    ("%", "100%", True),
    ("%", "100", False),
    ("100%", "1000 %", False),
    ("_", "snake_case", True),
    ("_", "snake", False),
    ("a_b", "axb", False),
    ("\\", "C:\\dir", True),
    ("\\", "C:/dir", False),
    ("\\%", "100%", False),
    ("\\n", "a\nb", False),
    ("*", "a", False),
    ("'", "it's", True),
    ("''", "it's", False),
    ('"', 'say "hi"', True),
    ("; DROP TABLE", "x'; drop table y", True),
    ("👍", "👍🏽", True),
    ("👍🏽", "👍", False),
    ("👍🏽", "👍🏿", False),
    ("👩💻", "👩\u200d💻", False),
    ("שלום", "אמר שלום לך", True),
    ("coop", "co\u00adop", False),  # a soft hyphen is a character
    ("a\nb", "line A\nB", True),
    ("a\nb", "a\r\nb", False),
    ("\t", "a\tb", True),
    ("a ", "a", False),
    ("a ", "a b", True),
    ("null", "nothing", False),
    ("", "anything", True),
)

#: The same question put to records without a text: the values of their data are looked through, their keys are not.
VALUES: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("deep", {"a": [{"b": "So DEEP"}]}, True),
    ("deep", {"a": ("Deep", {"b": 1})}, True),
    ("name", {"name": "x"}, False),
    ("true", {"flag": True}, True),
    ("1.5", {"n": 1.5}, True),
    ("null", {"n": None}, False),
    ("c", {"a": "c"}, True),
    ('say "hi"', {"a": 'SAY "HI"'}, True),
    ("a\nb", {"x": "a", "y": "b"}, True),  # values stand on lines of their own
    ("ab", {"x": "a", "y": "b"}, False),
    ("计算", {"问": {"答": "计算器"}}, True),
    ("\\n", {"a": "x\ny"}, False),
    ("{", {}, False),
)  # fmt: skip

#: Names that some backend has been seen to merge, cut, pad or take for its own syntax.
NAMES = (
    "alice", "Alice", "ALICE", "alicé", "alice\u0301", "alice ", " alice", "alice  ", "alice\t", "alice\n", "ａｌｉｃｅ",
    "ﬁ", "fi", "ß", "ss", "İ", "i̇", "ı", "i", "K", "\u212a", "é", "e\u0301", "ガ", "ｶﾞ", "计算器", "計算器", "😀", "😁",
    "👍", "👍🏽", "👩\u200d💻", "a\u200db", "ab", "\ufeffab", "\u202eab", "a\u00adb", "שלום", ":", "a:b", "a::b", "a|b", "a/b",
    "a\\b", "a\\", "../a", "..", ".", "/", "%", "%61", "_", "a%", "a_", "*", "?", "[a]", "{a}", "'", "''", '"', "`", "$1", "%s",
    "--", "; DROP TABLE messages", "0", "00", "1", "1.0", "01", "1e0", "-0", "null", "NULL", "None", "true", "nan", "{}", "[]",
    "\x01", "\x7f", "\x1f", "\r\n", "a\nb", "a b", "a\u00a0b", "CON", "nul.txt", "~", "#", "a&b=c", "+", "a+b", "a%2Bb",
    "x" * 255, "x" * 254 + "y", "é" * 127, "😀" * 63,
)  # fmt: skip


class Texts(StoreUnderTest):
    @on_a_store
    async def test_caseless_search(self, store: Store, home: Scope) -> None:
        """A text search finds what the table of nasty pairs says, and nothing else."""
        pairs = list(enumerate(NEEDLES))
        written = [message(str(n), home, text=text) for n, (_, text, _) in pairs]
        await store.apply([Add(written)])
        wrong = []
        for number, (needle, text, expected) in pairs:
            query = messages(home, ids=(str(number),), text=needle)
            found = await store.find(query)
            if bool(found) != expected or (await store.tally(query)).total != len(found):
                wrong.append((needle, text, expected))
        assert wrong == []
        # Asked of all records at once, so that an index rather than a filter may answer.
        for needle in {needle for needle, _, _ in NEEDLES}:
            found = await store.find(messages(home, text=needle))
            said = {str(n) for n, (other, _, expected) in pairs if other == needle and expected}
            denied = {str(n) for n, (other, _, expected) in pairs if other == needle and not expected}
            names = {record.id for record in found}
            assert said <= names, needle
            assert not denied & names, needle

    @on_a_store
    async def test_search_in_data(self, store: Store, home: Scope) -> None:
        """A record without text is searched by the values of its data; with text, its data is not looked at."""
        wrong = []
        for number, (needle, data, expected) in enumerate(VALUES):
            plain = Record(collection="events", id=f"p{number}", scope=home, data=data)
            spoken = Record(collection="events", id=f"s{number}", scope=home, text="#", data=data)
            await store.apply([Add([plain, spoken])])
            found = await store.find(
                Query(collection="events", ids=(plain.id, spoken.id), scope=home, text=needle)
            )
            if [record.id for record in found] != ([plain.id] if expected else []):
                wrong.append((needle, data, expected))
        assert wrong == []

    @on_a_store
    async def test_text_comes_back(self, store: Store, home: Scope) -> None:
        """A text is given back character by character: nothing normalised, trimmed or cut."""
        odd = ("\r\n \t", " ", "\n", "\ufffe\U0010ffff", "a" * 70_000)
        texts = [*(text for _, text, _ in NEEDLES), *NAMES, *odd]
        written = [message(str(n), home, text=text) for n, text in enumerate(texts)]
        await store.apply([Add(written)])
        found = {record.id: record.text for record in await store.find(messages(home))}
        assert [found[str(n)] for n in range(len(texts))] == texts

    @on_a_store
    async def test_ids_are_bytes(self, store: Store, home: Scope) -> None:
        """Two ids that differ in case, accent, spaces or normalisation are two records, in every collection."""
        for collection in SHAPES:
            written = [
                Record(collection=collection, id=name, scope=home, seq=n) for n, name in enumerate(NAMES)
            ]
            assert await count(store, Add(written)) == len(NAMES), collection
            assert await count(store, Add(written[::-1])) == 0, collection
            for record in written[:: 1 if collection == "messages" else 9]:
                query = Query(collection=collection, ids=(record.id,), scope=home)
                assert [one.seq for one in await store.find(query)] == [record.seq], record.id
            found = await store.find(Query(collection=collection, scope=home))
            assert sorted(one.id for one in found) == sorted(NAMES), collection
            assert await count(store, Remove(Query(collection=collection, ids=("alice",), scope=home))) == 1
            assert (await store.tally(Query(collection=collection, scope=home))).total == len(NAMES) - 1

    @on_a_store
    async def test_kinds_and_marks_are_bytes(self, store: Store, home: Scope) -> None:
        """Kinds and marks are told apart byte by byte in questions, tallies and changes."""
        written = [message(str(n), home, kind=name, marks=(name, "all")) for n, name in enumerate(NAMES)]
        await store.apply([Add(written)])
        home_query = messages(home)
        assert (await store.tally(home_query)).by_kind == dict.fromkeys(NAMES, 1)
        for number, name in enumerate(NAMES):
            for clause in ({"kinds": (name,)}, {"marks": (name,)}):
                query = replace(home_query, **clause)
                assert await ids(store, query) == [str(number)], clause
                assert (await store.tally(query)).by_kind == {name: 1}
        rest = await store.find(replace(home_query, without=("alice",)))
        assert {record.kind for record in rest} == {*NAMES} - {"alice"}
        assert await count(store, Change(query=home_query, unmark=("alice", "ﬁ"), kind="alice")) == len(NAMES)
        after = {record.id: record for record in await store.find(home_query)}
        for number, name in enumerate(NAMES):
            kept = ("all",) if name in {"alice", "ﬁ"} else (name, "all")
            assert (after[str(number)].marks, after[str(number)].kind) == (kept, "alice")

    @on_a_store
    async def test_scopes_never_meet(self, store: Store, home: Scope) -> None:
        """Tenants, users, agents and sessions that merely look alike share no record."""
        for part in ("user", "agent", "session"):
            scopes = [replace(home, **{part: name}) for name in NAMES]
            await self._assert_apart(store, scopes, part)
        short = [name for name in NAMES if len((home.tenant + name).encode()) <= 64]
        await self._assert_apart(store, [Scope(tenant=home.tenant + name) for name in short], "tenant")
        tricks = [
            ("ab", "c", None),
            ("a", "bc", None),
            ("a", None, "bc"),
            (None, "ab", "c"),
            ("1:a", "b", None),
            ("1:a1:b", None, None),
            ("a|b", "c", None),
            ("a", "b|c", None),
            ("a", "b", "c"),
            ("a/b/c", None, None),
        ]
        scopes = [
            Scope(tenant=f"{home.tenant}~", user=user, agent=agent, session=session)
            for user, agent, session in tricks
        ]
        await self._assert_apart(store, scopes, "scope")

    async def _assert_apart(self, store: Store, scopes: list[Scope], what: str) -> None:
        written = [
            Record(collection="profile", id="same", kind=what, scope=scope, seq=n)
            for n, scope in enumerate(scopes)
        ]
        assert await count(store, Add(written)) == len(scopes), what
        for record in written:
            parts = {name: getattr(record.scope, name) or "" for name in ("user", "agent", "session")}
            query = Query(
                collection="profile", kinds=(what,), scope=Scope(tenant=record.scope.tenant, **parts)
            )
            found = await store.find(query)
            assert [(one.seq, one.scope) for one in found] == [(record.seq, record.scope)], record.scope
            assert (await store.tally(query)).total == 1


BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"": ""},
    {"z": 1, "a": 2, "m": {"z": 1, "a": 2}},
    {"none": None, "list": [], "dict": {}, "nested": [[[{}]], [None], [{"a": []}]]},
    {"one": 1, "float": 1.0, "true": True, "text": "1"},
    {"zero": 0, "minus": -0.0, "false": False, "empty": ""},
    {"big": 2**63 - 1, "bigger": 2**64 - 1, "least": -(2**63), "odd": 2**53 + 1},
    {"floats": [1e22, 5e-324, -0.0, 1.7e308, 0.1, -2.5, 1e16, 123456789.123456789, 0.30000000000000004]},
    {"ключ": "值", "😀": "👩\u200d💻", "a.b": 1, "$set": 2, "a\nb": "\t"},
    {'"': "'", "\\": "\\\\", "é": 1, "e\u0301": 2},
    {"text": "%s ? :name $1 {} \x7f \x01 \u2028 \ufeff", "html": "</script>&amp;", "path": "C:\\n"},
    {"depth": [[[[[[[[[[[[[[[[[[[[["end"]]]]]]]]]]]]]]]]]]]]]},
    {"many": list(range(1000)), "long": "x" * 10_000},
)


class Bodies(StoreUnderTest):
    @on_a_store
    async def test_bodies_come_back(self, store: Store, home: Scope) -> None:
        """JSON that was added or changed comes back equal: true is not 1, floats to the last bit, keys in their order."""
        every, one = messages(home), messages(home, ids=("changed",))
        added = [message(str(n), home, data=body, metadata=body) for n, body in enumerate(BODIES)]
        await store.apply([Add([*added, message("changed", home, data={"n": 1})])])
        found = await store.find(every)
        assert [repr((record.data, record.metadata)) for record in found[:-1]] == [
            repr((body, body)) for body in BODIES
        ]
        for value in (True, 1.0, 1, "1", None, [1], {"deep": 1}):
            assert await count(store, Change(query=one, merge={"n": value})) == 1
            assert repr((await store.find(one))[0].data) == repr({"n": value})
        for body in BODIES[1:]:
            assert await count(store, Change(query=one, data=body, metadata=body)) == 1
            assert await count(store, Change(query=one, data=body, merge=body, metadata=body)) == 0
            (record,) = await store.find(one)
            assert repr((record.data, record.metadata)) == repr((body, body))

    @on_a_store
    async def test_every_field_in_every_collection(self, store: Store, home: Scope) -> None:
        """Whatever the collection, each field of a full record and of a bare one comes back as it was."""
        at = datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC)
        for collection in SHAPES:
            full = Record(
                collection=collection,
                id="full",
                kind="kind",
                scope=Scope(tenant=home.tenant, user="u", agent="a", session="s"),
                text="Text",
                data={"memory_layer": "event", "embedding_id": "e1", "input_event_id": "i1"},
                metadata={"topic": "x"},
                marks=("b", "a"),
                created_at=at,
                updated_at=at + timedelta(seconds=1),
                expires_at=at + timedelta(days=1),
                seq=7,
            )
            bare = Record(
                collection=collection, id="bare", scope=Scope(tenant=home.tenant), created_at=at, seq=8
            )
            kept = replace(bare, updated_at=at)
            assert await count(store, Add([full, bare])) == 2
            query = Query(collection=collection, scope=Scope(tenant=home.tenant))
            assert await store.find(query) == [full, kept]
            assert spelling(await store.find(query)) == spelling([full, kept])
            assert (await store.tally(query)).by_kind == {"kind": 1, "": 1}

    @on_a_store
    async def test_times(self, store: Store, home: Scope) -> None:
        """Times keep their microsecond from the year 1000 to 9999, come back in UTC, and a naive one is local time."""
        east = timezone(timedelta(hours=5, minutes=45))
        times = [
            datetime(1000, 1, 1, tzinfo=UTC),
            datetime(1582, 10, 10, 1, 2, 3, 4, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 3, 1, 5, 45, 0, 1, tzinfo=east),
            datetime(2024, 6, 1, 12, 0, 0, 5),  # noqa: DTZ001 - naive on purpose
            datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ]
        written = [
            Record(collection="episodes", id=str(n), scope=home, created_at=at, updated_at=at, expires_at=at)
            for n, at in enumerate(times)
        ]
        await store.apply([Add(written[::-1])])
        every = Query(collection="episodes", scope=home)
        found = await store.find(every)
        moments = [at.astimezone(UTC) for at in times]
        assert [record.created_at for record in found] == moments
        assert {record.created_at.tzinfo for record in found} == {UTC}
        assert [record.updated_at for record in found] == [record.expires_at for record in found] == moments
        tally = await store.tally(every)
        assert (tally.first, tally.last) == (moments[0], moments[-1])
        for number, at in enumerate(times):
            clauses = ({"since": at}, {"until": at}, {"alive_at": at}, {"expired_at": at})
            asked = [replace(every, **clause) for clause in clauses]
            counts = [8 - number, number, 7 - number, number + 1]
            assert [len(await store.find(query)) for query in asked] == counts
        dawn = datetime(1, 1, 1, tzinfo=UTC)
        always = replace(every, since=dawn, alive_at=dawn)
        assert len(await store.find(always)) == len(times)
        await store.apply([Change(query=always, kind="x", expires_at=times[5], updated_at=times[5])])
        assert {(record.expires_at, record.updated_at) for record in await store.find(always)} == {
            (moments[5],) * 2
        }

    @on_a_store
    async def test_readers_get_copies(self, store: Store, home: Scope) -> None:
        """Nothing a caller does to a dict it gave or got changes what is kept."""
        given: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
        record = Record(collection="events", id="a", scope=home, data=given, metadata=given)
        await store.apply([Add([record])])
        given["list"].append(2)
        query = Query(collection="events", scope=home)
        for _ in range(2):
            (found,) = await store.find(query)
            assert found.data == found.metadata == {"list": [1], "dict": {"a": 1}}
            found.data["list"].append(3)
            found.metadata["dict"]["b"] = 2
        merged: dict[str, Any] = {"list": [4]}
        await store.apply([Change(query=query, merge=merged)])
        merged["list"].append(5)
        assert (await store.find(query))[0].data == {"list": [4], "dict": {"a": 1}}
