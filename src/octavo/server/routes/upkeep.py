"""How the server is, what it holds and how it was set up."""

from typing import Literal

from fastapi import Request, Response

from octavo import __version__
from octavo.config import shown_settings
from octavo.errors import NotFound
from octavo.kernel import model
from octavo.kernel.ids import now
from octavo.server.answers import Configuration, Counted, HealthReport, Replayed, Stats, answer
from octavo.server.gate import caller_of
from octavo.server.openapi import answers
from octavo.server.routes import examples, quick
from octavo.server.routes.common import memories_of
from octavo.service.records import EVENTS, TURNS
from octavo.wraps.journal import Journal, JournalStatus

router = quick.router()
# Without the reason, which names a folder: anybody may ask.
_NO_QUEUE = (
    "the failure queue cannot be written to: what the store does not take is refused; the log says why"
)


@router.get(
    "/health",
    operation_id="get_health",
    summary="How the server is",
    tags=["upkeep"],
    response_class=Response,
    responses=answers(HealthReport, examples.HEALTH, keyless=True),
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
    operation_id="get_stats",
    summary="How much is remembered",
    tags=["upkeep"],
    response_class=Response,
    responses=answers(Stats, examples.STATS),
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


@router.get(
    "/queue",
    operation_id="get_queue",
    summary="What waits for the store",
    tags=["admin"],
    response_class=Response,
    responses=answers(JournalStatus, examples.QUEUE, 404),
)
async def get_queue(request: Request) -> Response:
    """The failure queue of the process that answers; each worker has its own slot of it."""
    return answer(_journal(request).status())


@router.post(
    "/queue/replay",
    operation_id="replay_queue",
    summary="Try at once to store what waits",
    tags=["admin"],
    response_class=Response,
    responses=answers(Replayed, {"replayed": 3, "waiting": 0}, 404, 415),
)
async def replay_queue(request: Request) -> Response:
    """Whatever the back-off says; what cannot be stored yet goes on waiting."""
    journal = _journal(request)
    stored = await journal.replay_now()
    return answer(Replayed(replayed=stored, waiting=journal.status().waiting))


@router.get(
    "/config",
    operation_id="get_config",
    summary="The settings, without their secrets",
    tags=["admin"],
    response_class=Response,
    responses=answers(Configuration, {"sections": {"database": {"dsn": "postgresql://octavo:…@db/octavo"}}}),
)
async def get_config(request: Request) -> Response:
    """All settings this server runs with; passwords and keys are replaced by …"""
    return answer(Configuration(sections=shown_settings(memories_of(request).settings)))


def _journal(request: Request) -> Journal:
    journal = memories_of(request).assembled.journal
    if journal is None:
        raise NotFound("there is no failure queue: failure_queue.enabled is false")
    return journal
