"""How the server is, what it holds and how it was set up."""

from typing import Literal

from fastapi import Request, Response

from octavo import __version__
from octavo.client.exchange import Configuration, Counted, Health, Replayed, Stats
from octavo.config import shown_settings
from octavo.errors import NotFound
from octavo.kernel import model
from octavo.kernel.ids import now
from octavo.server.answers import Probe, answer, example
from octavo.server.gate import caller_of
from octavo.server.openapi import Routes
from octavo.server.problems import problem
from octavo.server.requests import memories_of, user_of
from octavo.service.records import EVENTS, TURNS
from octavo.wraps.journal import Journal, JournalStatus

router = Routes("upkeep")
admin_router = Routes("admin")
_NONE = example(Counted, total=0, by_kind={}, first_at=None, last_at=None)
_CHANGES = example(Counted, by_kind={"insert": 2})
# Without the reason, which names a folder: anybody may ask.
_NO_QUEUE = (
    "the failure queue cannot be written to: what the store does not take is refused; the log says why"
)


@router.answers("GET", "/health", "How the server is", example(Health, version=__version__), keyless=True)
async def get_health(request: Request) -> Response:
    """`ok`, or `degraded` while the store is away and writes wait on disk; 503 when a write would not be accepted."""
    memories = memories_of(request)
    health = await memories.health()
    journal = memories.assembled.journal
    status: Literal["ok", "degraded", "down"] = "ok" if health.state == "up" else "degraded"
    if not health.accepts_writes:
        status = "down"
    queue = None if journal is None else journal.status()
    report = Health(
        status=status,
        store=health.state,
        waiting=0 if queue is None else queue.waiting,
        version=__version__,
        warning="" if queue is None or queue.queue_error is None else _NO_QUEUE,
    )
    told = answer(report)
    told.status_code = 503 if status == "down" else 200
    return told


@router.answers("GET", "/health/live", "Whether the process answers", Probe(status="alive"), keyless=True)
async def get_live(request: Request) -> Response:  # noqa: ARG001 - every route is given it
    """200 as long as the event loop turns, whatever the store does: restart what does not answer."""
    return answer(Probe(status="alive"))


@router.answers("GET", "/health/ready", "Whether to send requests here", Probe(status="ready"), keyless=True)
async def get_ready(request: Request) -> Response:
    """200 when a write would be stored or queued and the server is not stopping; else 503: send requests elsewhere."""
    memories = memories_of(request)
    if memories.draining:
        return problem(503, "the server is stopping; send requests to another", {"Retry-After": "1"})
    if not (await memories.health()).accepts_writes:
        return problem(503, "a write would not be accepted now; /health says more", {"Retry-After": "1"})
    return answer(Probe(status="ready"))


@router.answers(
    "GET",
    "/stats",
    "How much is remembered",
    example(Stats, event=_NONE, logs=_CHANGES, events=_NONE, turns=_NONE),
)
async def get_stats(request: Request) -> Response:
    """Numbers of the caller's tenant, or of the user that the key is bound to: memories by category, log rows by action, events and turns by type."""
    store = memories_of(request).assembled.store
    scope = model.Scope(tenant=caller_of(request.scope).tenant, user=user_of(request))
    names = {"profile": "profile", "event": "episodes", "logs": "log", "events": EVENTS, "turns": TURNS}
    counted: dict[str, Counted] = {}
    for name, collection in names.items():
        # What has expired is gone for everybody who reads, swept or not.
        told = await store.tally(model.Query(collection=collection, scope=scope, alive_at=now()))
        counted[name] = Counted(
            total=told.total, by_kind=told.by_kind, first_at=told.first, last_at=told.last
        )
    return answer(Stats(**counted))


@admin_router.answers("GET", "/queue", "What waits for the store", example(JournalStatus), 404)
async def get_queue(request: Request) -> Response:
    """The failure queue of the process that answers; each worker has its own slot of it."""
    return answer(_journal(request).status())


@admin_router.answers(
    "POST", "/queue/replay", "Try at once to store what waits", example(Replayed, replayed=3), 404
)
async def replay_queue(request: Request) -> Response:
    """Whatever the back-off says; what cannot be stored yet goes on waiting."""
    journal = _journal(request)
    stored = await journal.replay_now()
    return answer(Replayed(replayed=stored, waiting=journal.status().waiting))


@admin_router.answers("GET", "/config", "The settings, without their secrets", example(Configuration))
async def get_config(request: Request) -> Response:
    """All settings this server runs with; passwords and keys are replaced by …"""
    return answer(Configuration(sections=shown_settings(memories_of(request).settings)))


def _journal(request: Request) -> Journal:
    journal = memories_of(request).assembled.journal
    if journal is None:
        raise NotFound("there is no failure queue: failure_queue.enabled is false")
    return journal
