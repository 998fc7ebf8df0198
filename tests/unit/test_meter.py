"""Numbers under labels: counted by many threads, added up over processes, and a page that Prometheus reads."""

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo.util.metrics import BUCKETS, OTHER, Family, Meter, merge_samples, prometheus_page

FAMILIES = (
    Family("hits_total", "counter", "Hits.", ("who",)),
    Family("took_seconds", "histogram", "Time.", ("verb",)),
    Family("level", "gauge", "Level."),
    Family("oldest", "gauge", "The oldest.", merge="max"),
    Family("up", "gauge", "Whether all are up.", merge="min"),
)
BY_NAME = {family.name: family for family in FAMILIES}


def read(page):
    """What Prometheus' own parser makes of a page."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_page_is_read_as_it_was_meant():
    """Text of any kind in a label, and buckets that add up."""
    meter = Meter()
    meter.count("hits_total", ('a"b\\c\nd',), 3)
    for seconds in (0.0004, 0.0005, 0.003, 99.0):
        meter.time("took_seconds", ("find",), seconds)
    meter.set("level", 1.5)
    found = read(prometheus_page(FAMILIES, meter.snapshot()))
    assert found["hits_total", ("who", 'a"b\\c\nd')] == 3
    assert found["level",] == 1.5
    buckets = {key[1][1]: value for key, value in found.items() if key[0] == "took_seconds_bucket"}
    assert (buckets["0.0005"], buckets["0.001"], buckets["0.005"], buckets["10.0"], buckets["+Inf"]) == (
        2,
        2,
        3,
        3,
        4,
    )
    assert len(buckets) == len(BUCKETS) + 1
    assert found["took_seconds_count", ("verb", "find")] == 4
    assert found["took_seconds_sum", ("verb", "find")] == pytest.approx(99.0039)


def test_processes_are_added_up():
    """Counters and histograms are sums; a gauge is a sum, the largest or the smallest, as its family says."""
    one, two = Meter(), Meter()
    for meter, amount in ((one, 1), (two, 2)):
        meter.count("hits_total", ("x",), amount)
        meter.time("took_seconds", ("find",), amount)
        for name in ("level", "oldest", "up"):
            meter.set(name, amount)
    two.count("hits_total", ("y",))
    whole = merge_samples(BY_NAME, [one.snapshot(), two.snapshot()])
    assert whole["hits_total"] == {("x",): [3], ("y",): [1]}
    assert (whole["took_seconds"]["find",][0], sum(whole["took_seconds"]["find",][1:])) == (3, 2)
    assert [whole[name][()] for name in ("level", "oldest", "up")] == [[3], [2], [1]]
    assert one.samples["hits_total"]["x",] == [1]  # what was added up is left as it was


def test_no_label_can_fill_the_memory():
    """A mistake that puts names into a label costs a thousand samples, and the rest is still counted."""
    meter = Meter()
    for at in range(5000):
        meter.count("hits_total", (f"user{at}",))
    rows = meter.snapshot()["hits_total"]
    assert len(rows) == 1001
    assert rows[OTHER,] == [4000]
    assert sum(numbers[0] for numbers in rows.values()) == 5000


def test_threads_lose_nothing():
    meter = Meter()

    def work():
        for _ in range(5000):
            meter.count("hits_total", ("x",))
            meter.time("took_seconds", ("find",), 0.01)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.samples["hits_total"]["x",] == [20_000]
    assert sum(meter.samples["took_seconds"]["find",][1:]) == 20_000
