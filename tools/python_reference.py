"""Pages of docs/reference/python, made from signatures and docstrings; `tools/reference.py` writes them."""

# ruff: noqa: INP001 - beside a script, in no package

import importlib
import importlib.util
import inspect
import re
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

#: Module → whose names are told: those of its `__all__`, or these of modules below it. One that is not there has no page.
MODULES: dict[str, tuple[str, ...]] = {
    "octavo": (),
    "octavo.memory": (),
    "octavo.layers": (),
    "octavo.chat": (),
    "octavo.events": (),
    "octavo.agent": (),
    "octavo.conversation": (),
    "octavo.service": (),
    "octavo.service.vault": (),
    "octavo.search": ("recall:Recall", "hits:Hit", "hits:Recalled", "hits:Context"),
    "octavo.client": (),
    "octavo.config": (),
    "octavo.server": (),
    "octavo.wraps": (),
    "octavo.vectors": (),
    "octavo.models": (),
    "octavo.transfer": (),
    "octavo.testing": (),
}
_LONGEST = 40  # characters of a default value
_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z_])|\bdatetime\.(?=datetime|timedelta)")


def pages(made: str) -> dict[str, str]:
    """Every page by its name, and the one that lists them; `made` says what they are made by."""
    found = {}
    for name in MODULES:
        if importlib.util.find_spec(name) is not None:
            found[f"{name}.md"] = _page(name, made)
    rows = [
        f"| [{name.removesuffix('.md')}]({name}) | {_first(importlib.import_module(name.removesuffix('.md')))} |"
        for name in found
    ]
    about = "Every public name with its signature and what it promises, module by module."
    listed = ["# Python", "", f"{about} {made}", "", "| module | |", "|---|---|", *rows]
    return {"README.md": "\n".join(listed) + "\n", **found}


def _page(name: str, made: str) -> str:
    module = importlib.import_module(name)
    lines = [f"# {name}", "", _text(module), "", made]
    for title, value in _names(module):
        lines += ["", f"## {title}", "", *_told(title, value)]
    return "\n".join(lines) + "\n"


def _names(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module, with what they stand for."""
    for each in MODULES[module.__name__] or module.__all__:
        place, _, name = each.rpartition(":")
        home = importlib.import_module(f"{module.__name__}.{place}") if place else module
        if hasattr(home, name):
            yield name, getattr(home, name)


def _told(title: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return _class(title, value)
    if callable(value) and not hasattr(value, "__origin__"):
        return [f"`{_call(title, value)}`", "", _text(value)]
    shown = _type(value) if hasattr(value, "__args__") else _shown(value, 400)
    return [f"`{shown}`" if shown != "…" else f"A {type(value).__name__}."]


def _class(title: str, cls: type) -> list[str]:
    plain = issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False)
    call = f"`{title}`" if plain else f"`{_call(title, cls)}`"
    lines = [call, "", _text(cls)]
    rows = [*_keys(cls), *_members(cls)]
    return [*lines, "", "| | |", "|---|---|", *rows] if rows else lines


def _keys(cls: type) -> Iterator[str]:
    """What a dictionary of the class holds."""
    if typing.is_typeddict(cls):
        yield from (
            f"| `{name}` | {_cell(f'`{_type(kind)}`')} |" for name, kind in cls.__annotations__.items()
        )


def _members(cls: type) -> Iterator[str]:
    """Its public methods and properties with what each promises; of twins, the awaited one is named beside the plain one."""
    if hasattr(cls, "__members__"):
        yield from (f"| `{name}` | `{member.value!r}` |" for name, member in cls.__members__.items())
        return
    members: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("octavo"):
            for name, member in vars(base).items():
                members.setdefault(name, member)
    for name, member in members.items():
        method = getattr(cls, name) if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or (name[0] == "a" and inspect.isfunction(members.get(name[1:]))):
            continue
        if isinstance(method, property):
            yield f"| `{name}` | {_cell(_first(method))} |"
        elif inspect.isroutine(method):
            twin = f"; awaited: `a{name}`" if inspect.isfunction(members.get(f"a{name}")) else ""
            awaited = "await " if inspect.iscoroutinefunction(inspect.unwrap(method)) and not twin else ""
            call = _call(name, method, bound=not isinstance(member, classmethod | staticmethod))
            yield f"| {_cell(f'`{awaited}{call}`')} | {_cell(_first(method))}{twin} |"


def _call(name: str, value: Any, *, bound: bool = False) -> str:
    """How it is called: names, types and defaults, without what stands for the object itself."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [*signature.parameters.values()][1 if bound else 0 :]
    shown, starred = [], False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        shown.append(f"{stars}{each.name}{kind}{default}")
    empty = signature.return_annotation in (signature.empty, None, "None")
    answer = "" if empty or inspect.isclass(value) else f" -> {_type(signature.return_annotation)}"
    return f"{name}({', '.join(shown)}){answer}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _QUALIFIED.sub("", text).replace("~", "").replace("NoneType", "None")


def _shown(value: Any, most: int = _LONGEST) -> str:
    text = _QUALIFIED.sub("", " ".join(repr(value).split()))
    return "…" if " at 0x" in text or len(text) > most else text.replace("<factory>", "…")


def _text(value: Any) -> str:
    """Its docstring, each paragraph in one line, lists and code as they stand."""
    parts = (inspect.getdoc(value) or "").split("\n\n")
    kept = [
        part if re.search(r"^(    |[-*] |\d\. )", part, re.MULTILINE) else " ".join(part.split())
        for part in parts
    ]
    return "\n\n".join(kept)


def _first(value: Any) -> str:
    """What its docstring promises in its first paragraph."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
