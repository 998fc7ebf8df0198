"""A conversation as plain text: who said what, which tool was called and what it answered."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from octavo.chat.messages import Msg
from octavo.kernel.terms.tokens import Line

_MEDIA = frozenset(("image", "audio", "video"))


def lines(messages: Sequence[Msg]) -> Iterator[Line]:
    """What the messages say, in order. Thinking is left out: it is how an answer came about, not what was said."""
    for message in messages:
        for block in _blocks(message):
            kind = block.get("type")
            if kind == "text":
                if text := str(block.get("text") or "").strip():
                    yield Line(message.name, message.role, text)
            elif kind == "tool_use":
                given = json.dumps(block.get("input", {}), ensure_ascii=False, default=str)
                yield Line(message.name, message.role, f"calls {block.get('name')}({given})", whole=True)
            elif kind == "tool_result":
                yield Line(str(block.get("name")), "tool", f"answers {_output(block)}", whole=True)
            elif kind in _MEDIA:
                yield Line(message.name, message.role, f"[{kind}{_address(block)}]", whole=True)


def _blocks(message: Msg) -> Sequence[Mapping[str, Any]]:
    # Whatever a message holds is only looked at as JSON: a block of a kind unknown here is no error.
    return cast("Sequence[Mapping[str, Any]]", message.get_content_blocks())


def _output(block: Mapping[str, Any]) -> str:
    output = block.get("output")
    if isinstance(output, str):
        return output.strip()
    shown: list[str] = []
    for part in output or []:
        kind = part.get("type")
        shown.append(str(part.get("text") or "") if kind == "text" else f"[{kind}{_address(part)}]")
    return "\n".join(shown).strip()


def _address(block: Mapping[str, Any]) -> str:
    """Where a picture or sound lies, if that is short enough to say; its bytes are nothing to read."""
    source = block.get("source")
    url = source.get("url") if isinstance(source, Mapping) else None
    return f" {url}" if isinstance(url, str) and len(url) <= 200 else ""


def boundary(messages: Sequence[Msg], keep_recent: int) -> int:
    """How many of the oldest messages may go so that at least `keep_recent` stay and no tool call leaves its result.

    A call that has no result yet stays, unless a user has spoken since: then nobody waits for it any more.
    """
    cut = max(0, len(messages) - keep_recent)
    spans: list[list[int]] = []  # where a call stands, and where its last result does
    latest: dict[
        str, list[int]
    ] = {}  # some models begin their ids anew in every turn, so the latest call counts
    spoke = -1  # where a user spoke last
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        kinds = {block.get("type") for block in blocks}
        for block in blocks:
            if block.get("type") == "tool_use":
                spans.append([at, -1])
                latest[str(block.get("id"))] = spans[-1]
            elif (
                block.get("type") == "tool_result" and (span := latest.get(str(block.get("id")))) is not None
            ):
                span[1] = at
        if message.role == "user" and "tool_result" not in kinds:
            spoke = at
    for span in spans:
        if span[1] < 0:
            span[1] = len(messages) if span[0] > spoke else span[0]
    # From the last end to the first: each span is looked at when all that could move the cut past it have been.
    for began, ended in sorted(spans, key=lambda span: -span[1]):
        if began < cut <= ended:
            cut = began
    return cut
