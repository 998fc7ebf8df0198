"""Spans for OpenTelemetry: where the time of a call went. Switched off, which it is unless told, a span costs nothing.

It is a switch of the process, as OpenTelemetry's own provider is: whoever runs the program says where spans go.
"""

import random
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from octavo.errors import ConfigError
from octavo.util.system import missing_packages

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

Kind: TypeAlias = Literal["internal", "server"]
Value: TypeAlias = str | int | float | bool
_tracer: "Tracer | None" = None
_contents = False
_share = 1.0
_left_out: ContextVar[bool] = ContextVar("octavo_left_out", default=False)
_api: Any = None  # OpenTelemetry's own, which is imported when it is needed


class Span:
    """A span that nobody wants: it takes everything and keeps nothing."""

    #: Whether it is kept by anybody.
    on = False
    #: Whether it may hold what people said.
    contents = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """End it."""

    def set(self, name: str, value: Value) -> None:
        """Say one thing more about it."""

    def rename(self, name: str) -> None:
        """Give it another name."""

    def fail(self, why: str) -> None:
        """Say that what it stands for went wrong, by a word of which there are few."""


_OFF = Span()


class _LeftOut(Span):
    """A request that is not traced, and nothing inside it either."""

    def __enter__(self) -> Self:
        self._token = _left_out.set(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        _left_out.reset(self._token)


class _LiveSpan(Span):
    """One that OpenTelemetry keeps. Of an error it says the class alone: messages may hold what people said."""

    def __init__(
        self, tracer: "Tracer", name: str, kind: Kind, attributes: Mapping[str, Value] | None, context: Any
    ) -> None:
        kinds = _api.trace.SpanKind
        self._span = tracer.start_span(
            name,
            context=context,
            kind=kinds.SERVER if kind == "server" else kinds.INTERNAL,
            attributes=attributes,
            record_exception=False,
        )
        self.on = self._span.is_recording()
        self.contents = _contents and self.on
        self._token: Any = None

    def __enter__(self) -> Self:
        self._token = _api.context.attach(_api.trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.fail(kind.__name__)
        self._span.end()
        _api.context.detach(self._token)

    def set(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, why: str) -> None:
        self._span.set_attribute("error.type", why)
        self._span.set_status(_api.trace.StatusCode.ERROR)


def start_tracing(
    *, contents: bool = False, share: float = 1.0, provider: "TracerProvider | None" = None
) -> None:
    """Make spans from now on, of OpenTelemetry's global provider unless one is given; with `contents`, of what was said too.

    `share` is the part of the requests that is traced, of those that do not come with a trace.
    """
    global _tracer, _contents, _share, _api  # noqa: PLW0603 - imported with the first switch
    if needed := missing_packages("otel"):
        raise ConfigError(f"telemetry.traces needs {needed}")
    import opentelemetry
    import opentelemetry.context
    import opentelemetry.propagate
    import opentelemetry.trace

    _api = opentelemetry
    _tracer, _contents = _api.trace.get_tracer("octavo", tracer_provider=provider), contents
    _share = share


def stop_tracing() -> None:
    """Make no more spans."""
    global _tracer, _contents
    _tracer, _contents = None, False


def is_tracing() -> bool:
    """Whether spans are made here and now."""
    return _tracer is not None and not _left_out.get()


def span(name: str, attributes: Mapping[str, Value] | None = None, *, root: bool = False) -> Span:
    """A span inside the current one, or with `root` one that begins a trace of its own: work that nobody waits for."""
    if _tracer is None or (not root and _left_out.get()):
        return _OFF
    if root:
        return _LiveSpan(_tracer, name, "internal", attributes, _api.context.Context())
    return _LiveSpan(_tracer, name, "internal", attributes, None)


def request_span(name: str, headers: Mapping[bytes, bytes]) -> Span:
    """The span of a request that came over HTTP: it goes on with the trace that the headers name."""
    if _tracer is None:
        return _OFF
    given = headers.get(b"traceparent")
    if random.random() >= _share if given is None else given.endswith(b"-00"):  # noqa: S311 - no secret
        return _LeftOut()
    carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
    return _LiveSpan(_tracer, name, "server", None, _api.propagate.extract(carrier))


def current_ids() -> dict[str, str]:
    """The ids of the current trace and span, as a line of a log holds them; nothing when there is none."""
    if _tracer is None:
        return {}
    now = _api.trace.get_current_span().get_span_context()
    if not now.is_valid:
        return {}
    return {"trace_id": format(now.trace_id, "032x"), "span_id": format(now.span_id, "016x")}


def export_spans(version: str) -> None:
    """Send spans by OTLP to where OTEL_EXPORTER_OTLP_ENDPOINT says, unless the program has said where they go."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    own = Resource.create({"service.name": "octavo", "service.version": version})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def flush_spans() -> None:
    """Send what was not sent yet: a worker's process ends without saying so."""
    if _tracer is None:
        return
    flush = getattr(_api.trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        with suppress(Exception):  # the collector's trouble must not keep a server from stopping
            flush(5000)
