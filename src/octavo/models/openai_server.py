"""A server that speaks OpenAI's protocol: its address and key, its client, and its errors without the key."""

import asyncio
import os
import re
from typing import Any
from urllib.parse import urlsplit

from octavo.errors import ConfigError
from octavo.models.packages import import_package, require_package

_NO_KEY = "none"  # the package insists on a key; servers at home do not
_OPENAI = "https://api.openai.com/v1"


class OpenAIServer:
    """Where models are asked, through the `openai` package, which is loaded by the first question.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where they are not given. A client handed in is used
    as it is, and stays open.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        *,
        timeout: float,
        max_retries: int,
        client: Any = None,
    ) -> None:
        require_package("openai", "openai")
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._api_key = (
            _key(api_key or os.environ.get("OPENAI_API_KEY"), self.base_url) if client is None else ""
        )
        self._timeout, self._max_retries = timeout, max_retries
        self._given = client
        self._made: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self.closed = False

    @property
    def package(self) -> Any:
        """The package, for the errors it defines."""
        return import_package("openai", "openai")

    @property
    def where(self) -> str:
        """The address as it may be shown: no user, no password, no query."""
        where = urlsplit(self.base_url or _OPENAI)
        port = f":{where.port}" if where.port else ""
        return f"{where.scheme}://{where.hostname}{port}{where.path}"

    def client(self) -> Any:
        """The client for the running event loop."""
        loop = asyncio.get_running_loop()
        # Connections belong to the loop they were opened in: in a second asyncio.run() they would be dead.
        if self._made is None or self._made[0] is not loop:
            client = self._given or self.package.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self.base_url,
                timeout=self._timeout,
                max_retries=self._max_retries,
            )
            self._made = (loop, client)
        return self._made[1]

    def hidden(self, said: str) -> str:
        """The words without the key."""
        return said.replace(self._api_key, "…") if self._api_key not in ("", _NO_KEY) else said

    def told(self, error: Any) -> Any:
        """The error as a cause that may be printed: some servers repeat the key they refuse."""
        body = getattr(error, "body", None)
        if self.hidden(f"{error}{body}") != f"{error}{body}":
            error.args = (self.hidden(str(error)),)
            error.message, error.body = error.args[0], None
        return error

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        self.closed = True
        made, self._made = self._made, None
        if made is not None and self._given is None and made[0] is asyncio.get_running_loop():
            await made[1].close()


def _key(key: str | None, base_url: str | None) -> str:
    if key is None or not key.strip():
        if base_url is None:
            raise ConfigError("OpenAI needs a key: set OPENAI_API_KEY, or base_url for a server without one")
        return _NO_KEY
    key = key.strip()
    # As a header it would fail later, with an error that shows it.
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ConfigError("the API key has characters in it that no key has (it is not shown here)")
    return key
