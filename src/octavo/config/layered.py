"""The settings of layered memory and of the server that answers for it."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from octavo.config.section import MOST, SECRET, SHOWN_URL, Section
from octavo.errors import ConfigError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Layers(Section, frozen=True):
    """Profile and event memories."""

    section: ClassVar[str] = "layers"

    event_ttl_days: Annotated[
        Annotated[float, Meta(gt=0, le=36_500)] | None,
        Meta(
            description="After how long an event memory expires that is not permanent and says no date; null is never."
        ),
    ] = None
    sweep_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="How often expired memories are removed and logged; unseen they are at once. 0 is never.",
        ),
    ] = 60.0


class Extraction(Section, frozen=True):
    """How single facts are found in a text: by rules, or by a language model with the rules behind it."""

    section: ClassVar[str] = "extraction"

    model: Annotated[
        str, Meta(description="The name of a model on an OpenAI-compatible server; empty is rules alone.")
    ] = ""
    base_url: Annotated[
        str,
        Meta(description="Its server, when that is not OpenAI's; empty is OPENAI_BASE_URL.", extra=SHOWN_URL),
    ] = ""
    api_key: Annotated[str, Meta(description="Its key; empty is OPENAI_API_KEY.", extra=SECRET)] = ""
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The longest the model may take before the rules decide.")
    ] = 30.0
    attempts: Annotated[
        int, Meta(ge=1, le=10, description="How often a model is asked that answers nothing of use.")
    ] = 2
    known_memories: Annotated[
        int, Meta(ge=0, le=1000, description="How many of the memories there are the model is shown.")
    ] = 50


def _body_bytes(content_bytes: int) -> int:
    """What a request takes that holds such a content: JSON may spell each byte as six, and there is more than the content."""
    return 6 * content_bytes + 1_048_576


class Server(Section, frozen=True):
    """The server of `octavo serve`."""

    section: ClassVar[str] = "server"

    host: Annotated[
        str, Meta(min_length=1, description="Where to listen; anything but loopback needs keys.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="The port; 0 is any that is free.")] = 8000
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Processes that answer; several need a database with a server.")
    ] = 1
    auth: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="Whether callers need an API key; auto is on, except on loopback."),
    ] = "auto"
    requests_per_minute: Annotated[
        int, Meta(ge=0, le=MOST, description="How many each key may make, in each worker; 0 is no limit.")
    ] = 6000
    max_content_bytes: Annotated[
        int, Meta(ge=1024, le=4_194_304, description="The longest content of a memory, in UTF-8.")
    ] = 1_048_576
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=MOST,
            description="The largest request that is read; left alone, it rises with max_content_bytes.",
        ),
    ] = _body_bytes(1_048_576)
    max_page_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=MOST,
            description="The most that a listing answers at once, unless one record is larger; `next` goes on.",
        ),
    ] = 2_097_152
    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST,
            description="Connections at once in each worker; for one more, the oldest that asks nothing is closed.",
        ),
    ] = 1000
    header_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The longest the headers of a request may take to arrive.")
    ] = 10.0
    idle_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="How long a connection stays open that asks nothing more.")
    ] = 30.0
    max_concurrent: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST,
            description="Requests under way at once in each worker; each key may have as many as are left.",
        ),
    ] = 512
    request_seconds: Annotated[float, Meta(gt=0, le=3600, description="The longest a request may take.")] = (
        60.0
    )
    stop_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="How long a stopping server waits for requests under way.")
    ] = 10.0

    @property
    def loopback(self) -> bool:
        """Whether only this machine can call."""
        return self.host in LOOPBACK

    @property
    def needs_key(self) -> bool:
        """Whether callers need an API key."""
        return self.auth == "on" or (self.auth == "auto" and not self.loopback)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_body_bytes == _body_bytes(1_048_576) < _body_bytes(self.max_content_bytes):
            msgspec.structs.force_setattr(self, "max_body_bytes", _body_bytes(self.max_content_bytes))
        if self.auth == "off" and not self.loopback:
            raise ConfigError(
                f"server.auth is off, but server.host is {self.host!r}, where others can call; "
                f"listen on 127.0.0.1, or leave auth on"
            )
