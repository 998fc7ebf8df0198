"""Documents: put, got, listed, removed, with every earlier text kept; on every store."""

import asyncio
import hashlib
import json
from datetime import UTC, datetime

import pytest

from octavo import Add, InvalidRecord, Query, Record, Scope, StoreClosed, StoreError, open_store
from octavo.service.vault import Vault

BODIES = [
    "", "plain", "no newline at the end", "two\nlines\n", "windows\r\nlines\r\n", "\n\nleading", "---\na: 1\n---\nlooks like front",
    "---\n---\n", "---", "---\n", "\ufeffmarked", "\ufeff---\na: 1\n---\n", "text\n---\nmore\n---\n", "中文，表情 😀", "\x85\u2028\x0b\x0c",
    " \t ", "\r", "x" * 100_000,
]  # fmt: skip


async def records(store, key, collection="configs"):
    return await store.find(Query(collection=collection, ids=(key,)))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("front", [None, {}, {"tone": "calm", "tags": ["a", "李"]}])
async def test_a_body_comes_back_byte_for_byte(vault, store, body, front):
    """From the file, from the store, and from a file that another machine made of the store's text."""
    put = await vault.put("users/alice", body, front)
    got = await vault.get("users/alice")
    assert got == put
    assert (got.body, got.front, got.version, got.status) == (body, front or {}, 1, "stored")
    [record] = await records(store, "users/alice")
    assert (record.text, record.kind) == (body, "user")
    assert (await vault.sync()).changed == 0


@pytest.mark.parametrize("body", BODIES)
async def test_a_file_comes_to_another_machine_byte_for_byte(vault, other, body):
    await vault.put("facts/x", "")
    file = vault.root / "knowledge" / "facts" / "x.md"
    file.write_bytes(body.encode())
    assert (await vault.sync()).pushed == (["facts/x"] if body else [])
    await other.sync()
    assert (other.root / "knowledge" / "facts" / "x.md").read_bytes() == body.encode()


async def test_kinds_and_places(vault, store):
    for key, collection, kind, path in [
        ("system", "configs", "system", "md/system.md"),
        ("world", "configs", "world", "md/world.md"),
        ("users/alice", "configs", "user", "md/users/alice.md"),
        ("tone", "configs", "config", "md/tone.md"),
        ("experiences/first", "knowledge", "experience", "knowledge/experiences/first.md"),
        ("facts/sky", "knowledge", "fact", "knowledge/facts/sky.md"),
    ]:
        document = await vault.put(key, f"of {key}")
        assert document.kind == kind
        assert (vault.root / path).read_text() == f"of {key}"
        [record] = await records(store, key, collection)
        assert (record.kind, record.text) == (kind, f"of {key}")
    listed = await vault.list()
    assert [each.key for each in listed] == ["experiences/first", "facts/sky", "system", "tone", "users/alice", "world"]  # fmt: skip
    assert all(each.synced and each.version == 1 for each in listed)
    assert [each.key for each in await vault.list("users")] == ["users/alice"]
    assert [each.key for each in await vault.list("facts/")] == ["facts/sky"]
    assert await vault.list("nothing") == []


async def test_metadata_json_has_what_the_seed_says(vault):
    await vault.put("users/alice", "hello", {"a": 1})
    entry = json.loads((vault.root / "metadata.json").read_text())["users/alice"]
    raw = (vault.root / "md" / "users" / "alice.md").read_bytes()
    assert entry["md5"] == hashlib.md5(raw).hexdigest()
    assert entry["size"] == len(raw)
    assert entry["version"] == 1
    assert entry["file_type"] == "user"
    assert datetime.fromisoformat(entry["synced_at"]).tzinfo is not None


async def test_every_replaced_text_is_a_version(vault):
    await vault.put("system", "one", {"n": 1})
    await vault.put("system", "two")
    await vault.put("system", "two")  # nothing is replaced
    document = await vault.put("system", "three", {})
    assert (document.version, document.front) == (3, {})
    versions = await vault.versions("system")
    assert [(v.version, v.reason, v.body, v.front) for v in versions] == [
        (1, "replaced", "one", {"n": 1}),
        (2, "replaced", "two", {"n": 1}),
    ]
    assert all(v.key == "system" and v.replaced_at.tzinfo is UTC for v in versions)
    assert await vault.versions("world") == []


async def test_front_matter_stays_unless_it_is_given(vault):
    await vault.put("system", "one", {"tone": "calm"})
    file = vault.root / "md" / "system.md"
    file.write_text("---\ntone: calm  # a comment\n---\none")
    await vault.sync()
    assert (await vault.put("system", "two")).front == {"tone": "calm"}
    assert file.read_text() == "---\ntone: calm  # a comment\n---\ntwo"
    assert (await vault.put("system", "two", {"tone": "loud"})).front == {"tone": "loud"}
    assert (await vault.put("system", "two", {})).front == {}
    assert file.read_text() == "two"


async def test_removing(vault, store):
    await vault.put("facts/sky", "blue")
    assert await vault.remove("facts/sky") is True
    assert await vault.get("facts/sky") is None
    assert await vault.remove("facts/sky") is False
    assert not (vault.root / "knowledge" / "facts" / "sky.md").exists()
    assert await records(store, "facts/sky", "knowledge") == []
    [version] = await vault.versions("facts/sky")
    assert (version.reason, version.body) == ("deleted", "blue")
    assert (await vault.sync()).changed == 0
    assert (await vault.put("facts/sky", "blue")).body == "blue"
    assert (await vault.sync()).changed == 0
    assert (await vault.get("facts/sky")).body == "blue"


async def test_removing_what_a_person_has_just_edited_keeps_both_texts(vault):
    await vault.put("system", "synced")
    (vault.root / "md" / "system.md").write_text("edited since")
    assert await vault.remove("system") is True
    assert {v.body for v in await vault.versions("system")} == {"synced", "edited since"}
    assert (await vault.sync()).changed == 0
    assert await vault.get("system") is None


async def test_putting_over_what_a_person_has_just_edited_keeps_both_texts(vault):
    await vault.put("system", "synced")
    (vault.root / "md" / "system.md").write_text("edited since")
    document = await vault.put("system", "put")
    assert (document.body, document.status, document.version) == ("put", "stored", 3)
    versions = await vault.versions("system")
    assert {(v.version, v.body) for v in versions} == {(1, "synced"), (2, "edited since")}
    assert (await vault.sync()).changed == 0


async def test_putting_over_what_another_machine_has_put(vault, other):
    """The store has a text that this vault never saw: it is kept, whoever wins."""
    await other.put("system", "theirs", {"by": "them"})
    mine = await vault.put("system", "mine")
    assert (mine.body, mine.status) == ("mine", "stored")
    assert [(v.reason, v.body) for v in await vault.versions("system")] == [("conflict", "theirs")]
    assert (await other.sync()).pulled == ["system"]
    assert (await other.get("system")).body == "mine"
    await vault.put("system", "mine again")
    await other.put("system", "theirs again")  # over a text that is no longer the store's
    bodies = {v.body for v in await vault.versions("system")} | {(await other.get("system")).body}
    assert bodies == {"theirs", "mine", "mine again", "theirs again"}


async def test_removing_what_another_machine_has_changed(vault, other):
    await vault.put("system", "one")
    await other.sync()
    await other.put("system", "two")
    assert await vault.remove("system") is True
    assert {v.body for v in await vault.versions("system")} == {"one", "two"}
    await other.sync()
    assert await other.get("system") is None
    await other.put("facts/x", "never seen here")
    assert await vault.remove("facts/x") is True
    assert await vault.remove("facts/y") is False


async def test_a_document_without_a_file_is_read_from_the_store(vault, other):
    await other.put("users/alice", "hello", {"a": 1})
    document = await vault.get("users/alice")
    assert (document.body, document.front, document.version, document.status) == (
        "hello",
        {"a": 1},
        1,
        "stored",
    )
    assert await vault.get("users/bob") is None


async def test_a_deleted_file_is_a_deleted_document(vault, store):
    await vault.put("users/alice", "hello")
    (vault.root / "md" / "users" / "alice.md").unlink()
    assert await vault.get("users/alice") is None
    assert (await vault.sync()).removed == ["users/alice"]
    assert await records(store, "users/alice") == []
    assert [v.reason for v in await vault.versions("users/alice")] == ["deleted"]


async def test_a_text_that_no_store_may_keep_changes_nothing(vault):
    await vault.put("system", "good")
    for body in ("nul\0", "half \ud800", "x" * (17 * 2**20), None, b"bytes"):
        with pytest.raises(InvalidRecord):
            await vault.put("system", body)
    for key in ("../system", "/etc/passwd", "users/..", "a\0b", ""):
        with pytest.raises(InvalidRecord):
            await vault.put(key, "x")
        with pytest.raises(InvalidRecord):
            await vault.get(key)
        with pytest.raises(InvalidRecord):
            await vault.remove(key)
    assert (await vault.get("system")).body == "good"
    assert (await vault.sync()).changed == 0


async def test_tenants_do_not_meet(root, tmp_path, store):
    async with (
        Vault(root, store, scope=Scope(tenant="a")) as mine,
        Vault(tmp_path / "theirs", store, scope=Scope(tenant="b")) as theirs,
    ):
        await mine.put("system", "mine")
        await theirs.put("system", "theirs")
        await mine.put("system", "mine, later")
        assert (await theirs.sync()).changed == 0
        assert (await theirs.get("system")).body == "theirs"
        assert await theirs.versions("system") == []


async def test_ids_that_differ_in_case_only(vault, other):
    ids = ["alice", "Alice", "ALICE", "李", "😀", "a/b", "a b", "con", "x" * 240, ".hidden", "a:b"]
    for id_ in ids:
        await vault.put(f"users/{id_}", f"of {id_}")
    for id_ in ids:
        assert (await vault.get(f"users/{id_}")).body == f"of {id_}"
    report = await vault.sync()
    assert (report.changed, report.problems) == (0, [])
    assert len((await other.sync()).pulled) == len(ids)
    for id_ in ids:
        assert (await other.get(f"users/{id_}")).body == f"of {id_}"
    assert len(list(vault.root.rglob("*.md"))) == len(ids)


async def test_a_closed_vault(root, store):
    vault = Vault(root, store)
    await vault.put("system", "x")
    await vault.close()
    await vault.close()
    with pytest.raises(StoreClosed):
        await vault.get("system")
    with pytest.raises(StoreClosed):
        await vault.sync()
    assert await records(store, "system")  # the store is somebody else's, and open


async def test_a_cancelled_put_is_whole(vault):
    for n in range(20):
        task = asyncio.ensure_future(vault.put("system", f"text {n}"))
        for _ in range(n):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    document = await vault.put("system", "last")
    assert document.body == "last"
    assert (await vault.sync()).changed == 0


async def test_puts_of_many_tasks_come_one_after_the_other(vault):
    await asyncio.gather(*(vault.put("system", f"text {n}") for n in range(20)))
    last = await vault.get("system")
    assert last.version == 20
    assert len({v.body for v in await vault.versions("system")} | {last.body}) == 20


async def test_records_that_somebody_else_wrote(vault, store):
    """A record without our marks, or with a text changed by hand in the database, is a document like any other."""
    foreign = Record(collection="configs", id="system", kind="system", text="---\nfrom: sql\n---\nhello")
    await store.apply(
        [Add([foreign]), Add([Record(collection="knowledge", id="stray", text="no file has this key")])]
    )
    report = await vault.sync()
    assert report.pulled == ["system"]
    assert [problem.path for problem in report.problems] == ["knowledge 'stray'"]
    assert (await vault.get("system")).body == "---\nfrom: sql\n---\nhello"
    assert (await vault.sync()).changed == 0
    document = await vault.put("system", "ours")
    assert document.status == "stored"
    [version] = await vault.versions("system")
    assert version.body == "---\nfrom: sql\n---\nhello"


KINDS = ["postgres", "mysql", "redis", "file"]


@pytest.mark.parametrize("kind", KINDS)
async def test_on_every_store(kind, fresh_url, tmp_path):
    url = f"file://{tmp_path}/records" if kind == "file" else fresh_url(kind)
    async with (
        open_store(url) as store,
        Vault(tmp_path / "one", store) as one,
        Vault(tmp_path / "two", store) as two,
    ):
        for body in BODIES:
            assert (await one.put("system", body, {"n": 1})).status == "stored"
            [record] = await records(store, "system")
            assert record.text == body
        assert (await two.sync()).pulled == ["system"]
        assert (await two.get("system")).body == BODIES[-1]
        (two.root / "md" / "system.md").write_text("edited")
        (two.root / "md" / "users" / "Ålice 😀.md").write_bytes(b"\xef\xbb\xbfhello\r\n")
        assert (await two.sync()).pushed == ["system", "users/Ålice 😀"]
        (one.root / "md" / "system.md").write_text("edited here too")
        report = await one.sync()
        assert (report.conflicts, report.pulled) == (["system"], ["users/Ålice 😀"])
        (one.root / "md" / "users" / "Ålice 😀.md").unlink()
        assert (await one.sync()).removed == ["users/Ålice 😀"]
        report = await two.sync()
        assert (report.pulled, report.unlinked) == (["system"], ["users/Ålice 😀"])
        assert [(v.reason, v.body) for v in await two.versions("users/Ålice 😀")] == [
            ("deleted", "hello\r\n")
        ]
        reasons = [v.reason for v in await one.versions("system")]
        assert reasons == ["replaced"] * (len(BODIES) - 1) + ["edited", "conflict"]
        assert await one.remove("system")
        assert (await two.sync()).unlinked == ["system"]
        assert await two.get("system") is None


async def test_where_nothing_can_be_written(tmp_path, store):
    """Nothing may be made below a file; whoever runs the tests may write everywhere else."""
    (tmp_path / "file").write_text("not a folder")
    async with Vault(tmp_path / "file" / "vault", store) as vault:
        with pytest.raises(StoreError, match="cannot write"):
            await vault.put("system", "x")
        assert await vault.get("system") is None
