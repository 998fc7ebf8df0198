"""PostgreSQL under Patroni: the primary fails under load, and nothing that was acknowledged is lost or doubled."""

import pytest
from cluster_load import FULL, survive, times
from patroni_cluster import PatroniCluster

from sampled import only_torture
from servers import fresh

OPTIONS = "timeout=3&pool_size=5"


@only_torture
@pytest.mark.timeout(2700)
async def test_the_primary_fails(tmp_path, size, capsys):
    """Killed, paused or cut off: writes go on at the standby that had all of them."""
    with PatroniCluster(durable=FULL) as cluster, fresh("postgres", cluster.url) as url:
        faults = size(["kill"], ["kill", "pause", "partition"] * times())
        outcome = await survive(cluster, f"{url}&{OPTIONS}", tmp_path, faults)
    with capsys.disabled():
        print(f"\n{outcome.rows(cluster.name)}")
    assert (outcome.lost, outcome.doubled, outcome.problem) == ([], [], "")
    assert outcome.written > 500


@pytest.mark.torture
@pytest.mark.timeout(2700)
@pytest.mark.skipif(not FULL, reason="states what is lost where something may be: for the figures only")
async def test_the_primary_fails_without_synchronous_mode(tmp_path, capsys):
    """What was acknowledged in the last moments before the fault may be gone; nothing is doubled."""
    with PatroniCluster(synchronous=False, durable=True) as cluster, fresh("postgres", cluster.url) as url:
        outcome = await survive(cluster, f"{url}&{OPTIONS}", tmp_path, ["kill", "partition"] * times())
    with capsys.disabled():
        print(f"\n{outcome.rows(f'{cluster.name}, asynchronous')}")
    assert (outcome.doubled, outcome.problem) == ([], "")
