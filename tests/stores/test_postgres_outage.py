"""PostgreSQL stopped, killed and standing still under load: errors are Octavo's own, and nothing else is in the log."""

import asyncio
import gc
import logging

import pytest

from octavo import Add, OctavoError, Query, Record, Scope, open_store
from servers.kinds import running

CALLERS = 20


@pytest.fixture(scope="module")
def postgres():
    with running("postgres") as server:
        yield server


async def call_on(store, number, ended, told):
    """Write, read and give up, again and again; note each error that is not Octavo's."""
    scope, rounds = Scope(user=str(number)), 0
    while not ended.is_set():
        rounds += 1
        try:
            if rounds % 7 == 0:
                async with asyncio.timeout(0.002):
                    await store.find(Query(collection="messages", scope=scope, limit=50))
            elif number % 2:
                await store.apply([Add([Record(collection="messages", scope=scope, text="x" * 2000)])])
            else:
                await store.find(Query(collection="messages", limit=50))
            told["answered"] += 1
        except OctavoError:
            told["refused"] += 1
            await asyncio.sleep(0.01)
        except TimeoutError:  # this caller gave up
            pass
        except Exception as error:
            told["other"].append(error)


@pytest.mark.torture
@pytest.mark.parametrize("how", ["stop", "kill", "pause"])
async def test_an_outage_leaves_no_traceback(postgres, how, caplog, size):
    caplog.set_level(logging.WARNING)
    told = {"answered": 0, "refused": 0, "other": []}
    ended = asyncio.Event()
    with postgres.fresh(postgres.url) as url:
        async with open_store(f"{url}{'&' if '?' in url else '?'}timeout=1") as store:
            async with asyncio.TaskGroup() as callers:
                for number in range(CALLERS):
                    callers.create_task(call_on(store, number, ended, told))
                for _ in range(size(1, 2)):
                    await asyncio.sleep(0.5)
                    if how == "pause":
                        with postgres.paused():
                            await asyncio.sleep(2.5)
                    else:
                        await asyncio.to_thread(getattr(postgres, how))
                        await asyncio.sleep(0.3)
                        await asyncio.to_thread(postgres.start)
                answered = told["answered"]
                for _ in range(200):
                    await asyncio.sleep(0.05)
                    if told["answered"] > answered + CALLERS:
                        break
                ended.set()
            assert told["refused"]
            assert told["answered"] > answered, "the store did not come back"
        gc.collect()  # what was forgotten is reported when it is collected
        await asyncio.sleep(0.05)
    assert told["other"] == []
    assert [record.getMessage() for record in caplog.records] == []
