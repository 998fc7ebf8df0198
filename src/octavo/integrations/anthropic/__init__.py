"""Claude's memory tool over the documents of a user: files below `/memories` that live in any store, with what they said before.

    from octavo.integrations.anthropic import OctavoMemoryTool

    runner = client.beta.messages.tool_runner(tools=[OctavoMemoryTool("sqlite:///octavo.db", "lin")], ...)

Each answers as the SDK's own tool for files on disk does, word for word. The file `/memories/notes.md` is the document
`memories/notes.md` of this user; no path leads to another user, nor to anything else of this one.
"""

from typing import Any, Self

from octavo.errors import ConfigError
from octavo.kernel.ports import Store

try:
    from anthropic.lib.tools import (  # type: ignore[import-not-found]
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
    )
except ImportError as error:
    raise ConfigError(
        f"octavo.integrations.anthropic needs Anthropic's SDK ({error}): pip install anthropic pyyaml"
    ) from error

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

    async def view(self, command: Any) -> str:
        """A file with the numbers of its lines, or what is in a folder."""
        return await self.files.aview(command)

    async def create(self, command: Any) -> str:
        """Make a file."""
        return await self.files.acreate(command)

    async def str_replace(self, command: Any) -> str:
        """Put one text in the place of another."""
        return await self.files.astr_replace(command)

    async def insert(self, command: Any) -> str:
        """Put lines behind the line of a number."""
        return await self.files.ainsert(command)

    async def delete(self, command: Any) -> str:
        """Remove a file or a folder."""
        return await self.files.adelete(command)

    async def rename(self, command: Any) -> str:
        """Move a file or a folder."""
        return await self.files.arename(command)

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
