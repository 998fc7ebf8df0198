"""How the server is, what it holds and how it was set up."""

from typing import Literal

from fastapi import Response

from octavo import __version__
from octavo.client.answers import Configuration, Counted, Health, Replayed, Stats
from octavo.config import shown_settings
from octavo.kernel import model
from octavo.kernel.ids import now
from octavo.server.openapi import Probe, Routes, answer
from octavo.server.problems import problem
from octavo.server.routing import Admitted
from octavo.service.records import EVENTS, TURNS
from octavo.wraps.journal import JournalStatus

router = Routes("upkeep")
admin_router = Routes("admin")
# Without the reason, which names a folder: anybody may ask.
_NO_QUEUE = (
    "the failure queue cannot be written to: what the store does not take is refused; the log says why"
)


@router.answers("GET", "/health", "How the server is", Health, keyless=True)
async def get_health(request: Admitted) -> Response:
    """`ok`, or `degraded` while the store is away and writes wait on disk; 503 when a write would not be accepted."""
    memories = request.memories
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


@router.answers("GET", "/health/live", "Whether the process answers", Probe, keyless=True)
async def get_live(request: Admitted) -> Response:  # noqa: ARG001 - every route is given it
    """200 as long as the event loop turns, whatever the store does: restart what does not answer."""
    return answer(Probe(status="alive"))


@router.answers("GET", "/health/ready", "Whether to send requests here", Probe, keyless=True)
async def get_ready(request: Admitted) -> Response:
    """200 when a write would be stored or queued and the server is not stopping; else 503: send requests elsewhere."""
    memories = request.memories
    if memories.draining:
        return problem(503, "the server is stopping; send requests to another", {"Retry-After": "1"})
    if not (await memories.health()).accepts_writes:
        return problem(503, "a write would not be accepted now; /health says more", {"Retry-After": "1"})
    return answer(Probe(status="ready"))


@router.answers("GET", "/stats", "How much is remembered", Stats)
async def get_stats(request: Admitted) -> Response:
    """Numbers of the caller's tenant, or of the user that the key is bound to: memories by category, log rows by action, events and turns by type."""
    store = request.store
    scope = model.Scope(tenant=request.tenant, user=request.user_id())
    names = {"profile": "profile", "event": "episodes", "logs": "log", "events": EVENTS, "turns": TURNS}
    counted: dict[str, Counted] = {}
    for name, collection in names.items():
        # What has expired is gone for everybody who reads, swept or not.
        told = await store.tally(model.Query(collection=collection, scope=scope, alive_at=now()))
        counted[name] = Counted(
            total=told.total, by_kind=told.by_kind, first_at=told.first, last_at=told.last
        )
    return answer(Stats(**counted))


@admin_router.answers("GET", "/queue", "What waits for the store", JournalStatus, 404)
async def get_queue(request: Admitted) -> Response:
    """The failure queue of the process that answers; each worker has its own slot of it."""
    return answer(request.journal.status())


@admin_router.answers("POST", "/queue/replay", "Try at once to store what waits", Replayed, 404)
async def replay_queue(request: Admitted) -> Response:
    """Whatever the back-off says; what cannot be stored yet goes on waiting."""
    journal = request.journal
    stored = await journal.replay_now()
    return answer(Replayed(replayed=stored, waiting=journal.status().waiting))


@admin_router.answers("GET", "/config", "The settings, without their secrets", Configuration)
async def get_config(request: Admitted) -> Response:
    """All settings this server runs with; passwords and keys are replaced by …"""
    return answer(Configuration(sections=shown_settings(request.memories.settings)))
