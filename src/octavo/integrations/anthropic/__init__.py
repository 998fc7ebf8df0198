"""Claude's memory tool over the documents of a user: files below `/memories` that live in any store, with what they said before.

    from octavo.integrations.anthropic import OctavoMemoryTool

    runner = client.beta.messages.tool_runner(tools=[OctavoMemoryTool("sqlite:///octavo.db", "lin")], ...)

Each answers as the SDK's own tool for files on disk does, word for word. The file `/memories/notes.md` is the document
`memories/notes.md` of this user; no path leads to another user, nor to anything else of this one.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Self

from octavo.integrations import require_package
from octavo.kernel.ports import Store

with require_package(__name__, "Anthropic's SDK", "anthropic pyyaml"):
    from anthropic.lib.tools import (  # type: ignore[import-not-found]
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
    )

from octavo.integrations.anthropic.files import MemoryFiles

__all__ = ["AsyncOctavoMemoryTool", "OctavoMemoryTool"]


class OctavoMemoryTool(MemoryFiles, BetaAbstractMemoryTool):  # type: ignore[misc] # its types are not there without the SDK
    """The memory tool for `Anthropic`; each command is made of the coroutine of its name, as in `view` and `aview`.

    A store that a URL names is closed with the tool; one that is handed in stays open.
    """

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        cache_control: Any = None,
    ) -> None:
        MemoryFiles.__init__(self, url_or_store, user_id, tenant)
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)


def _as_method(command: Callable[[MemoryFiles, Any], Awaitable[str]]) -> Callable[[Any, Any], Awaitable[str]]:
    """A command of the files as a method of the tool that holds them."""

    @functools.wraps(command)
    async def run(self: "AsyncOctavoMemoryTool", given: Any) -> str:
        return await command(self.files, given)

    return run


class AsyncOctavoMemoryTool(BetaAsyncAbstractMemoryTool):  # type: ignore[misc]
    """The memory tool for `AsyncAnthropic`."""

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.files = MemoryFiles(url_or_store, user_id, tenant)

    view = _as_method(MemoryFiles.aview)
    create = _as_method(MemoryFiles.acreate)
    str_replace = _as_method(MemoryFiles.astr_replace)
    insert = _as_method(MemoryFiles.ainsert)
    delete = _as_method(MemoryFiles.adelete)
    rename = _as_method(MemoryFiles.arename)

    async def clear_all_memory(self) -> str:
        """Remove all files and folders."""
        return await self.files.aclear_all_memory()

    async def close(self) -> None:
        """Close the store, unless it was handed in."""
        await self.files.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
