"""What a memory holds as one plain value, and values that are there at once and may be awaited all the same."""

from collections.abc import Coroutine, Generator, Mapping
from typing import Any, Self, TypeVar

from octavo.chat.marks import marks_of
from octavo.chat.messages import Msg

T = TypeVar("T")
SUMMARY, CONTENT = "_compressed_summary", "content"


class State(dict[str, Any]):
    """A state that is there already: a dict like any other, and `await` gives the same dict."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self


class Done:
    """Something that has been done; to await it is allowed, and not needed."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that never waits for anything, such as that of a store in this process's memory."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("this memory's store waits for something; it cannot answer without await")


def spelled(summary: str, content: list[tuple[Msg, list[str]]]) -> dict[str, Any]:
    """The state of a memory: each message as a dict, with its marks."""
    return {SUMMARY: summary, CONTENT: [[message.to_dict(), marks] for message, marks in content]}


def read(
    state: Mapping[str, Any], *, strict: bool
) -> tuple[str | None, list[tuple[Msg, tuple[str, ...]]] | None]:
    """The summary and the messages with their marks; None stands for a part the state does not speak of."""
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is a dict, as state_dict() makes it; got {type(state).__name__}")
    if strict:
        if missing := [key for key in (SUMMARY, CONTENT) if key not in state]:
            raise KeyError(
                f"the state has no {missing[0]!r}; strict=False leaves what it does not name as it is"
            )
        if unknown := [key for key in state if key not in (SUMMARY, CONTENT)]:
            raise KeyError(f"the state has an unknown {unknown[0]!r}; strict=False passes over it")
    if SUMMARY in state and not isinstance(state[SUMMARY], str):
        raise TypeError(f"{SUMMARY!r} is a string; got {type(state[SUMMARY]).__name__}")
    if CONTENT in state and not isinstance(state[CONTENT], list | tuple):
        raise TypeError(
            f"{CONTENT!r} is a list of messages with their marks; got {type(state[CONTENT]).__name__}"
        )
    content = [_entry(entry) for entry in state[CONTENT]] if CONTENT in state else None
    return state.get(SUMMARY), content


def _entry(entry: Any) -> tuple[Msg, tuple[str, ...]]:
    if isinstance(entry, Mapping):  # as memories without marks told it
        return Msg.from_dict(entry), ()
    if not (isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], Mapping)):
        raise ValueError(f"a state holds [message, marks] for each message; got {entry!r}"[:300])
    return Msg.from_dict(entry[0]), marks_of(entry[1])
