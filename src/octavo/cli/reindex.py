"""`octavo reindex`: build anew, or only compare, what is derived from the records of a store."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.settings import configured, store_url
from octavo.cli.teller import Teller, several
from octavo.errors import ConfigError
from octavo.kernel.ports import EntryKey, Lexicon, ListsTenants, Searches, Store, VectorIndex
from octavo.kernel.shapes import SHAPES
from octavo.stores import open_store
from octavo.util.secrets import shown
from octavo.wraps import Indexed
from octavo.wraps.vectors import Differences

_COLLECTIONS = tuple(name for name in SHAPES if name not in ("vectors", "pending"))  # those are derived


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    url: str
    collections: tuple[str, ...]
    tenant: str | None
    terms: bool
    vectors: str | None
    embedder: str | None
    forget: tuple[str, ...]

    def check(self) -> None:
        if (self.vectors is None) != (self.embedder is None):
            given, other = ("--vectors", "--embedder") if self.vectors else ("--embedder", "--vectors")
            raise ConfigError(
                f"{given} needs {other} too, for example --vectors sqlite:///octavo.db --embedder fastembed:BAAI/bge-small-en-v1.5"
            )
        if self.vectors is None and self.tenant is not None:
            raise ConfigError(
                "--tenant narrows what is embedded; the index of terms is one for all tenants, leave it out or name --vectors"
            )
        if self.vectors is None and self.forget:
            raise ConfigError("--forget removes a model's vectors from an index; name that by --vectors")
        if self.vectors is None and not self.terms:
            raise ConfigError("there is nothing to do without terms and without --vectors")


@click.command("reindex")
@click.argument("url", required=False)
@click.option(
    "--verify",
    is_flag=True,
    help="Change nothing; name every difference and fail (status 1) if there is one.",
)
@click.option(
    "--collection",
    "collections",
    multiple=True,
    type=click.Choice(_COLLECTIONS),
    metavar="NAME",
    help="Only this collection; may be given several times. [default: all that have an index]",
)
@click.option(
    "--tenant", metavar="NAME", help="Only the vectors of this tenant's records. [default: every tenant]"
)
@click.option("--terms/--no-terms", default=True, help="Whether to see to the index of terms. [default: yes]")
@click.option(
    "--vectors", metavar="URL", help="The index of vectors, such as sqlite:///octavo.db; needs --embedder."
)
@click.option(
    "--embedder", metavar="SPEC", help="The model that makes them, such as fastembed:BAAI/bge-small-en-v1.5."
)
@click.option(
    "--forget", multiple=True, metavar="SPACE", help="Remove the vectors of a model that is no longer used."
)
@configured
@voice
def reindex_command(
    url: str | None,
    verify: bool,
    config: str | None,
    verbose: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Build anew what a store is searched by.

    The index of terms is built from the records, while searches go on. With --vectors and --embedder, every record that
    has no vector, or one of another text, is embedded, and vectors without a record are dropped; what is already right is
    left alone, so that an interrupted run goes on where it stopped. URL may be left out when OCTAVO_URL or the settings name
    a store.

    \b
    Example: octavo reindex sqlite:///octavo.db --verify
    """  # fmt: skip
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        asked = Asked(url=store_url(teller, url, config, verbose, "URL"), **options)
        asked.check()
        running.existing(asked.url)
        if verify and asked.vectors:
            running.existing(asked.vectors)
        begun = time.monotonic()
        done = asyncio.run((_verify if verify else _rebuild)(teller, asked))
        sound = not done.pop("differences", 0)
        teller.document(
            ok=sound, command="reindex", url=shown(asked.url), verify=verify, **done,
            seconds=round(time.monotonic() - begun, 3),
        )  # fmt: skip
        return 0 if sound else 1

    running.run(teller, [url or "", options["vectors"] or ""], work)


async def _rebuild(teller: Teller, asked: Asked) -> dict[str, Any]:
    terms: dict[str, int] = {}
    embedded: int | None = None
    others: list[str] = []
    refused = 0
    clock = _Clock()
    async with _opened(teller, asked) as (searching, vectors):
        if searching is not None:
            for collection in asked.collections or _COLLECTIONS:
                with teller.progress(f"indexed {collection}") as progress:
                    if count := await searching.reindex(collection, progress):
                        terms[collection] = count
            teller.say(f"indexed {several(sum(terms.values()), 'record')} by terms in {clock.lap():.1f} s")
        if vectors is not None:
            teller.resumable = True
            with teller.progress("embedded") as progress:
                embedded = await vectors.indexed.reindex_vectors(
                    progress, collections=asked.collections or None, tenant=asked.tenant
                )
            teller.say(f"embedded {several(embedded, 'record')} by {vectors.space} in {clock.lap():.1f} s")
            status = await vectors.indexed.status()
            refused = status.failures
            for space in asked.forget:
                await vectors.index.forget(space)
            others = [space.name for space in await vectors.index.spaces() if space.name != vectors.space]
    for other in others:
        teller.note(f"octavo: the index also holds vectors of {other}; --forget {other} removes them")
    if refused:
        teller.note(
            f"octavo: {several(refused, 'text')} not embedded ({status.last_error}); tried again by whoever opens the store"
        )
    return {
        "differences": refused,
        "terms": terms,
        "embedded": embedded,
        "refused": refused,
        "other_spaces": others,
    }


async def _verify(teller: Teller, asked: Asked) -> dict[str, Any]:
    terms: list[Lexicon] = []
    found: Differences | None = None
    async with _opened(teller, asked) as (searching, vectors):
        if searching is not None:
            for collection in asked.collections or _COLLECTIONS:
                with teller.progress(f"compared {collection}") as progress:
                    terms.append(await searching.verify(collection, progress))
        if vectors is not None:
            with teller.progress("compared vectors of") as progress:
                found = await vectors.indexed.verify_vectors(
                    progress, collections=asked.collections or None, tenant=asked.tenant
                )
    count = sum(_tell_terms(teller, lexicon) for lexicon in terms)
    count += 0 if found is None else _tell_vectors(teller, found)
    teller.say(
        "no differences" if not count else f"{several(count, 'difference')}; octavo reindex mends them"
    )
    return {
        "differences": count,
        "terms": [msgspec.to_builtins(lexicon) for lexicon in terms if _told(lexicon)],
        "vectors": None if found is None else msgspec.to_builtins(found),
    }


class _Clock:
    """Tells the seconds since it was last asked."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def lap(self) -> float:
        before, self._at = self._at, time.monotonic()
        return self._at - before


@dataclass(frozen=True)
class _Vectors:
    indexed: Indexed
    index: VectorIndex
    space: str


@asynccontextmanager
async def _opened(teller: Teller, asked: Asked) -> AsyncIterator[tuple[Searches | None, _Vectors | None]]:
    """What was named, opened before anything is done: a mistake is told at once, not after an hour of work."""
    async with open_store(asked.url) as store:
        searching = store if asked.terms and isinstance(store, Searches) else None
        if asked.vectors is None:
            if searching is None:
                raise ConfigError("this store keeps no index of terms; nothing to do without --vectors")
            yield searching, None
            return
        if asked.tenant is None and not isinstance(store, ListsTenants):
            teller.note(
                "octavo: this store cannot list its tenants, only the empty one is read; name others by --tenant"
            )
        vectors = _indexed(store, asked, asked.vectors)
        try:
            yield searching, vectors
        finally:
            await vectors.indexed.close()


def _indexed(store: Store, asked: Asked, url: str) -> _Vectors:
    from octavo.models import open_embedder
    from octavo.vectors import open_vectors

    embedder = open_embedder(asked.embedder)
    if embedder is None:
        raise ConfigError(f"--embedder {asked.embedder} names no model; nothing can be embedded without one")
    if embedder.name in asked.forget:
        raise ConfigError(f"--forget {embedder.name} names the model that --embedder says is in use")
    index = open_vectors(url)
    return _Vectors(Indexed(store, index, embedder), index, embedder.name)


def _told(lexicon: Lexicon) -> bool:
    return bool(lexicon.records or lexicon.missing or lexicon.stray or lexicon.waiting)


def _tell_terms(teller: Teller, lexicon: Lexicon) -> int:
    for id_ in lexicon.missing:
        teller.say(f"{lexicon.collection} {id_}: not in the index of terms, or there with another text")
    if lexicon.stray:
        teller.say(f"{lexicon.collection}: entries of records that are gone: {lexicon.stray:,}")
    if lexicon.waiting:
        teller.note(f"octavo: {lexicon.collection}: {several(lexicon.waiting, 'record')} not indexed yet")
    return len(lexicon.missing) + lexicon.stray


def _tell_vectors(teller: Teller, vectors: Differences) -> int:
    said: list[tuple[tuple[EntryKey, ...], str]] = [
        (vectors.missing, "no vector"),
        (vectors.stale, "a vector of another text"),
        (vectors.stray, "a vector without a record"),
    ]
    for keys, what in said:
        for key in keys:
            teller.say(f"{key.collection} {key.id} ({key.place}): {what}")
    if vectors.waiting:
        teller.note(f"octavo: {several(vectors.waiting, 'write')} not embedded yet")
    return sum(len(keys) for keys, _ in said)
