"""The items of JSON files, one at a time: a file of gigabytes takes no more memory than its largest item."""

import codecs
import gzip
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from octavo.errors import ConfigError
from octavo.importers.values import Unreadable

_CHUNK = 1 << 20
_MOST_ITEM = 1 << 28  # characters: what is longer is no conversation
_SPACE = " \t\r\n"
# An item that is cut off by the end of what was read looks like one of these, or is wrong at its very end.
_CUT = ("Unterminated string", "Invalid \\", "Invalid control")
_NEAR = 16


@contextmanager
def open_binary(path: Path, inside: str | None = None) -> Iterator[BinaryIO]:
    """A file, uncompressed; `inside` names one of a zip."""
    if inside is not None:
        with zipfile.ZipFile(path) as archive, archive.open(inside) as file:
            yield cast("BinaryIO", file)
    elif path.suffix == ".gz":
        with gzip.open(path, "rb") as unpacked:
            yield cast("BinaryIO", unpacked)
    else:
        with path.open("rb") as file:
            yield file


def find_files(path: Path, *patterns: str) -> list[tuple[Path, str | None, str]]:
    """The files that a source consists of: itself, or those of a folder or a zip with such names; each with the name to show."""
    if path.is_dir():
        found = sorted({each for pattern in patterns for each in path.rglob(pattern) if each.is_file()})
        return [(each, None, each.relative_to(path).as_posix()) for each in found]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if any(Path(n).match(pattern) for pattern in patterns)]
        return [(path, name, f"{path.name}/{name}") for name in sorted(names)]
    return [(path, None, path.name)]


def no_files(path: Path, *patterns: str) -> ConfigError:
    """What to say of a folder or a zip with none of them."""
    return ConfigError(f"{path} holds no {' or '.join(patterns)}")


def items_of(file: BinaryIO, shown: str) -> Iterator[tuple[str, Any]]:
    """The items of a JSON array with their places; of anything else, itself as the only one. Bad JSON ends it as Unreadable."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")()
    text, at, number, ended, wanting = "", 0, 0, False, False
    array: bool | None = None

    def read() -> None:
        nonlocal text, at, ended
        # Twice as much each time: an item that spans many reads is not parsed from its beginning for each of them.
        more = file.read(max(_CHUNK, len(text) - at))
        ended = not more
        text, at = text[at:] + utf8.decode(more, final=ended), 0

    while True:
        while at < len(text) and (text[at] in _SPACE or (array and text[at] == ",")):
            at += 1
        if at == len(text) and ended:
            if array:
                yield shown, Unreadable(f"{shown}, after item {number}", "the file ends in the middle")
            return
        if at == len(text) or wanting:
            wanting = False
            try:
                read()
            except UnicodeDecodeError as error:
                yield shown, Unreadable(f"{shown}, after item {number}", f"it is no UTF-8: {error.reason}")
                return
            continue
        if array is None:
            array = text[at] == "["
            at += array
            continue
        if array and text[at] == "]":
            return
        try:
            item, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith(_CUT) or error.pos >= len(text) - _NEAR
            if cut and not ended and len(text) - at < _MOST_ITEM:
                wanting = True
                continue
            yield (
                shown,
                Unreadable(
                    f"{shown}, item {number + 1}", f"it is no JSON: {error.msg}; nothing after it is read"
                ),
            )
            return
        except RecursionError:
            yield (
                shown,
                Unreadable(
                    f"{shown}, item {number + 1}", "it is nested too deeply; nothing after it is read"
                ),
            )
            return
        number += 1
        at = end
        yield f"{shown}, item {number}", item
        if not array:
            return


def lines_of(file: BinaryIO, shown: str) -> Iterator[tuple[str, int, Any]]:
    """The values of JSON lines with their places and numbers; a line that is no JSON is Unreadable."""
    for number, line in enumerate(file, 1):
        content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not content.strip():
            continue
        place = f"{shown}, line {number}"
        try:
            yield place, number, msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield place, number, Unreadable(place, str(error))
