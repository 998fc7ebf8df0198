"""Any endpoint that speaks OpenAI's /v1/chat/completions, through the `openai` package."""

from collections.abc import Sequence
from typing import Any

from octavo.agent.adapters.base import Message, ModelAdapter, ModelConfig, Reply, ToolCall
from octavo.errors import ModelError
from octavo.kernel.ids import new_id
from octavo.models.openai_server import OpenAIServer


class OpenAIAdapter(ModelAdapter):
    """A model behind an OpenAI-compatible server; the package retries what may pass, and the rest is ModelError.

    Key and address come from OPENAI_API_KEY and OPENAI_BASE_URL where the configuration has none. A client handed in
    is used as it is, and stays open.
    """

    def __init__(self, config: ModelConfig, *, client: Any = None) -> None:
        super().__init__(config)
        self._server = OpenAIServer(
            config.base_url,
            config.api_key,
            timeout=config.timeout,
            max_retries=config.max_retries,
            client=client,
        )

    def __repr__(self) -> str:
        return f"OpenAIAdapter({self.config.model_name!r} at {self._server.where})"  # never the key

    async def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        """Ask once; calls of tools come back parsed."""
        server = self._server
        if server.closed:
            raise ModelError(f"{self!r} was closed; make another")
        client, package = server.client(), server.package
        try:
            answer = await client.chat.completions.create(**self._request(messages, tools))
        except package.OpenAIError as error:
            said = server.hidden(str(error))[:500]
            raise ModelError(f"{self!r} failed: {type(error).__name__}: {said}") from server.told(error)
        except (ValueError, TypeError) as error:  # an answer that is no JSON, or an `extra` that nobody knows
            raise ModelError(f"{self!r} failed: {server.hidden(str(error))[:500]}") from error
        choices = getattr(answer, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelError(f"{self!r} answered without a message: {server.hidden(repr(answer))[:200]}")
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
            name = "max_tokens" if self._server.base_url else "max_completion_tokens"
            request[name] = config.max_tokens
        return request | config.extra

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        await self._server.close()


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
