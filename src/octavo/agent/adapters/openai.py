"""Any endpoint that speaks OpenAI's /v1/chat/completions, through the `openai` package."""

import asyncio
import importlib
import importlib.util
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from octavo.agent.adapters.base import Message, ModelAdapter, ModelConfig, Reply, ToolCall
from octavo.errors import ConfigError, ModelError
from octavo.ids import new_id

_NO_KEY = "none"  # the package insists on a key; servers at home do not
_OPENAI = "https://api.openai.com/v1"


class OpenAIAdapter(ModelAdapter):
    """A model behind an OpenAI-compatible server; the package retries what may pass, and the rest is ModelError.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where the configuration has none. A client handed in
    is used as it is, and stays open.
    """

    def __init__(self, config: ModelConfig, *, client: Any = None) -> None:
        super().__init__(config)
        _expected()
        self._base_url = config.base_url or os.environ.get("OPENAI_BASE_URL") or None
        given = config.api_key or os.environ.get("OPENAI_API_KEY")
        self._api_key = _key(given, self._base_url) if client is None else ""
        self._given = client
        self._made: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIAdapter({self.config.model_name!r} at {self._where()})"  # never the key

    async def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        """Ask once; calls of tools come back parsed."""
        client = self._client()
        package = _package()
        try:
            answer = await client.chat.completions.create(**self._request(messages, tools))
        except package.OpenAIError as error:
            said = self._hidden(str(error))[:500]
            raise ModelError(f"{self!r} failed: {type(error).__name__}: {said}") from self._told(error)
        except (ValueError, TypeError) as error:  # an answer that is no JSON, or an `extra` that nobody knows
            raise ModelError(f"{self!r} failed: {self._hidden(str(error))[:500]}") from error
        choices = getattr(answer, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelError(f"{self!r} answered without a message: {self._hidden(repr(answer))[:200]}")
        return _reply(choices[0].message)

    def _request(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        config = self.config
        request: dict[str, Any] = {"model": config.model_name, "messages": list(messages)}
        if tools:  # servers refuse an empty list
            request["tools"] = list(tools)
        if config.temperature is not None:
            request["temperature"] = config.temperature
        if config.max_tokens is not None:
            # OpenAI's newer models refuse the old name; many other servers know no other.
            name = "max_tokens" if self._base_url else "max_completion_tokens"
            request[name] = config.max_tokens
        return request | config.extra

    def _client(self) -> Any:
        if self._closed:
            raise ModelError(f"{self!r} was closed; make another")
        loop = asyncio.get_running_loop()
        # Connections belong to the loop they were opened in: in a second asyncio.run() they would be dead.
        if self._made is None or self._made[0] is not loop:
            client = self._given or _package().AsyncOpenAI(
                api_key=self._api_key,
                base_url=self._base_url,
                timeout=self.config.timeout,
                max_retries=self.config.max_retries,
            )
            self._made = (loop, client)
        return self._made[1]

    def _told(self, error: Any) -> Any:
        """The error as a cause that may be printed: some servers repeat the key they refuse."""
        body = getattr(error, "body", None)
        if self._hidden(f"{error}{body}") != f"{error}{body}":
            error.args = (self._hidden(str(error)),)
            error.message, error.body = error.args[0], None
        return error

    def _hidden(self, said: str) -> str:
        return said.replace(self._api_key, "…") if self._api_key not in ("", _NO_KEY) else said

    def _where(self) -> str:
        where = urlsplit(self._base_url or _OPENAI)
        port = f":{where.port}" if where.port else ""
        return f"{where.scheme}://{where.hostname}{port}{where.path}"  # no user, no password, no query

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        self._closed = True
        made, self._made = self._made, None
        if made is not None and self._given is None and made[0] is asyncio.get_running_loop():
            await made[1].close()


def _reply(message: Any) -> Reply:
    calls = [call for call in message.tool_calls or () if getattr(call, "function", None) is not None]
    return Reply(
        content=message.content or getattr(message, "refusal", None) or "",
        tool_calls=[
            ToolCall(
                id=call.id or new_id("call_"),
                name=call.function.name or "",
                arguments=call.function.arguments if call.function.arguments is not None else "",
            )
            for call in calls
        ],
    )


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


def _package() -> Any:
    try:
        return importlib.import_module("openai")
    except ImportError as error:
        raise _missing() from error


def _expected() -> None:
    """Fail at once when the package is not installed, without paying for its import."""
    try:
        found = importlib.util.find_spec("openai")
    except ValueError:  # somebody put None in sys.modules, which makes the import fail
        found = None
    if found is None:
        raise _missing()


def _missing() -> ConfigError:
    return ConfigError("this adapter needs the package openai: pip install 'octavo[openai]'")
