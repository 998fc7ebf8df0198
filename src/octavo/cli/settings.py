"""The settings a command works by: its options first, then the environment, then a file, then the defaults."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from octavo.cli.teller import Teller
from octavo.util.file_modes import share_with_group

if TYPE_CHECKING:
    from octavo.config import Resolved

F = TypeVar("F", bound=Callable[..., Any])
CONFIG = Path("config/memory.yaml")
STORE_DEFAULT = "[default: OCTAVO_URL, or database.dsn of the settings]"


def configured(command: F) -> F:
    """`--config` and `--verbose`, on every command that reads settings."""
    for option in (
        click.option(
            "--verbose", is_flag=True, help="Say which settings are not defaults, and what decided."
        ),
        click.option(
            "--config",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help=f"The settings. [default: {CONFIG}, if it is there]",
        ),
    ):
        command = option(command)
    return command


def store_option(command: F) -> F:
    """`--store`, and where the settings are that name one when it is not given."""
    return configured(
        click.option("--store", "url", metavar="URL", help=f"The store. {STORE_DEFAULT}")(command)
    )


def resolved(
    teller: Teller, config: str | None, verbose: bool, options: Mapping[str, tuple[str, Any]]
) -> "Resolved":
    """What the options, the environment and the file come to; an option is setting → its name, and its value or None."""
    from octavo.config import resolve_settings

    path = Path(config) if config is not None else CONFIG if CONFIG.exists() else None
    found = resolve_settings(path, {key: given for key, given in options.items() if given[1] is not None})
    settings = found.settings
    if settings.files.group_access:
        share_with_group()
    key = settings.extraction.api_key and f"?api_key={settings.extraction.api_key}"
    teller.urls += [url for url in (settings.database.dsn, settings.vector.url, key) if url]
    if verbose:
        _tell(teller, found, path)
    return found


def store_url(
    teller: Teller, url: str | None, config: str | None, verbose: bool, option: str = "--store"
) -> str:
    """The store that is named; one that should be there and is not is refused, with what named it."""
    found = resolved(teller, config, verbose, {"database.dsn": (option, url)})
    return found.settings.database.dsn


def _tell(teller: Teller, found: "Resolved", path: Path | None) -> None:
    from octavo.config.settings import every_setting

    teller.note(
        f"octavo: the settings are those of {path}"
        if path
        else f"octavo: no settings file; {CONFIG} is not here"
    )
    for setting in every_setting():
        if setting.key in found.origins or setting.key == "database.dsn":
            value = setting.shown(getattr(getattr(found.settings, setting.section), setting.name))
            teller.note(f"octavo: {setting.key} is {value} ({found.origin(setting.key)})")
