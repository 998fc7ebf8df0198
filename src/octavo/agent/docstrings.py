"""What a docstring says of a function and of each of its parameters, in any of the three common styles."""

import inspect
import re
from typing import NamedTuple

_GOOGLE = re.compile(r"^(Args|Arguments|Parameters|Params|参数)\s*[:：]\s*$")
_SECTION = re.compile(
    r"^(Returns?|Raises|Yields|Examples?|Notes?|Attributes|Warnings?|See Also|References|Todo|返回|返回值|示例|异常)"
    r"\s*[:：]?\s*$"
)
_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*[:：]\s*(.*)$")
_FIELD = re.compile(r"^:(param|parameter|arg|argument)\s+(?:[^:]+\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_OTHER_FIELD = re.compile(r"^:(returns?|rtype|raises?|type|yields?)\b")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")


class Described(NamedTuple):
    """The words for the model: what the function is for, and what each parameter means."""

    summary: str
    parameters: dict[str, str]


def described(docstring: str | None) -> Described:
    """Read Google's `Args:`, NumPy's underlined `Parameters` and Sphinx's `:param x:`."""
    said: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, item, margin = "", "", 0
    lines = inspect.cleandoc(docstring or "").splitlines()
    for number, line in enumerate(lines):
        words, indent = line.strip(), len(line) - len(line.lstrip())
        below = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if indent == 0 and below and set(below) == {"-"}:
            section, item = "numpy" if words == "Parameters" else "other", ""
        elif indent == 0 and _GOOGLE.match(words):
            section, item, margin = "google", "", 0
        elif indent == 0 and _SECTION.match(words):
            section, item = "other", ""
        elif field := _FIELD.match(words):
            section, item, margin = "sphinx", field[2], indent
            parameters[item] = [field[3]]
        elif _OTHER_FIELD.match(words):
            section, item = "other", ""
        elif section == "":
            said.append(line)
        elif section == "google":
            margin = margin or indent
            if indent == 0 and words:  # the section has ended and prose goes on
                section, item = "", ""
                said.append(line)
            elif indent <= margin and (found := _ITEM.match(words)):
                item = found[1]
                parameters[item] = [found[2]]
            elif item:
                parameters[item].append(words)
        elif section == "numpy":
            if indent == 0 and (found := _NUMPY_ITEM.match(words)):
                item = found[1]
                parameters[item] = []
            elif item and set(words) != {"-"}:
                parameters[item].append(words)
        elif section == "sphinx" and item and indent > margin:
            parameters[item].append(words)
    return Described(
        "\n".join(said).strip(),
        {name: " ".join(" ".join(words).split()) for name, words in parameters.items()},
    )
