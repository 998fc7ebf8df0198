"""Counting and timing: numbers under a few fixed labels, added up over processes, and their page for Prometheus.

A family is one metric with its labels; a sample is its numbers under one set of values of them. What a label says comes from a
fixed list (a verb, a route's template, a class of error), never from a caller: a server that is asked for a million paths
has as many samples as before.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.util.system import import_extra

#: Upper bounds of a histogram, in seconds: from what memory answers to what a caller gives up on.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"
_MOST_SAMPLES = 1000  # of one family; whatever comes after them is counted under "other"

Kind: TypeAlias = Literal["counter", "histogram", "gauge"]
#: How gauges of several processes become one.
Merge: TypeAlias = Literal["sum", "max", "min"]
Labels: TypeAlias = tuple[str, ...]
#: The numbers of a sample: one, or of a histogram the sum and how many fell into each bucket.
Numbers: TypeAlias = list[float]
Samples: TypeAlias = dict[str, dict[Labels, Numbers]]


class Family(msgspec.Struct, frozen=True):
    """One metric: its name, what it is, what it says, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    merge: Merge = "sum"


class Meter:
    """The numbers of one process. Several threads may count at once."""

    def __init__(self) -> None:
        self.samples: Samples = {}
        self._lock = threading.Lock()

    def count(self, name: str, labels: Labels = (), amount: float = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._numbers(name, labels, 1)[0] += amount

    def time(self, name: str, labels: Labels, seconds: float) -> None:
        """Add one observation to a histogram."""
        with self._lock:
            numbers = self._numbers(name, labels, len(BUCKETS) + 2)
            numbers[0] += seconds
            numbers[1 + bisect_left(BUCKETS, seconds)] += 1

    def set(self, name: str, value: float, labels: Labels = ()) -> None:
        """Say what a gauge stands at, or a counter that somebody else keeps."""
        with self._lock:
            self._numbers(name, labels, 1)[0] = value

    def snapshot(self) -> Samples:
        """A copy of all numbers."""
        with self._lock:
            return {
                name: {labels: list(numbers) for labels, numbers in rows.items()}
                for name, rows in self.samples.items()
            }

    def _numbers(self, name: str, labels: Labels, length: int) -> Numbers:
        rows = self.samples.get(name)
        if rows is None:
            rows = self.samples[name] = {}
        numbers = rows.get(labels)
        if numbers is None:
            if len(rows) >= _MOST_SAMPLES:
                labels = (OTHER,) * len(labels)
            numbers = rows.setdefault(labels, [0.0] * length)
        return numbers


def merge_samples(families: Mapping[str, Family], parts: Iterable[Samples]) -> Samples:
    """The samples of several processes as those of one."""
    whole: Samples = {}
    for part in parts:
        for name, rows in part.items():
            family, into = families[name], whole.setdefault(name, {})
            for labels, numbers in rows.items():
                known = into.get(labels)
                if known is None:
                    into[labels] = list(numbers)
                elif family.merge == "sum":
                    into[labels] = [one + other for one, other in zip(known, numbers, strict=True)]
                else:
                    pick = max if family.merge == "max" else min
                    into[labels] = [pick(one, other) for one, other in zip(known, numbers, strict=True)]
    return whole


def prometheus_page(families: Iterable[Family], samples: Samples) -> str:
    """The samples in Prometheus' text format. Raises ConfigError where `prometheus-client` is not installed."""
    client = import_extra("prometheus_client", "server", "a page for Prometheus")
    page = _Page([_metric(family, samples.get(family.name, {})) for family in families])
    text: bytes = client.generate_latest(page)
    return text.decode()


class _Page(list[Any]):
    """Metrics as `prometheus_client` collects them."""

    def collect(self) -> list[Any]:
        return self


def _metric(family: Family, rows: Mapping[Labels, Numbers]) -> Any:
    """A family and its samples as `prometheus_client` has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, numbers in rows.items():
            buckets = zip((*map(repr, BUCKETS), "+Inf"), accumulate(numbers[1:]), strict=True)
            histogram.add_metric(labels, list(buckets), numbers[0])
        return histogram
    of_kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = of_kind(family.name, family.help, labels=family.labels)
    for labels, numbers in rows.items():
        metric.add_metric(labels, numbers[0])
    return metric
