"""Recalled text as one block for a prompt: fenced, within a budget, with its sources."""

import re
from collections.abc import Callable, Sequence

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.terms.matching import content
from octavo.search.hits import Hit

_SHORTEST = 12  # tokens of a text that are worth showing when no more of it fits
_TICKS = re.compile(r"`{3,}")
_MOST_TICKS = 8  # of a run in a text; a longer one would make a fence that takes up the whole budget
_FIRST_TRY = (
    256  # characters of a text tried before twice as many: a book is not counted to show a page of it
)
# The beginning of a word that is cut: scripts that put no spaces between words may be cut anywhere.
_BROKEN = re.compile(r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]+\Z")


class Source(msgspec.Struct, frozen=True):
    """Which record an entry of the block is."""

    number: int
    collection: str
    id: str
    session: str


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The block, what it costs, and where each of its entries comes from; `text` is empty when nothing fits."""

    text: str = ""
    tokens: int = 0
    sources: tuple[Source, ...] = ()
    left_out: int = 0  # hits for which there was no room

    def __str__(self) -> str:
        return self.text


def fenced(hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> Context:
    """The best hits that fit, best first; a text that does not fit whole is cut, and says so with an ellipsis."""
    if not isinstance(max_tokens, int) or max_tokens < 0:
        raise InvalidQuery(f"max_tokens must be a number, 0 or more; got {max_tokens!r}")
    fence = "`" * (
        1 + max((len(run) for hit in hits for run in _TICKS.findall(_head(hit) + _body(hit))), default=2)
    )
    entries: list[str] = []
    sources: list[Source] = []

    def block(*more: str) -> str:
        return "\n".join([f"{fence}memory", *entries, *more, fence])

    for hit in hits:
        number = len(sources) + 1
        entry = _fitting(
            f"[{number}] {_head(hit)} ", _body(hit), lambda e: count(block(e)) <= max_tokens, count
        )
        if entry is None:
            continue
        entries.append(entry)
        record = hit.record
        sources.append(Source(number, hit.collection, record.id, record.scope.session or ""))
    if not entries:
        return Context(left_out=len(hits))
    text = block()
    return Context(text=text, tokens=count(text), sources=tuple(sources), left_out=len(hits) - len(sources))


def _fitting(head: str, body: str, fits: Callable[[str], bool], count: Callable[[str], int]) -> str | None:
    low, high = 0, _FIRST_TRY
    while high < len(body) and fits(f"{head}{body[:high]}…"):
        low, high = high, high * 2
    if high >= len(body):
        if fits(head + body):
            return head + body
        high = len(body)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(f"{head}{body[:middle]}…") else (low, middle - 1)
    cut = body[:low].rstrip()
    if low < len(body) and body[low].isalnum():
        cut = _BROKEN.sub("", cut).rstrip() or cut
    # To a real tokenizer a shorter text may be a token more, so what is shown is what was counted.
    while cut and not fits(f"{head}{cut}…"):
        cut = cut[:-1].rstrip()
    return f"{head}{cut}…" if cut and count(cut) >= _SHORTEST else None


def _head(hit: Hit) -> str:
    record = hit.record
    parts = (record.created_at.strftime("%Y-%m-%d"), hit.collection, _one_line(record.kind))
    return " · ".join(part for part in parts if part) + ":"


def _body(hit: Hit) -> str:
    return _one_line(content(hit.record.text, hit.record.data))


def _one_line(text: str) -> str:
    # A text that could start a line of its own could pose as another entry, or end the fence.
    return _TICKS.sub(lambda run: run[0][:_MOST_TICKS], " ".join(text.split()))
