"""`octavo reindex`: build anew, or only compare, what is derived from the records of a store."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click
import msgspec

from octavo.cli.command import Call, check_exists, configured, flag, runs, store_argument, text
from octavo.cli.output import Output, several
from octavo.errors import ConfigError
from octavo.kernel.ports import EntryKey, Lexicon, ListsTenants, Searches, VectorIndex
from octavo.kernel.shapes import SHAPES
from octavo.stores import open_store
from octavo.util.secrets import shown
from octavo.wraps import Indexed
from octavo.wraps.vectors import Differences

_COLLECTIONS = tuple(name for name in SHAPES if name not in ("vectors", "pending"))  # those are derived


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    url: str
    collections: tuple[str, ...]
    tenant: str | None
    terms: bool
    vectors: str | None
    embedder: str | None
    forget: tuple[str, ...]

    def check(self) -> None:
        """Refuse what makes no sense together."""
        if (self.vectors is None) != (self.embedder is None):
            given, other = ("--vectors", "--embedder") if self.vectors else ("--embedder", "--vectors")
            example = "--vectors sqlite:///octavo.db --embedder fastembed:BAAI/bge-small-en-v1.5"
            raise ConfigError(f"{given} needs {other} too, for example {example}")
        if self.vectors is None and self.tenant is not None:
            raise ConfigError(
                "--tenant narrows what is embedded; the index of terms is one for all tenants, leave it out or name --vectors"
            )
        if self.vectors is None and self.forget:
            raise ConfigError("--forget removes a model's vectors from an index; name that by --vectors")
        if self.vectors is None and not self.terms:
            raise ConfigError("there is nothing to do without terms and without --vectors")


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
async def reindex_command(call: Call, verify: bool, **given: Any) -> int:
    """Build anew what a store is searched by.

    The index of terms is built from the records, while searches go on. With --vectors and --embedder, every record that
    has no vector, or one of another text, is embedded, and vectors without a record are dropped; what is already right is
    left alone, so that an interrupted run goes on where it stopped. URL may be left out when OCTAVO_URL or the settings name
    a store.

    \b
    Example: octavo reindex sqlite:///octavo.db --verify
    """
    wanted = _Wanted(url=call.settings.database.dsn, **given)
    wanted.check()
    check_exists(wanted.url)
    if verify and wanted.vectors:
        check_exists(wanted.vectors)
    begun = time.monotonic()
    differences, done = await (_verify if verify else _rebuild)(call, wanted)
    seconds = round(time.monotonic() - begun, 3)
    return call.document(ok=not differences, url=shown(wanted.url), verify=verify, **done, seconds=seconds)


async def _rebuild(call: Call, wanted: _Wanted) -> tuple[int, dict[str, Any]]:
    """Build everything anew; how many texts could not be embedded, and what was done."""
    terms: dict[str, int] = {}
    embedded: int | None = None
    others: list[str] = []
    refused = 0
    async with _open_indexes(call, wanted) as (searching, vectors):
        begun = time.monotonic()
        if searching is not None:
            terms = await rebuild_terms(call, searching, wanted.collections)
            total = several(sum(terms.values()), "record")
            call.say(f"indexed {total} by terms in {time.monotonic() - begun:.1f} s")
        if vectors is not None:
            call.resumable = True
            begun = time.monotonic()
            with call.progress("embedded") as progress:
                embedded = await vectors.indexed.reindex_vectors(
                    progress, collections=wanted.collections or None, tenant=wanted.tenant
                )
            total = several(embedded, "record")
            call.say(f"embedded {total} by {vectors.space} in {time.monotonic() - begun:.1f} s")
            status = await vectors.indexed.status()
            refused = status.failures
            for space in wanted.forget:
                await vectors.index.forget(space)
            others = [space.name for space in await vectors.index.spaces() if space.name != vectors.space]
    for other in others:
        call.note(f"octavo: the index also holds vectors of {other}; --forget {other} removes them")
    if refused:
        texts = several(refused, "text")
        call.note(
            f"octavo: {texts} not embedded ({status.last_error}); tried again by whoever opens the store"
        )
    return refused, {"terms": terms, "embedded": embedded, "refused": refused, "other_spaces": others}


async def rebuild_terms(out: Output, store: Searches, collections: Sequence[str] = ()) -> dict[str, int]:
    """Build the index of terms anew; how many records of each collection are in it."""
    terms: dict[str, int] = {}
    for collection in collections or _COLLECTIONS:
        with out.progress(f"indexed {collection}") as progress:
            if count := await store.reindex(collection, progress):
                terms[collection] = count
    return terms


async def _verify(call: Call, wanted: _Wanted) -> tuple[int, dict[str, Any]]:
    """Compare the indexes with the records; how many differences there are, and which."""
    terms: list[Lexicon] = []
    found: Differences | None = None
    async with _open_indexes(call, wanted) as (searching, vectors):
        if searching is not None:
            for collection in wanted.collections or _COLLECTIONS:
                with call.progress(f"compared {collection}") as progress:
                    terms.append(await searching.verify(collection, progress))
        if vectors is not None:
            with call.progress("compared vectors of") as progress:
                found = await vectors.indexed.verify_vectors(
                    progress, collections=wanted.collections or None, tenant=wanted.tenant
                )
    count = sum(_say_terms(call, lexicon) for lexicon in terms)
    count += 0 if found is None else _say_vectors(call, found)
    call.say(f"{several(count, 'difference')}; octavo reindex mends them" if count else "no differences")
    listed = [each for each in terms if each.records or each.missing or each.stray or each.waiting]
    return count, {
        "terms": msgspec.to_builtins(listed),
        "vectors": None if found is None else msgspec.to_builtins(found),
    }


class _Vectors(msgspec.Struct, frozen=True):
    """An index of vectors, and the model that fills it."""

    indexed: Indexed
    index: VectorIndex
    space: str


@asynccontextmanager
async def _open_indexes(
    call: Call, wanted: _Wanted
) -> AsyncIterator[tuple[Searches | None, _Vectors | None]]:
    """What was named, opened before anything is done: a mistake is told at once, not after an hour of work."""
    from octavo.models import open_embedder
    from octavo.vectors import open_vectors

    async with open_store(wanted.url) as store:
        searching = store if wanted.terms and isinstance(store, Searches) else None
        if wanted.vectors is None:
            if searching is None:
                raise ConfigError("this store keeps no index of terms; nothing to do without --vectors")
            yield searching, None
            return
        if wanted.tenant is None and not isinstance(store, ListsTenants):
            call.note(
                "octavo: this store cannot list its tenants, only the empty one is read; name others by --tenant"
            )
        embedder = open_embedder(wanted.embedder)
        if embedder is None:
            raise ConfigError(
                f"--embedder {wanted.embedder} names no model; nothing can be embedded without one"
            )
        if embedder.name in wanted.forget:
            raise ConfigError(f"--forget {embedder.name} names the model that --embedder says is in use")
        index = open_vectors(wanted.vectors)
        indexed = Indexed(store, index, embedder)
        try:  # not entered: that would begin to embed beside this command
            yield searching, _Vectors(indexed, index, embedder.name)
        finally:
            await indexed.close()


def _say_terms(out: Output, lexicon: Lexicon) -> int:
    for id_ in lexicon.missing:
        out.say(f"{lexicon.collection} {id_}: not in the index of terms, or there with another text")
    if lexicon.stray:
        out.say(f"{lexicon.collection}: entries of records that are gone: {lexicon.stray:,}")
    if lexicon.waiting:
        out.note(f"octavo: {lexicon.collection}: {several(lexicon.waiting, 'record')} not indexed yet")
    return len(lexicon.missing) + lexicon.stray


def _say_vectors(out: Output, vectors: Differences) -> int:
    wrong: list[tuple[tuple[EntryKey, ...], str]] = [
        (vectors.missing, "no vector"),
        (vectors.stale, "a vector of another text"),
        (vectors.stray, "a vector without a record"),
    ]
    for keys, what in wrong:
        for key in keys:
            out.say(f"{key.collection} {key.id} ({key.place}): {what}")
    if vectors.waiting:
        out.note(f"octavo: {several(vectors.waiting, 'write')} not embedded yet")
    return sum(len(keys) for keys, _ in wrong)
