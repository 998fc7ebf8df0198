"""From one store into another."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from octavo.kernel.model import Add, Record, Scope
from octavo.kernel.ports import Store
from octavo.transfer.moved import Count, Moved, Progress
from octavo.transfer.reading import Reach, checked_size, pour
from octavo.transfer.trail import Step, Trail


async def copy(
    source: Store,
    target: Store,
    *,
    collections: Sequence[str] | None = None,
    scope: Scope | None = None,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Moved:
    """Add every record of the source to the target; what the target already keeps is left as it is.

    With `resume`, an interrupted copy that is called again with the same file goes on where it stopped.
    """
    size = checked_size(batch)
    reach = await Reach.of(source, collections, scope)
    count = Count(progress, await reach.total(source) if progress else None)
    count.tenants = len(reach.tenants)

    with Trail(resume, reach.run("copy")) as trail:

        async def take(page: list[Record], step: Step) -> Step:
            [added] = await target.apply([Add(page)])
            step = msgspec.structs.replace(
                step, cursor=page[-1].cursor, read=step.read + len(page), added=step.added + added
            )
            trail.mark(step)
            count.batch(page, added)
            return step

        for query in reach.queries():
            begun = trail.step(query.scope.tenant, query.collection)
            if not await begun.holds(target):
                begun = Step(tenant=begun.tenant, collection=begun.collection)
            count.resumed += begun.read
            ended = await pour(source, query, begun, size, take)
            if begun.read and (await source.tally(query)).total > ended.read:
                # Older records arrived behind the cursor while the copy was interrupted: they would be missed.
                count.resumed -= begun.read
                await pour(source, query, Step(tenant=begun.tenant, collection=begun.collection), size, take)
        trail.clear()
    return count.moved()
