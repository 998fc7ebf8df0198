"""What a store is, how it behaves and what is dangerous about it."""

import time
from collections.abc import Awaitable
from statistics import median
from typing import TypeVar

import msgspec

from octavo.kernel.codec import seal
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Query, Record, Remove, Scope
from octavo.kernel.ports import Describes, Finding, ListsTenants, Store
from octavo.kernel.shapes import SHAPES

ROUNDS = 5  # of the probe; the median of them is told
MOST_COUNTED = 1000  # tenants

_T = TypeVar("_T")


class Latency(msgspec.Struct, frozen=True):
    """How long one record took, in the median of a few rounds."""

    write_ms: float
    read_ms: float
    remove_ms: float


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `octavo doctor` has to say about a store."""

    findings: list[Finding]
    collections: dict[str, int]  # records, by collection; empty ones are left out
    latency: Latency | None

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.warning]


async def examine(store: Store, *, probe: bool = True) -> DoctorReport:
    """Ask a store what it is and count what it keeps; with `probe`, also write, read and remove a few records.

    The probe works under a tenant of its own and leaves no record behind.
    """
    findings = (
        await store.describe() if isinstance(store, Describes) else [Finding("store", type(store).__name__)]
    )
    tenants = [""]
    if isinstance(store, ListsTenants):
        tenants = await store.tenants()
        findings.append(Finding("tenants", str(len(tenants))))
    else:
        findings.append(Finding("tenants", "this store cannot list them; the empty one was counted"))
    if len(tenants) > MOST_COUNTED:
        findings.append(Finding("counted", f"the first {MOST_COUNTED} tenants"))
    collections = await _counts(store, tenants[:MOST_COUNTED])
    latency = await _probe(store, findings) if probe else None
    return DoctorReport(findings=findings, collections=collections, latency=latency)


async def _counts(store: Store, tenants: list[str]) -> dict[str, int]:
    counts = {}
    for collection in SHAPES:
        queries = [Query(collection=collection, scope=Scope(tenant=tenant)) for tenant in tenants]
        if total := sum([(await store.tally(query)).total for query in queries]):
            counts[collection] = total
    return counts


async def _probe(store: Store, findings: list[Finding]) -> Latency:
    tenant = new_id("octavo-doctor-")
    everything = Query(collection="messages", scope=Scope(tenant=tenant))
    writes, reads, removes = [], [], []
    try:
        for _ in range(ROUNDS):
            record = Record(
                collection="messages", kind="user", scope=Scope(tenant=tenant, session="probe"), marks=("probe",),
                text="Does it come back? Ünïcödé, 记忆, 🧠", data={"n": 1, "x": 0.1, "list": [True, None]},
            )  # fmt: skip
            named = msgspec.structs.replace(everything, ids=(record.id,))
            wrote_ms, _ = await _time(store.apply([Add([record])]))
            read_ms, found = await _time(store.find(named))
            removed_ms, removed = await _time(store.apply([Remove(named)]))
            writes.append(wrote_ms)
            reads.append(read_ms)
            removes.append(removed_ms)
            if found != [seal(record).record] or removed != [1]:
                warning = "a record that was acknowledged did not come back as it was written; do not use this store"
                findings.append(Finding("probe", "failed", warning))
                break
    finally:
        await store.apply([Remove(everything)])
    return Latency(*(round(median(times), 3) for times in (writes, reads, removes)))


async def _time(call: Awaitable[_T]) -> tuple[float, _T]:
    begun = time.perf_counter()
    answer = await call
    return (time.perf_counter() - begun) * 1000, answer
