"""Write docs/reference from the code: `python tools/reference.py`, or with --check only say whether it is current."""

# ruff: noqa: INP001, T201 - a script, in no package, that tells what it did

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from octavo.cli.commands import import_commands
from octavo.config import Server, Settings
from octavo.config.setting import settings_of
from octavo.config.settings import SECTIONS, spell_yaml
from octavo.server import create_app

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import python_reference  # noqa: E402 - beside this script

octavo = import_commands()

FOLDER = ROOT / "docs" / "reference"
LLMS = "../../llms.txt"
_NO_PROSE = ("#", "|", "<", "!", ">", "[中文](", "[English](", "    ", "\n    ")
MADE = "Made from the code by `make docs`; a change here is lost."


def main(arguments: list[str]) -> int:
    """Write every page, or compare it with what is there; 1 when something differs."""
    document = openapi()
    pages = {
        "settings.md": settings(),
        "commands.md": commands(),
        "endpoints.md": endpoints(document),
        "openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        **{f"python/{name}": text for name, text in python_reference.pages(MADE).items()},
    }
    pages[LLMS] = llms(pages)
    different = [name for name, text in pages.items() if _kept(name) != text]
    if "--check" in arguments:
        for name in different:
            place = "llms.txt" if name == LLMS else f"docs/reference/{name}"
            print(f"{place} is not what the code says; run `make docs`")
        return 1 if different else 0
    (FOLDER / "python").mkdir(parents=True, exist_ok=True)
    for name in different:
        (FOLDER / name).write_text(pages[name], encoding="utf-8")
    print(f"docs/reference: {len(pages)} files, {len(different)} changed")
    return 0


def _kept(name: str) -> str | None:
    return (FOLDER / name).read_text(encoding="utf-8") if (FOLDER / name).exists() else None


def llms(pages: dict[str, str]) -> str:
    """The map of the documentation for a model to read: each page of docs/README.md with its title and what it begins with."""
    about = re.search(r'^description = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    lines = ["# Octavo", "", f"> {about[1] if about else ''}"]
    seen = set()
    for part in re.split(
        r"^## ", (ROOT / "docs" / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    ):
        heading, _, body = part.partition("\n")
        lines += ["", f"## {'Begin here' if heading.startswith('#') else heading}", ""]
        for target in re.findall(r"\]\(([^)#\s]+\.md)\)", body):
            path = (ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix()
            if path not in seen:
                seen.add(path)
                text = pages.get(path.removeprefix("docs/reference/")) or (ROOT / path).read_text(
                    encoding="utf-8"
                )
                lines.append(f"- [{_title(text)}]({path}): {_opening(text)}")
    return "\n".join(lines) + "\n"


def _title(page: str) -> str:
    return page.partition("\n")[0].lstrip("# ")


def _opening(page: str) -> str:
    """The first sentence of a page, without links, or none where it begins with something else."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    prose = next(
        (each for each in text.split("\n\n")[1:] if each.strip() and not each.startswith(_NO_PROSE)), ""
    )
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split())).removeprefix(MADE).strip()
    return re.split(r"(?<=\.)\s|(?<=。)", plain, maxsplit=1)[0].rstrip(":")


def openapi() -> dict[str, Any]:
    """What the server says of itself at /openapi.json when callers need a key."""
    return create_app(Settings(server=Server(auth="on"))).openapi()


def settings() -> str:
    """Every setting: in the file, in the environment, what it may be, its default and why."""
    lines = [
        "# Settings",
        "",
        f"{MADE} How they are read is told in [configuration.md](../configuration.md).",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"## {name}", "", _cell(section.about()), ""]
        lines += ["| setting | default | may be | why |", "|---|---|---|---|"]
        lines += [
            f"| `{each.key}`<br>`{each.variable}` | `{spell_yaml(each.default)}` | {_cell(each.expected)} | {_cell(each.why)} |"
            for each in settings_of(section)
        ]
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Every command with its arguments and options, in the order `octavo --help` lists them."""
    every = list(tree(octavo, octavo.make_context("octavo", [], resilient_parsing=True, terminal_width=100)))
    shared = _shared([(command, context) for _, command, context in every])
    lines = [
        "# Commands",
        "",
        f"{MADE} `octavo COMMAND --help` says the same; `python -m octavo` is `octavo`.",
        "",
    ]
    lines += [
        "Every command that does something takes these:",
        "",
        "| | default | |",
        "|---|---|---|",
        *shared,
    ]
    for name, command, context in every:
        lines += ["", f"{'#' * min(len(name.split()) + 1, 3)} {name}", ""]
        lines += [_told(command), "", "```text", command.get_usage(context), "```"]
        rows = [row for each in command.params if (row := _row(each, context)) not in shared]
        if table := [row for row in rows if row]:
            lines += ["", "| | default | |", "|---|---|---|", *table]
    return "\n".join(lines) + "\n"


def tree(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """This command and all below it, each with its whole name and a context to ask it in."""
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from tree(below, click.Context(below, info_name=name, parent=context))


def _shared(every: list[tuple[click.Command, click.Context]]) -> list[str]:
    """The options that all commands have which have no commands below them."""
    rows = [
        [_row(each, context) for each in command.params]
        for command, context in every
        if not isinstance(command, click.Group)
    ]
    return [row for row in rows[0] if row and all(row in others for others in rows)]


def _told(command: click.Command) -> str:
    """The help, with the lines that its author wrapped joined, and its examples and other set lines as code."""
    parts = []
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = part.removeprefix("\b").strip().splitlines()
        if "Example: " in part:
            shown = [f"`{line.replace('Example: ', '').strip()}`" for line in lines]
            parts.append(f"Example: {', '.join(shown)}")
        elif part.startswith("\b"):
            parts.append("\n".join(["```text", *lines, "```"]))
        else:
            parts.append(_cell(part))
    return "\n\n".join(parts)


def _row(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Argument):
        needed = "" if parameter.required else "may be left out"
        variable = f" (`{parameter.envvar}`)" if parameter.envvar else ""
        return f"| `{parameter.human_readable_name}`{variable} | | {needed} |"
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return ""
    words = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    if not parameter.is_flag and not parameter.count:
        words += f" {_cell(parameter.make_metavar(context))}"
    variable = f" (`{parameter.envvar}`)" if parameter.envvar else ""
    default = parameter.to_info_dict().get("default")
    plain = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    return f"| {words}{variable} | {f'`{default}`' if plain else ''} | {_cell(parameter.help or '')} |"


def endpoints(document: dict[str, Any]) -> str:
    """Every route of the server with what it takes and what it answers; what all refusals mean is said once."""
    routes = [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    refusals = {
        status: each["description"]
        for _, operation in routes
        for status, each in operation["responses"].items()
        if status != "200"
    }
    lines = [
        "# Endpoints",
        "",
        f"{MADE} The server has the same at `/docs`, and [openapi.json](openapi.json) at `/openapi.json`.",
        "How to run it, and who may call what, is told in [server.md](../server.md).",
        "",
        'A refusal is `{"detail": …, "code": …}`: a sentence, and the word that stands before its meaning here:',
        "",
        "| status | means |",
        "|---|---|",
        *(f"| {status} | {_cell(refusals[status])} |" for status in sorted(refusals)),
    ]
    for name, operation in routes:
        lines += ["", f"## {name}", "", _sentence(operation)]
        if rows := [_parameter(each, document) for each in operation.get("parameters", [])]:
            lines += ["", "| parameter | in | default | |", "|---|---|---|---|", *rows]
        if body := _schema(operation.get("requestBody", {}), document):
            lines += ["", "| in the body | default | |", "|---|---|---|", *_fields(body, document)]
        lines += ["", _answer(operation["responses"], document)]
    return "\n".join(lines) + "\n"


def _sentence(operation: dict[str, Any]) -> str:
    return " ".join((operation.get("description") or operation.get("summary") or "").split())


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _schema(content: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    json_content = content.get("content", {}).get("application/json", {})
    return _resolved(json_content.get("schema", {}), document)


def _parameter(parameter: dict[str, Any], document: dict[str, Any]) -> str:
    schema = _resolved(parameter.get("schema", {}), document)
    default = (
        f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if schema.get("default") is not None else ""
    )
    what = " ".join(filter(None, (parameter.get("description", ""), f"({_kind(schema, document)})")))
    return f"| `{parameter['name']}` | {parameter['in']} | {default} | {_cell(what)} |"


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    rows = []
    for name, raw in schema.get("properties", {}).items():
        field = _resolved(raw, document)
        default = "needed" if name in schema.get("required", []) else ""
        if not default and field.get("default") is not None:
            default = f"`{json.dumps(field['default'], ensure_ascii=False)}`"
        what = " ".join(filter(None, (raw.get("description", ""), f"({_kind(field, document)})")))
        rows.append(f"| `{name}` | {default} | {_cell(what)} |")
    return rows


def _kind(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """The type of a value, in few words."""
    schema = _resolved(schema, document)
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_kind(each, document) for each in several))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), document)}"
    kind = schema.get("type", "any value")
    return f"{kind}, {schema['format']}" if "format" in schema else str(kind)


def _answer(responses: dict[str, Any], document: dict[str, Any]) -> str:
    """What a route answers when all is well, and with what it may refuse."""
    schema = _schema(responses["200"], document)
    kinds = [_resolved(each, document) for each in schema.get("anyOf", [schema])]
    told = " or ".join(", ".join(f"`{name}`" for name in kind.get("properties", {})) for kind in kinds)
    refusals = ", ".join(status for status in responses if status != "200")
    return (
        f"Answers {told or _kind(schema, document)}. Refuses with {refusals}."
        if refusals
        else f"Answers {told}."
    )


def _cell(text: str) -> str:
    """Text that stands in one cell of a table, or in one paragraph, as it is."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
