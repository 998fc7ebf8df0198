"""What `octavo memory` is asked: which memory, whose, and what of it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from octavo.cli import running
from octavo.cli.settings import resolved, store_option
from octavo.cli.teller import Teller
from octavo.cli.times import moment
from octavo.config import Settings
from octavo.errors import ConfigError, InvalidQuery, InvalidRecord
from octavo.events.retention import age
from octavo.kernel.ids import now
from octavo.layers import CATEGORIES, Layer, LayeredMemory
from octavo.layers.values import LAYERS

F = TypeVar("F", bound=Callable[..., Any])
CATEGORY_NAMES = [name for names in CATEGORIES.values() for name in names]


def where(command: F) -> F:
    """The memory that is meant."""
    tenant = click.option("--tenant", metavar="NAME", help="Whose memory it is. [default: as configured]")
    return store_option(tenant(command))


def owner(command: F) -> F:
    """Whose memories are meant."""
    for option in (
        click.option("--agent", metavar="NAME", help="The agent whose memory it is."),
        click.option("--user", metavar="NAME", help="The user whose memory it is."),
    ):
        command = option(command)
    return command


def layer(help_: str) -> Callable[[F], F]:
    return click.option("--layer", type=click.Choice(LAYERS), help=help_)


def category(help_: str) -> Callable[[F], F]:
    return click.option("--category", type=click.Choice(CATEGORY_NAMES), metavar="NAME", help=help_)


def count(default: int, help_: str = "No more than these.") -> Callable[[F], F]:
    return click.option(
        "--limit", "-n", type=click.IntRange(min=0), default=default, show_default=True, metavar="N", help=help_
    )  # fmt: skip


class Asked:
    """The memory and the owner that were named."""

    def __init__(self, teller: Teller, given: dict[str, Any], *, must_exist: bool = True) -> None:
        self._settings = _settings(teller, given)
        self._user: str | None = given.get("user")
        self._agent: str | None = given.get("agent")
        if must_exist:
            running.existing(self._settings.database.dsn)

    def owner(self) -> dict[str, Any]:
        """The one who must be named."""
        if self._user is None and self._agent is None:
            raise ConfigError("whose memory? name a user by --user or an agent by --agent")
        return self.perhaps_owner()

    def perhaps_owner(self) -> dict[str, Any]:
        """The one who may be named."""
        if self._user is not None and self._agent is not None:
            raise ConfigError("give --user or --agent, not both: a memory has one owner")
        return {"user_id": self._user, "agent_id": self._agent}

    def owner_or_everyone(self, *, everyone: bool) -> dict[str, Any]:
        """The one who must be named, unless everyone is meant."""
        named = self._user is not None or self._agent is not None
        if named is everyone:
            both = ", not both" if named else ""
            raise ConfigError(
                f"whose memories? name one by --user or --agent, or everyone by --everyone{both}"
            )
        return {**self.perhaps_owner(), "everyone": everyone}

    @property
    def named(self) -> str:
        return f"the user {self._user}" if self._agent is None else f"the agent {self._agent}"

    def run(self, do: Callable[[LayeredMemory], Awaitable[int | None]]) -> int:
        """Open the memory, do this, and close it."""

        async def opened() -> int:
            async with LayeredMemory.from_settings(self._settings) as memory:
                return await do(memory) or 0

        try:
            return asyncio.run(opened())
        except (InvalidQuery, InvalidRecord) as error:  # what was asked is wrong, not what came of it
            raise ConfigError(str(error)) from error


def _settings(teller: Teller, given: dict[str, Any]) -> Settings:
    options = {"database.dsn": ("--store", given["url"]), "service.tenant": ("--tenant", given["tenant"])}
    settings = resolved(teller, given["config"], given["verbose"], options).settings
    replace = msgspec.structs.replace
    return replace(
        settings,
        service=replace(settings.service, dedup_window=0),
        layers=replace(settings.layers, sweep_seconds=0),
        # A command waits for the store or fails: it does not stay to deliver what it queued.
        failure_queue=replace(settings.failure_queue, enabled=False),
    )


def one_memory(given: dict[str, Any], auto: bool) -> dict[str, Any]:
    """What was said about one memory, which says nothing about the facts of a text."""
    said = {
        f"--{name}": given[name] for name in ("layer", "category", "permanent", "ttl", "expires", "reason")
    }
    named = [name for name, value in said.items() if value]
    if auto:
        if named:
            raise ConfigError(f"--auto decides for each fact by itself; leave out {', '.join(named)}")
        return {}
    ends = [name for name in named if name in ("--permanent", "--ttl", "--expires")]
    if len(ends) > 1:
        raise ConfigError(f"{' and '.join(ends)} say different things about its end; give one of them")
    expires = moment("--expires", given["expires"])
    if expires is not None and expires <= now():
        raise ConfigError(f"--expires {given['expires']!r} is in the past")
    return {
        "layer": layer_of(given["layer"], given["category"]),
        "category": given["category"],
        "is_permanent": True if given["permanent"] else None,
        "ttl_seconds": None if given["ttl"] is None else age(given["ttl"]).total_seconds(),
        "expiry_date": expires,
        "reason": given["reason"],
    }


def layer_of(layer: Layer | None, category: str | None) -> Layer:
    """The layer that is meant: a category is of one only."""
    of = next((each for each, names in CATEGORIES.items() if category in names), None)
    if layer is not None and of is not None and layer != of:
        raise ConfigError(
            f"--category {category} belongs to the {of} layer; of the {layer} layer are {', '.join(CATEGORIES[layer])}"
        )
    return layer or of or "event"


def json_object(option: str, spelled: str | None) -> dict[str, Any] | None:
    if spelled is None:
        return None
    try:
        return msgspec.json.decode(spelled, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f'{option} must be a JSON object, such as {{"from": "mail"}}: {error}') from None


def stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"stdin is not UTF-8: {error}") from None
