"""One message and everything that follows from it, until the answer: middlewares, model and tools, each step noted as it happens."""

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from octavo.agent.adapters import Message, ModelAdapter, Reply, ToolCall
from octavo.agent.recording import make_keepable
from octavo.agent.tools import AgentContext, InvalidArguments, Tool, parse_arguments, result_text
from octavo.errors import ConfigError, ModelError
from octavo.events import EventType
from octavo.util.user_code import attempt, describe_error

T = TypeVar("T")
#: How a turn tells what happens (type, data and maybe metadata of an event); it takes no time and never fails.
Note: TypeAlias = Callable[..., None]
#: What `run` answers: response, tool_calls, iterations, success, and error when there was one.
Result: TypeAlias = dict[str, Any]
_CURE = "give it a pre(message, context) or post(response, context) method, async or not, that answers the text or None"


class Middleware:
    """A base to write one on: override `pre`, `post` or both, as a plain or an async method.

    Any object with such a method is as good. A hook that answers None leaves the text as it is, and may leave out
    `context` if it does not need it.
    """

    def pre(self, message: str, context: AgentContext) -> Any:  # noqa: ARG002 - for subclasses
        """The message as the model is to see it."""
        return message

    def post(self, response: str, context: AgentContext) -> Any:  # noqa: ARG002
        """The response as the caller is to see it."""
        return response


class Layer:
    """A middleware as the agent runs it: a name for the record, and the hooks it really has."""

    def __init__(self, middleware: Any) -> None:
        self.middleware = middleware
        self.pre = _hook(middleware, "pre")
        self.post = _hook(middleware, "post")
        if isinstance(middleware, type) or (self.pre is None and self.post is None):
            raise ConfigError(f"{middleware!r} is no middleware; {_CURE}")
        name = getattr(middleware, "name", None)
        self.name = name if isinstance(name, str) and name else type(middleware).__name__
        self.stage = f"middleware {self.name}"


async def run_hook(hook: Callable[..., Any], text: str, context: AgentContext) -> str:
    """The text after a hook has seen it."""
    answer = hook(text, context) if _takes_context(hook) else hook(text)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        return text
    if not isinstance(answer, str):
        raise TypeError(f"a middleware must answer a text or None; got {type(answer).__name__}")
    return answer


def _hook(middleware: Any, name: str) -> Callable[..., Any] | None:
    hook: Callable[..., Any] | None = getattr(middleware, name, None)
    if not callable(hook) or getattr(hook, "__func__", hook) is getattr(Middleware, name):
        return None
    return hook


def _takes_context(hook: Callable[..., Any]) -> bool:
    try:
        inspect.signature(hook).bind("", None)
    except (TypeError, ValueError):  # it takes one argument, or is built in and has no signature to read
        return False
    return True


class UnknownTool(LookupError):  # noqa: N818 - names say what is wrong, not that it is an error
    """A tool that the model made up; it is told which there are."""


class NoAnswer(ModelError):  # noqa: N818
    """The model asked for tools again and again and never answered."""


class _Failed(Exception):  # noqa: N818 - ends a turn from wherever it has got to
    def __init__(self, error: Exception, stage: str) -> None:
        self.error = error
        self.stage = stage


@dataclasses.dataclass(kw_only=True)
class Turn:
    """A single run of an agent. It reads the conversation once, at its beginning, and adds to it once, at its end.

    So two turns of one conversation at the same time each see a conversation that makes sense.
    """

    adapter: ModelAdapter
    context: AgentContext
    system_prompt: str | None
    tools: Mapping[str, Tool]
    layers: Sequence[Layer]
    max_iterations: int
    note: Note
    flush: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._specs = [tool.spec for tool in self.tools.values()]
        self._said: list[Message] = []
        if self.system_prompt:
            self._said.append({"role": "system", "content": self.system_prompt})
        self._said += self.context.messages
        self._before = len(self._said)
        self._calls: list[dict[str, Any]] = []
        self._iterations = 0

    async def run(self, message: str) -> Result:
        """Answer the message; whatever goes wrong is an answer too. Only being cancelled is raised."""
        self.note(EventType.USER_MESSAGE, {"message": message, "message_length": len(message)})
        try:
            await self.flush()  # a model that ends the process must not take the question with it
            return await self._answer(message)
        except _Failed as failed:
            self._note_error(failed.error, failed.stage)
            return self._result("", success=False) | {"error": describe_error(failed.error)}
        except asyncio.CancelledError as error:
            self._note_error(error, "cancelled")
            raise

    async def _answer(self, message: str) -> Result:
        for layer in self.layers:
            if layer.pre is not None:
                self.note(EventType.MIDDLEWARE_PRE, {"middleware": layer.name, "message": message})
                message = await self._attempt(run_hook(layer.pre, message, self.context), layer.stage)
        self._said.append({"role": "user", "content": message})
        response, error = await self._converse()
        ended = {"iterations": self._iterations, "success": error is None}
        self.note(
            EventType.MODEL_RESPONSE, {"response": response, "tool_calls_count": len(self._calls), **ended}
        )
        if error is not None:
            # The tools did what they did: the model should know when the conversation goes on.
            self.context.messages += self._said[self._before :]
            self._note_error(error, "model")
            return self._result(response, success=False) | {"error": str(error)}
        for layer in reversed(self.layers):
            if layer.post is not None:
                response = await self._attempt(run_hook(layer.post, response, self.context), layer.stage)
                self.note(EventType.MIDDLEWARE_POST, {"middleware": layer.name, "response": response})
        self.context.messages += self._said[self._before :]
        return self._result(response, success=True)

    async def _converse(self) -> tuple[str, ModelError | None]:
        content = ""
        while self._iterations < self.max_iterations:
            self._iterations += 1
            reply = await self._attempt(self._ask_model(), "model")
            content = reply.content or ""
            if not reply.tool_calls:
                self._said.append({"role": "assistant", "content": content})
                return content, None
            self._said.append(_assistant_message(content, reply.tool_calls))
            for call in reply.tool_calls:
                answer = await self._call_tool(call)
                self._said.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        return content, NoAnswer(
            f"no answer after {self.max_iterations} iterations: the model kept asking for tools "
            "(raise max_iterations if it needs more)"
        )

    async def _ask_model(self) -> Reply:
        """The model's answer, or ModelError when what it answers is none."""
        answer: Any = self.adapter.complete(list(self._said), self._specs)
        reply = await answer if inspect.isawaitable(answer) else answer
        if (
            not isinstance(reply, Reply)
            or not isinstance(reply.content or "", str)
            or not all(isinstance(call, ToolCall) for call in reply.tool_calls or ())
        ):
            raise ModelError(
                f"{type(self.adapter).__name__} answered {reply!r:.80}, not a Reply of text and ToolCalls"
            )
        return reply

    async def _call_tool(self, call: ToolCall) -> str:
        """What the model is told: the tool's result, or its error."""
        told_of = {"tool_call_id": call.id}
        arguments = _shown_arguments(call.arguments)
        named = {"tool_name": call.name}
        self.note(EventType.TOOL_CALL_START, {**named, "arguments": arguments}, told_of)
        entry: dict[str, Any] = {"id": call.id, **named, "arguments": arguments}
        self._calls.append(entry)
        try:
            await self.flush()  # whatever the tool does to this process, that it was called is known
            result, error = await attempt(self._run_tool(call))
        except asyncio.CancelledError as cancelled:
            failure = {"error": str(cancelled) or "the run was cancelled", "error_type": "CancelledError"}
            self.note(EventType.TOOL_CALL_ERROR, named | failure, told_of)
            raise
        if error is None:
            answer = str(result)
            entry["result"] = answer
            self.note(EventType.TOOL_CALL_SUCCESS, {**named, "result": answer}, told_of)
            return answer
        failure = {"error": describe_error(error), "error_type": type(error).__name__}
        entry |= failure
        self.note(EventType.TOOL_CALL_ERROR, named | failure, told_of)
        return f"Error: {failure['error_type']}: {failure['error']}"

    async def _run_tool(self, call: ToolCall) -> str:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            raise UnknownTool(f"there is no tool {call.name!r}; there are: {known}")
        return result_text(await tool.call(call.arguments, self.context))

    async def _attempt(self, work: Awaitable[T], stage: str) -> T:
        value, error = await attempt(work)
        if error is not None:
            raise _Failed(error, stage) from error
        return value  # type: ignore[return-value] # without an error there is one

    def _note_error(self, error: BaseException, stage: str) -> None:
        failure = {"error": describe_error(error), "error_type": type(error).__name__, "stage": stage}
        self.note(EventType.AGENT_ERROR, failure)

    def _result(self, response: str, *, success: bool) -> Result:
        return {
            "response": response,
            "tool_calls": self._calls,
            "iterations": self._iterations,
            "success": success,
        }


def _assistant_message(content: str, calls: Sequence[ToolCall]) -> Message:
    """The model's own wish as it is shown to it afterwards."""
    return {
        "role": "assistant",
        "content": content or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments_json(call.arguments)},
            }
            for call in calls
        ],
    }


def _arguments_json(arguments: Any) -> str:
    """The arguments as JSON in any case: a server may fail to read its own model's mistake."""
    readable = _shown_arguments(arguments)
    return result_text(readable) if isinstance(readable, dict) else "{}"


def _shown_arguments(arguments: Any) -> Any:
    """The arguments as a record shows them: an object of their own, or the words of a model that wrote something else."""
    if isinstance(arguments, str):
        try:
            return parse_arguments(arguments)
        except InvalidArguments:
            return arguments
    return make_keepable(arguments)
