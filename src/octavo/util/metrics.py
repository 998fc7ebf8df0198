"""Counting and timing: numbers under a few fixed labels, added up over processes, and their page for Prometheus.

A family is one metric with its labels; a sample is its numbers under one set of values of them. What a label says comes from a
fixed list (a verb, a route's template, a class of error), never from a caller: a server that is asked for a million paths
has as many samples as before.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

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


def merged(families: Mapping[str, Family], parts: Iterable[Samples]) -> Samples:
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
    """The samples in Prometheus' text format; all of a family stand together, or a scraper refuses the page."""
    lines: list[str] = []
    for family in families:
        lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}")
        for labels, numbers in samples.get(family.name, {}).items():
            pairs = list(zip(family.labels, labels, strict=True))
            if family.kind == "histogram":
                lines += _histogram_lines(family.name, pairs, numbers)
            else:
                lines.append(_line(family.name, pairs, numbers[0]))
    return "\n".join(lines) + "\n"


def _histogram_lines(name: str, pairs: list[tuple[str, str]], numbers: Numbers) -> Iterable[str]:
    total = 0.0
    for bound, amount in zip((*map(repr, BUCKETS), "+Inf"), numbers[1:], strict=True):
        total += amount
        yield _line(f"{name}_bucket", [*pairs, ("le", bound)], total)
    yield _line(f"{name}_sum", pairs, numbers[0])
    yield _line(f"{name}_count", pairs, total)


def _line(name: str, pairs: Sequence[tuple[str, str]], value: float) -> str:
    spelled = ",".join(f'{label}="{_escaped(text)}"' for label, text in pairs)
    number = int(value) if float(value).is_integer() else value
    return f"{name}{{{spelled}}} {number!r}" if spelled else f"{name} {number!r}"


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
