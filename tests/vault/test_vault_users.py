"""Documents about a user carry that user, their versions too."""

from octavo import Query, Scope
from octavo.service.vault import Vault

COLLECTIONS = ("configs", "knowledge", "versions")


async def found(store, scope):
    """The keys of all that is kept in a scope; of a version, the document's."""
    kept = [
        record for name in COLLECTIONS for record in await store.find(Query(collection=name, scope=scope))
    ]
    return sorted((record.collection, record.scope.session or record.id, record.text) for record in kept)


async def test_whose_a_document_is(vault, store):
    """`users/<id>` is the user's, in whatever way it was written; every other document is nobody's."""
    for text in ("one", "two"):
        await vault.put("users/lin", text)
        await vault.put("users/ann", text)
        await vault.put("system", text)
        await vault.put("facts/sky", text)
    await vault.remove("users/ann")
    lins = [("configs", "users/lin", "two"), ("versions", "users/lin", "one")]
    assert await found(store, Scope(user="lin")) == lins
    assert {key for _, key, _ in await found(store, Scope(user="ann"))} == {"users/ann"}
    assert {key for _, key, _ in await found(store, Scope(user=""))} == {"system", "facts/sky"}
    (vault.root / "md/users/lin.md").write_text("edited")
    (vault.root / "md/users/eve.md").write_text("dropped here")
    report = await vault.sync()
    assert (report.pushed, report.complete) == (["users/eve", "users/lin"], True)
    assert ("configs", "users/lin", "edited") in await found(store, Scope(user="lin"))
    assert await found(store, Scope(user="eve")) == [("configs", "users/eve", "dropped here")]
    assert [version.body for version in await vault.versions("users/lin")] == ["one", "two"]


async def test_a_renamed_file_is_another_users(vault, store):
    await vault.put("users/lin", "hers")
    (vault.root / "md/users/lin.md").rename(vault.root / "md/users/ann.md")
    await vault.sync()
    assert await found(store, Scope(user="ann")) == [("configs", "users/ann", "hers")]
    assert await found(store, Scope(user="lin")) == [("versions", "users/lin", "hers")]


async def test_a_users_own_vault(vault, store, tmp_path):
    """In a vault of a user all documents are that user's, and no other vault takes them for its own."""
    async with Vault(tmp_path / "own", store, scope=Scope(user="lin")) as own:
        await own.put("system", "her own")
        await own.put("users/ann", "what lin knows of ann")
        await vault.put("system", "for all")
        await vault.put("users/ann", "ann")
        assert (await vault.sync()).changed == (await own.sync()).changed == 0
        assert await found(store, Scope(user="ann")) == [("configs", "users/ann", "ann")]
        assert {text for _, _, text in await found(store, Scope(user="lin"))} == {
            "her own", "what lin knows of ann",
        }  # fmt: skip
        await own.remove("users/ann")
        assert (await vault.get("users/ann")).body == "ann"
        assert await vault.versions("users/ann") == []
