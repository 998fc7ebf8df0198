"""No database, and no room on the journal's disk."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from steady import configured

from octavo import Query, Scope, open_store
from octavo.service import MemoryService
from servers import fresh, running

CRAMPED = Path(__file__).with_name("cramped.py")


@pytest.mark.timeout(120)
async def test_callers_learn_it_at_once_and_the_service_goes_on(tmp_path):
    """What is refused raises, naming both reasons; with room it queues again, and all that was acknowledged arrives once."""
    with running("postgres", durable=True) as server, fresh("postgres", server.url) as url:
        await asyncio.to_thread(server.stop)
        config = configured(tmp_path, url, 5.0)
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(CRAMPED), str(config), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )  # fmt: skip
        full = json.loads(await child.stdout.readline())
        assert full["kept"] > 10
        assert full["refused"] > 10
        assert full["state"] == "down"
        assert "neither stored" in full["reason"]
        assert "nor queued" in full["reason"]
        assert "File too large" in full["reason"]
        child.stdin.write(b"\n")
        acknowledged = json.loads(await child.stdout.readline())
        assert len(acknowledged) == full["kept"] + 100
        await asyncio.to_thread(server.start)
        child.stdin.write(b"\n")
        assert await child.wait() == 0
        async with MemoryService.from_config(config) as service:  # what closing could not bring in time
            await service.ainitialize()
            await service.areplay_queue()
            assert (await service.aqueue_status()).waiting == 0
        async with open_store(url) as store:
            found = await store.find(Query(collection="observations", scope=Scope()))
        assert [record.id for record in found] == acknowledged
