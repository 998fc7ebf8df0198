"""The options commands share, so that the same word means the same everywhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from octavo.kernel.model import Scope
from octavo.kernel.shapes import SHAPES

F = TypeVar("F", bound=Callable[..., Any])


def voice(command: F) -> F:
    """`--json`, `--quiet` and `--debug`, on every command."""
    for option in (
        click.option("--debug", is_flag=True, envvar="OCTAVO_DEBUG", help="Show the traceback of an error."),
        click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs."),
    ):
        command = option(command)
    return command


def reach(command: F) -> F:
    """Which records are meant."""
    for option in (
        click.option("--session", metavar="NAME", help="Only this session's records."),
        click.option("--agent", metavar="NAME", help="Only this agent's records."),
        click.option("--user", metavar="NAME", help="Only this user's records."),
        click.option("--tenant", metavar="NAME", help="Only this tenant's records. [default: every tenant]"),
        click.option(
            "--collection",
            "collections",
            multiple=True,
            type=click.Choice(tuple(SHAPES)),
            metavar="NAME",
            help="Only this collection; may be given several times. [default: all]",
        ),
    ):
        command = option(command)
    return command


def pace(command: F) -> F:
    """How a move goes, and how an interrupted one goes on."""
    for option in (
        click.option("--restart", is_flag=True, help="Forget an interrupted run and begin again."),
        click.option(
            "--state",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Where to keep how far it has come. [default: a file of this command's own]",
        ),
        click.option(
            "--batch",
            type=click.IntRange(min=1),
            default=1000,
            show_default=True,
            metavar="N",
            help="Records per read and write; fewer when they are large.",
        ),
    ):
        command = option(command)
    return command


def scope(tenant: str | None, user: str | None, agent: str | None, session: str | None) -> Scope | None:
    """The scope the options name; None when none of them was given."""
    if (tenant, user, agent, session) == (None, None, None, None):
        return None
    return Scope(tenant=tenant or "", user=user, agent=agent, session=session)
