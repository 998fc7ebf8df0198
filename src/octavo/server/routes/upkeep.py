"""How the server is, what it holds and how it was set up."""

from typing import Literal

from fastapi import Request, Response

from octavo import __version__
from octavo.client.answers import Counted, Replayed, Stats
from octavo.config import shown_settings
from octavo.errors import NotFound
from octavo.kernel import model
from octavo.kernel.ids import now
from octavo.server import examples
from octavo.server.answers import Configuration, HealthReport, answer
from octavo.server.gate import caller_of
from octavo.server.openapi import answers
from octavo.server.routes import base
from octavo.server.routes.base import memories_of
from octavo.service.records import EVENTS, TURNS
from octavo.wraps.journal import Journal

router = base.router("upkeep")
admin_router = base.router("admin")
# Without the reason, which names a folder: anybody may ask.
_NO_QUEUE = (
    "the failure queue cannot be written to: what the store does not take is refused; the log says why"
)


@router.get(
    "/health",
    summary="How the server is",
    responses=answers(examples.HEALTH, keyless=True),
)
async def get_health(request: Request) -> Response:
    """`ok`, or `degraded` while the store is away and writes wait on disk; 503 when a write would not be accepted."""
    memories = memories_of(request)
    health = await memories.health()
    journal = memories.assembled.journal
    status: Literal["ok", "degraded", "down"] = "ok" if health.state == "up" else "degraded"
    if not health.accepts_writes:
        status = "down"
    queue = None if journal is None else journal.status()
    report = HealthReport(
        status=status,
        store=health.state,
        waiting=0 if queue is None else queue.waiting,
        version=__version__,
        warning="" if queue is None or queue.queue_error is None else _NO_QUEUE,
    )
    told = answer(report)
    told.status_code = 503 if status == "down" else 200
    return told


@router.get(
    "/stats",
    summary="How much is remembered",
    responses=answers(examples.STATS),
)
async def get_stats(request: Request) -> Response:
    """Numbers of the caller's tenant: memories by category, log rows by action, events and turns by type."""
    store = memories_of(request).assembled.store
    scope = model.Scope(tenant=caller_of(request.scope).tenant)
    names = {"profile": "profile", "event": "episodes", "logs": "log", "events": EVENTS, "turns": TURNS}
    counted: dict[str, Counted] = {}
    at = now()
    for name, collection in names.items():
        # What has expired is gone for everybody who reads, swept or not.
        tally = await store.tally(model.Query(collection=collection, scope=scope, alive_at=at))
        counted[name] = Counted(
            total=tally.total, by_kind=tally.by_kind, first_at=tally.first, last_at=tally.last
        )
    return answer(Stats(**counted))


@admin_router.get(
    "/queue",
    summary="What waits for the store",
    responses=answers(examples.QUEUE, 404),
)
async def get_queue(request: Request) -> Response:
    """The failure queue of the process that answers; each worker has its own slot of it."""
    return answer(_journal(request).status())


@admin_router.post(
    "/queue/replay",
    summary="Try at once to store what waits",
    responses=answers(examples.REPLAYED, 404, 415),
)
async def replay_queue(request: Request) -> Response:
    """Whatever the back-off says; what cannot be stored yet goes on waiting."""
    journal = _journal(request)
    stored = await journal.replay_now()
    return answer(Replayed(replayed=stored, waiting=journal.status().waiting))


@admin_router.get(
    "/config",
    summary="The settings, without their secrets",
    responses=answers(examples.CONFIGURATION),
)
async def get_config(request: Request) -> Response:
    """All settings this server runs with; passwords and keys are replaced by …"""
    return answer(Configuration(sections=shown_settings(memories_of(request).settings)))


def _journal(request: Request) -> Journal:
    journal = memories_of(request).assembled.journal
    if journal is None:
        raise NotFound("there is no failure queue: failure_queue.enabled is false")
    return journal
