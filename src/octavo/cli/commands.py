"""The command `octavo`: which commands it has, and in which module each is; one is imported when it is called."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

from octavo import __version__

#: name → its module and the first sentence of its help, as `--help` lists them: first those that everybody needs.
_COMMANDS = MappingProxyType({
    "add": ("memory", "Remember TEXT and the facts in it."),
    "search": ("memory", "Find what answers QUESTION, of all that is kept."),
    "context": ("memory", "Print what is known as a block for a prompt."),
    "list": ("facts", "List the facts known about somebody, the newest first."),
    "show": ("facts", "Show one memory, its history and its sources."),
    "history": ("facts", "Show what was changed, when and why, the newest first."),
    "undo": ("facts", "Take back the last change of a memory, or many changes."),
    "delete": ("facts", "Remove a memory; that can be undone."),
    "allow": ("facts", "Let what a memory said be learnt again."),
    "forget": ("memory", "Erase for good what belongs to somebody."),
    "prune": ("facts", "Remove what has expired, and what is not kept any longer."),
    "serve": ("serve", "Serve memories, events and logs over HTTP."),
    "keys": ("serve", "Make, list and revoke API keys of the server."),
    "mcp": ("serve", "Serve memory over MCP on stdin and stdout."),
    "events": ("events", "Look at the events of agents, search, count, prune and move them."),
    "vault": ("reindex", "Look after Markdown documents that are files and records at once."),
    "queue": ("queue", "Look after writes that could not be stored."),
    "copy": ("transfer", "Copy every record of SOURCE into TARGET, or into the store of --store."),
    "export": ("transfer", "Write every record of a store to a file of JSON lines, or its facts to a folder of Markdown."),
    "import": ("transfer", "Add everything of SOURCE to a store: an exported file, or what another program keeps."),
    "reindex": ("reindex", "Build anew what a store is searched by."),
    "bench": ("bench", "Measure how well memory works, on your own data."),
    "doctor": ("doctor", "Say what a store is and what is dangerous about it."),
    "stores": ("doctor", "List the stores a URL can name."),
    "completion": ("doctor", "Print the script that lets a shell complete commands and options."),
})  # fmt: skip


_WORDS = "octavo.words"  # in click's context: what the command was called with


class _InOrder(click.Group):
    """Lists its commands in the order in which they were added: first those that everybody needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        with _telling_programs(words := list(args)):
            context = super().make_context(info_name, args, *more, **extra)
            context.meta[_WORDS] = words
            return context

    def invoke(self, ctx: click.Context) -> Any:
        with _telling_programs(ctx.meta[_WORDS]):
            return super().invoke(ctx)


@contextmanager
def _telling_programs(words: list[str]) -> Iterator[None]:
    """With `--json`, let stdout have its document also where a command was not called as it can be."""
    try:
        yield
    except click.UsageError as error:
        if "--json" in words:
            from octavo.cli.command import echo, format_json  # lists need none of it

            echo(format_json({"ok": False, "error": error.format_message(), "kind": "UsageError"}))
        raise


class _NotImported(click.Command):
    """Stands for a command in lists; called, it imports the module, which puts the command itself in this place."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return _import_command(self.name or "").make_context(info_name, args, parent, **extra)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="octavo", message="%(prog)s %(version)s")
def root() -> None:
    """Remember, find again, and look after an agent's memory.

    The store is sqlite:///octavo.db in this folder, unless OCTAVO_URL or the settings name another:
    file:///folder, postgresql://user:password@host/database, mysql://…, redis://… `octavo stores` lists them.

    \b
    Example: octavo add "I live in Berlin and I am allergic to peanuts."

    Exit status: 0 is well, 1 is failed or found wrong, 2 is a mistake in what was asked, 130 is interrupted.
    """


root.commands = {name: _NotImported(name, help=about) for name, (_, about) in _COMMANDS.items()}
octavo = root


def import_commands() -> click.Group:
    """The root with every command imported, for who reads the options of all."""
    for name in _COMMANDS:
        _import_command(name)
    return root


def _import_command(name: str) -> click.Command:
    import_module(f"octavo.cli.{_COMMANDS[name][0]}")
    return root.commands[name]
