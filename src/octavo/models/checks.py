"""What models need and what they answer, checked: packages that may be missing, texts in, vectors of unit length out."""

import asyncio
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.kernel.text import pluralize
from octavo.models.languages import Languages
from octavo.util.user_code import translate_errors

T = TypeVar("T")

_MAX_NAME_BYTES = 200  # a space is kept under its name, where names have at most 255 bytes


class NamedEmbedder:
    """What all embedders have in common: the name of their vectors' space, and the languages they read."""

    def __init__(self, name: str, languages: Languages) -> None:
        self._name = check_name(name)
        self._languages = languages

    @property
    def name(self) -> str:
        """Vectors of two names are never compared."""
        return self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"  # never a key

    def reads(self, text: str) -> bool:
        """Whether the text is in a script of these languages."""
        return self._languages.reads(text)


class Model:
    """A model on this machine, in a thread of its own: loaded by the first work, and given back."""

    max_tokens = 512  # of a text; for planning batches
    _loaded: Any = None
    _thread: ThreadPoolExecutor | None = None
    _closed = False

    async def run(self, called: str, work: Callable[[], T]) -> T:
        """Do this with the model loaded, while nothing else runs in its thread."""
        if self._closed:
            raise ModelError(f"{called} was closed; open another")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="octavo-model")
        with translate_errors(f"{called} failed"):
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[], T]) -> T:
        if self._loaded is None:
            self._loaded = self.open()
        return work()

    async def close(self) -> None:
        """Let go of the thread and of what was loaded; a second call does nothing."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.shutdown)  # waits for the batch under way
        self._loaded = None

    def open(self) -> Any:
        """Read what is needed to embed, which may take seconds."""
        raise NotImplementedError

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        """The vectors of one batch."""
        raise NotImplementedError

    def quantized_by_batch(self) -> bool:
        """Whether the weights are int8 with scales taken from each batch, so that its neighbours change a vector."""
        return False


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts as any model can take them: half a surrogate pair, which no tokenizer and no JSON takes, is replaced."""
    if isinstance(texts, str):  # a string is a sequence too: every letter would be embedded by itself
        raise TypeError("embed takes a list of texts, not one string")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"embed takes a list of texts; got {type(text).__name__} in it")
    return [text.encode("utf-8", "replace").decode() for text in texts]


def batches(sizes: Sequence[int], most: int, most_size: int) -> Iterator[list[int]]:
    """The numbers of the texts, shortest first, in groups of at most `most` that stay under `most_size` when padded.

    A batch is padded to its longest text, and padding costs as much as text. A text larger than `most_size` is alone.
    """
    group: list[int] = []
    for number in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and (len(group) >= most or sizes[number] * (len(group) + 1) > most_size):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def tokens_at_most(text: str) -> int:
    """How many tokens a text may have: few tokenizers make more than one of two bytes."""
    return len(text) // 2 + 1 if text.isascii() else len(text.encode()) // 2 + 1


def cut(text: str, tokens: int) -> str:
    """The beginning of a text that surely has no more than so many tokens."""
    if tokens_at_most(text) <= tokens:
        return text
    return text.encode()[: 2 * tokens].decode("utf-8", "ignore")


def check_vectors(rows: Any, count: int, dimensions: int | None = None) -> list[Vector]:
    """A model's answer to `count` texts as vectors of unit length and equal dimensions, or ModelError."""
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        rows = list(rows) if hasattr(rows, "__iter__") and not isinstance(rows, str) else None
    if rows is None or len(rows) != count:
        got = "no list of vectors" if rows is None else pluralize(len(rows), "vector")
        raise ModelError(f"the model was given {pluralize(count, 'text')} and answered {got}")
    found: list[Vector] = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(_unit_vector(row, dimensions or (len(found[0]) if found else None)))
        except ModelError as error:
            raise ModelError(f"text {number} of {count}: {error}") from error.__cause__
    return found


def _unit_vector(row: Any, dimensions: int | None) -> Vector:
    """One answer as a vector of unit length; ModelError when it cannot be one."""
    try:
        values = [float(value) for value in row]
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model answered {type(row).__name__}, not a list of numbers") from error
    if dimensions is not None and len(values) != dimensions:
        raise ModelError(f"the model answered {len(values)} dimensions instead of {dimensions}")
    length = math.hypot(*values)
    if not math.isfinite(length):
        raise ModelError("the model answered a vector with NaN or infinity in it")
    if length == 0:
        raise ModelError("the model answered a vector of nothing but zeros")
    return array("f", [value / length for value in values])


def check_name(name: str) -> str:
    """The name of an embedder's space, once it is known to be one."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("an embedder needs a name: vectors of two names are never compared")
    if len(name.encode("utf-8", "replace")) > _MAX_NAME_BYTES or not name.isprintable():
        raise ConfigError(
            f"an embedder's name has at most {_MAX_NAME_BYTES} bytes, all printable; got {name[:60]!r}…"
        )
    return name


def check_positive(**options: float | None) -> None:
    """Refuse options below what makes sense, by name."""
    for name, number in options.items():
        if number is not None and not number > 0:
            raise ConfigError(f"{name} must be more than 0; got {number!r}")
