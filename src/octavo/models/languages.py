"""What is known of a model by its name: the words it wants in front of a text, and the languages it was made for.

Whether it can read a text is judged by the script that is written in: cheap, and enough to keep English models from voting
on Chinese.
"""

import functools
import hashlib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from octavo.errors import ConfigError

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
