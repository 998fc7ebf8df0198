"""`octavo reindex`: build anew, or only compare, what is derived from the records of a store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click
import msgspec

from octavo.cli.command import (
    Call,
    at_store,
    check_exists,
    configured,
    flag,
    runs,
    several,
    store_argument,
    text,
)
from octavo.config import Settings
from octavo.errors import ConfigError
from octavo.kernel.ports import Embedder, Lexicon, Searches, Store, VectorIndex
from octavo.kernel.shapes import SHAPES
from octavo.stores import open_store
from octavo.util.secrets import shown
from octavo.wraps import Indexed
from octavo.wraps.vectors.indexed import COLLECTIONS

_COLLECTIONS = tuple(name for name in SHAPES if name not in ("vectors", "pending"))  # those are derived
_Vectors = tuple[Indexed, VectorIndex, str]  # the last is the name of the model


@click.command("reindex")
@store_argument
@flag("--verify", "Change nothing; name every difference and fail (status 1) if there is one.")
@text(
    "--collection collections",
    "NAME",
    "Only this collection; may be given several times. [default: all that have an index]",
    multiple=True,
    type=click.Choice(_COLLECTIONS),
)
@text("--tenant", "NAME", "Only the vectors of this tenant's records. [default: every tenant]")
@click.option("--terms/--no-terms", default=True, help="Whether to see to the index of terms. [default: yes]")
@text("--vectors", "URL", "The index of vectors, such as sqlite:///octavo.db; needs --embedder.")
@text("--embedder", "SPEC", "The model that makes them, such as fastembed:BAAI/bge-small-en-v1.5.")
@text("--forget", "SPACE", "Remove the vectors of a model that is no longer used.", multiple=True)
@configured
@runs
async def reindex_command(
    call: Call, verify: bool, collections: tuple[str, ...], tenant: str | None, terms: bool, **vectors: Any
) -> int:
    """Build anew what a store is searched by.

    The index of terms is built from the records, while searches go on. With --vectors and --embedder, or where the settings
    name an embedder, every record that has no vector, or one of another text, is embedded, and vectors without a record are
    dropped; what is already right is left alone, so that an interrupted run goes on where it stopped. URL left out is the store of OCTAVO_URL or the
    settings, or sqlite:///octavo.db.

    \b
    Example: octavo reindex sqlite:///octavo.db --verify
    """
    url = call.existing_store()
    settings = at_store(call.settings, url)
    if not settings.vector.enabled or vectors["vectors"] or vectors["embedder"]:
        _check_options(tenant, terms, **vectors)
    if verify and vectors["vectors"]:
        check_exists(vectors["vectors"])
    async with open_store(url) as store, _open_vectors(store, settings, **vectors) as opened:
        searching = store if terms and isinstance(store, Searches) else None
        if searching is None and opened is None:
            raise ConfigError("this store keeps no index of terms; nothing to do without --vectors")
        if opened is not None and tenant is None:
            call.warn_of_tenants(store)
        if verify:
            wrong, done = await _verify(call, searching, opened, collections, tenant)
        else:
            wrong, done = await _rebuild(call, searching, opened, collections, tenant, vectors["forget"])
    return call.document(ok=not wrong, url=shown(url), verify=verify, **done, seconds=call.seconds)


def _check_options(
    tenant: str | None, terms: bool, vectors: str | None, embedder: str | None, forget: tuple[str, ...]
) -> None:
    """Refuse what makes no sense together."""
    if (vectors is None) != (embedder is None):
        given, other = ("--vectors", "--embedder") if vectors else ("--embedder", "--vectors")
        example = "--vectors sqlite:///octavo.db --embedder fastembed:BAAI/bge-small-en-v1.5"
        raise ConfigError(f"{given} needs {other} too, for example {example}")
    if vectors is not None:
        return
    if tenant is not None:
        raise ConfigError(
            "--tenant narrows what is embedded; the index of terms is one for all tenants, leave it out or name --vectors"
        )
    if forget:
        raise ConfigError("--forget removes a model's vectors from an index; name that by --vectors")
    if not terms:
        raise ConfigError("there is nothing to do without terms and without --vectors")


@asynccontextmanager
async def _open_vectors(
    store: Store, settings: Settings, vectors: str | None, embedder: str | None, forget: tuple[str, ...]
) -> AsyncIterator[_Vectors | None]:
    """The vectors that are named, opened before anything is done: a mistake is told at once, not after an hour of work."""
    from octavo.assemble import open_configured_embedder, open_index
    from octavo.models import open_embedder
    from octavo.vectors import open_vectors

    collections: Sequence[str]
    model: Embedder | None
    if vectors is not None:
        model, collections = open_embedder(embedder), COLLECTIONS
    elif settings.vector.enabled:
        model, collections = (
            open_configured_embedder(settings, settings.vector.embedder),
            settings.vector.collections,
        )
    else:
        yield None
        return
    if model is None:
        raise ConfigError(f"--embedder {embedder} names no model; nothing can be embedded without one")
    if model.name in forget:
        raise ConfigError(f"--forget {model.name} names the model that is in use")
    index = open_index(settings, store) if vectors is None else open_vectors(vectors)
    indexed = Indexed(store, index, model, collections=collections)
    try:  # not entered: that would begin to embed beside this command
        yield indexed, index, model.name
    finally:
        await indexed.close()


async def _rebuild(
    call: Call,
    searching: Searches | None,
    vectors: _Vectors | None,
    collections: tuple[str, ...],
    tenant: str | None,
    forget: tuple[str, ...],
) -> tuple[int, dict[str, Any]]:
    """Build everything anew; how many texts could not be embedded, and what was done."""
    done: dict[str, Any] = {"terms": {}, "embedded": None, "refused": 0, "other_spaces": []}
    if searching is not None:
        done["terms"] = await rebuild_terms(call, searching, collections)
        total = several(sum(done["terms"].values()), "record")
        call.say(f"indexed {total} by terms in {call.seconds:.1f} s")
    if vectors is not None:
        indexed, index, model = vectors
        done |= await rebuild_vectors(call, indexed, collections=collections or None, tenant=tenant)
        for space in forget:
            await index.forget(space)
        done["other_spaces"] = [each.name for each in await index.spaces() if each.name != model]
    for other in done["other_spaces"]:
        call.note(f"the index also holds vectors of {other}; --forget {other} removes them")
    return done["refused"], done


async def rebuild_terms(call: Call, store: Searches, collections: Sequence[str] = ()) -> dict[str, int]:
    """Build the index of terms anew; how many records of each collection are in it."""
    terms: dict[str, int] = {}
    for collection in collections or _COLLECTIONS:
        with call.progress(f"indexed {collection}") as progress:
            if count := await store.reindex(collection, progress):
                terms[collection] = count
    return terms


async def rebuild_vectors(call: Call, indexed: Indexed, **which: Any) -> dict[str, Any]:
    """Embed what has no vector or one of another text; how many records were embedded, and how many could not be."""
    call.resumable = True
    with call.progress("embedded") as progress:
        embedded = await indexed.reindex_vectors(progress, **which)
    status = await indexed.status()
    call.say(f"embedded {several(embedded, 'record')} by {status.serving} in {call.seconds:.1f} s")
    if status.failures:
        texts = several(status.failures, "text")
        call.note(f"{texts} not embedded ({status.last_error}); tried again by whoever opens the store")
    return {"embedded": embedded, "refused": status.failures}


async def _verify(
    call: Call,
    searching: Searches | None,
    vectors: _Vectors | None,
    collections: tuple[str, ...],
    tenant: str | None,
) -> tuple[int, dict[str, Any]]:
    """Compare the indexes with the records; how many differences there are, and which."""
    done: dict[str, Any] = {"terms": [], "vectors": None}
    count = 0
    if searching is not None:
        for collection in collections or _COLLECTIONS:
            with call.progress(f"compared {collection}") as progress:
                lexicon = await searching.verify(collection, progress)
            count += _say_terms(call, lexicon)
            if lexicon.records or lexicon.missing or lexicon.stray or lexicon.waiting:
                done["terms"].append(msgspec.to_builtins(lexicon))
    if vectors is not None:
        with call.progress("compared vectors of") as progress:
            found = await vectors[0].verify_vectors(progress, collections=collections or None, tenant=tenant)
        wrong = {"no vector": found.missing, "a vector of another text": found.stale}
        for what, keys in {**wrong, "a vector without a record": found.stray}.items():
            count += len(keys)
            for key in keys:
                call.say(f"{key.collection} {key.id} ({key.place}): {what}")
        if found.waiting:
            call.note(f"{several(found.waiting, 'write')} not embedded yet")
        done["vectors"] = msgspec.to_builtins(found)
    call.say(f"{several(count, 'difference')}; octavo reindex mends them" if count else "no differences")
    return count, done


def _say_terms(call: Call, lexicon: Lexicon) -> int:
    """Say what is wrong with the terms of a collection; how many differences there are."""
    for id_ in lexicon.missing:
        call.say(f"{lexicon.collection} {id_}: not in the index of terms, or there with another text")
    if lexicon.stray:
        call.say(f"{lexicon.collection}: entries of records that are gone: {lexicon.stray:,}")
    if lexicon.waiting:
        call.note(f"{lexicon.collection}: {several(lexicon.waiting, 'record')} not indexed yet")
    return len(lexicon.missing) + lexicon.stray
