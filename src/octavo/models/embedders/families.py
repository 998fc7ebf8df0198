"""What is known of a model by its name: the words it wants in front of a text, and the languages it was made for."""

import hashlib
import re

import msgspec

from octavo.models.embedders.languages import EVERYTHING, Languages

_SEARCH = "Represent this sentence for searching relevant passages: "
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "


class Prefixes(msgspec.Struct, frozen=True):
    """What is put in front of a question, and in front of a thing to find."""

    query: str = ""
    passage: str = ""

    def __call__(self, text: str, *, asking: bool) -> str:
        return (self.query if asking else self.passage) + text

    def overridden(self, query: str | None, passage: str | None) -> "Prefixes":
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
    words = _words(name)
    return next((prefixes for pattern, prefixes in _PREFIXES if re.search(pattern, words)), Prefixes())


def languages_of(name: str) -> Languages | None:
    """The languages of the model's family, or None when the name does not say."""
    words = _words(name)
    return next((languages for pattern, languages in _LANGUAGES if re.search(pattern, words)), None)


def prefix_mark(prefixes: Prefixes, family: Prefixes) -> str:
    """What sets a space apart whose passages have another prefix than their family's."""
    if prefixes.passage == family.passage:
        return ""
    return "#" + hashlib.blake2b(prefixes.passage.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _words(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))
