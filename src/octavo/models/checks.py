"""What models need and what they answer, checked: packages that may be missing, texts in, vectors of unit length out.

And what is known of a model by its name: the words it wants in front of a text, and the languages it was made for. Whether it
can read a text is judged by the script that is written in: cheap, and enough to keep English models from voting on Chinese.
"""

import asyncio
import functools
import hashlib
import itertools
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.kernel.text import pluralize
from octavo.util.user_code import translate_errors

#: How scripts are called in the names that Unicode gives their letters, where that is not their own name.
_CALLED = {"cjk": "han", "ideographic": "han", "bopomofo": "han", "hiragana": "kana", "katakana": "kana"}
_LETTERS_IN_A_WORD = {"han": 2, "kana": 3, "thai": 4}  # they put no spaces between words
_LETTERS = re.compile(r"[^\W\d_]+")

#: The scripts of languages; what is not listed is written in Latin letters.
_WRITTEN_IN = {
    "zh": ("han",), "yue": ("han",), "ja": ("han", "kana"), "ko": ("hangul",), "sr": ("cyrillic", "latin"),
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "kk", "mn"), ("cyrillic",)), "el": ("greek",),
    **dict.fromkeys(("ar", "fa", "ur"), ("arabic",)), **dict.fromkeys(("he", "yi"), ("hebrew",)),
    **dict.fromkeys(("hi", "mr", "ne"), ("devanagari",)), "bn": ("bengali",), "ta": ("tamil",), "te": ("telugu",),
    "th": ("thai",), "ka": ("georgian",), "hy": ("armenian",),
}  # fmt: skip

_SAMPLE = 2000  # letters looked at: models read no more of a text than its beginning either
_FOREIGN = 0.3  # a name or a quotation in another script is fine; a third of the words is another language


class Languages(msgspec.Struct, frozen=True):
    """The scripts a model was made for; None means all."""

    scripts: frozenset[str] | None = None

    @classmethod
    def of(cls, codes: str | Iterable[str] | None) -> Self:
        """From ISO 639 codes, such as "en,zh" or ["en", "zh-CN"]; "any" is every language, and so is None."""
        if codes is None:
            return cls()
        listed = codes.split(",") if isinstance(codes, str) else list(codes)
        scripts: set[str] = set()
        for code in (code.strip().lower() for code in listed):
            if code == "any":
                return cls()
            if not re.fullmatch(r"[a-z]{2,3}([-_].*)?", code):
                raise ConfigError(
                    f"languages: {code!r} is not an ISO 639 code such as 'en' or 'zh'; 'any' means all"
                )
            scripts.update(_WRITTEN_IN.get(re.split("[-_]", code)[0], ("latin",)))
        return cls(frozenset(scripts))

    def reads(self, text: str) -> bool:
        """Whether at least most words of the text are in these scripts; what has no letters is read by all."""
        if self.scripts is None or (text.isascii() and "latin" in self.scripts):
            return True
        words: Counter[str] = Counter()
        for script, letters in _words(text[:_SAMPLE]):
            words[script] += -(-letters // _LETTERS_IN_A_WORD.get(script, letters))
        strange = sum(count for script, count in words.items() if script not in self.scripts)
        return strange < _FOREIGN * words.total() or not strange


EVERYTHING = Languages()


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Each run of letters of one script: which script, and how many."""
    for run in _LETTERS.findall(text):
        for script, letters in itertools.groupby(run, _script):
            yield script, len(list(letters))


@functools.lru_cache(maxsize=20_000)
def _script(letter: str) -> str:
    """The script of a letter, by the name that Unicode gives it."""
    name = unicodedata.name(unicodedata.normalize("NFKC", letter)[0], "")
    first = re.split("[ -]", name.lower(), maxsplit=1)[0]
    return _CALLED.get(first, first)


# By name.

_SEARCH = "Represent this sentence for searching relevant passages: "
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "


class Prefixes(msgspec.Struct, frozen=True):
    """What is put in front of a question, and in front of a thing to find."""

    query: str = ""
    passage: str = ""

    def __call__(self, text: str, *, asking: bool) -> str:
        return (self.query if asking else self.passage) + text

    def override(self, query: str | None, passage: str | None) -> "Prefixes":
        """These, except where others are given; an empty string is given too."""
        return Prefixes(self.query if query is None else query, self.passage if passage is None else passage)


# The first pattern found in the name wins. A "word" of a name ends at any character but a letter or a digit.
_PREFIXES = (
    (r"\be5\b.*\binstruct\b|\bqwen3 embedding\b", Prefixes(_TASK)),
    (r"\be5\b", Prefixes("query: ", "passage: ")),
    (r"\bbge (small|base|large) zh\b", Prefixes("为这个句子生成表示以用于检索相关文章：")),
    (r"\bbge (small|base|large) en\b|\bmxbai embed\b", Prefixes(_SEARCH)),
    (r"\barctic embed\b.* v2\b", Prefixes("query: ")),
    (r"\barctic embed\b", Prefixes(_SEARCH)),
    (r"\bnomic embed text\b", Prefixes("search_query: ", "search_document: ")),
    (r"\bembeddinggemma\b", Prefixes("task: search result | query: ", "title: none | text: ")),
)  # fmt: skip

_MULTILINGUAL = (
    r"\bmultilingual\b|\bbge m3\b|\bembeddings v[3-9]\b|\bembeddinggemma\b|\bqwen3 embedding\b|\bsiglip2\b"
    r"|\barctic embed\b.* v2\b"
)
_ENGLISH = (
    r"\ben\b|\benglish\b|\be5\b|\ball minilm\b|\bgte (small|base|large)\b|\bnomic embed text v1\b|\bmxbai embed\b"
    r"|\barctic embed\b|\bpotion (base|retrieval)\b|\bconstella\b|\bjina clip v1\b|\bclip vit b 32\b"
)
_LANGUAGES = (
    (_MULTILINGUAL, EVERYTHING),
    (r"\bjina embeddings v2 base zh\b", Languages.of("zh,en")),
    (r"\bjina embeddings v2 base (de|es|code)\b", Languages.of("en")),  # judged by script, and all are Latin
    (r"\bzh\b|\bchinese\b", Languages.of("zh")),
    (_ENGLISH, Languages.of("en")),
)


def prefixes_of(name: str) -> Prefixes:
    """The prefixes of the model's family; none for a family that wants none, or that is not known."""
    words = _name_words(name)
    return next((prefixes for pattern, prefixes in _PREFIXES if re.search(pattern, words)), Prefixes())


def languages_of(name: str) -> Languages | None:
    """The languages of the model's family, or None when the name does not say."""
    words = _name_words(name)
    return next((languages for pattern, languages in _LANGUAGES if re.search(pattern, words)), None)


def prefix_mark(prefixes: Prefixes, family: Prefixes) -> str:
    """What sets a space apart whose passages have another prefix than their family's."""
    if prefixes.passage == family.passage:
        return ""
    return "#" + hashlib.blake2b(prefixes.passage.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _name_words(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


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
