"""What is asked of memory: the terms, parts and times of a question, and which records may answer it at all."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.model import Query, Scope
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.dates import DayRange, relative_spans, spans
from octavo.kernel.terms.english import STOP_WORDS
from octavo.kernel.terms.terms import simplify, terms
from octavo.kernel.terms.topics import topics
from octavo.kernel.text import lazy_pattern
from octavo.search.alike import words_of
from octavo.search.subject import asks_own, persons_in

MOST_TERMS = 600  # of one question; what comes after a thousand characters seldom changes what is meant
MOST_CHARACTERS = 4000
_ENDS = r"[。！？!?；;\n]+|\.(?=\s|$)|另外|还有，|此外|\balso,"
# Why it is asked: "who are my housemates, need it for the tax form"
_REASON = lazy_pattern(
    r",\s*(?:i )?(?:need|filling|gotta|have to|trying to)\b[^?？.]*$|[，,](?:我?要填|填|急用|急着|我又忘)[^，？?。]*$",
    re.IGNORECASE,
)
_SENTENCE = lazy_pattern(rf".+?(?:{_ENDS}|\Z)", re.IGNORECASE | re.DOTALL)
# Words that shape a question rather than name what it is about.
_ASKING = (
    "kind kinds type types sort sorts many much often ever also likely might may one ones someone something anyone "
    "anything everyone everything user user's users ok whats whos whens wheres hows whys"
)
_CARRIERS = lazy_pattern(
    rf"(?<![\w'])(?:(?:what|which) (?:time|day|date)|{'|'.join(sorted((*STOP_WORDS, *_ASKING.split()), key=len, reverse=True))})(?![\w'])",
    re.IGNORECASE,
)
_ASKING_CHINESE = lazy_pattern(
    "用户|什么时候|什么|多大|几岁|多久|多少|怎么样|怎么|哪里|哪儿|哪些|哪个|哪种|吗|呢|我们|我|你|您|请问|告诉|啥|咩|乜|咋|边度|几时"
)
_USER = lazy_pattern("用户|使用者")
_PERSONAL = lazy_pattern(
    r"(?<!\w)(?:i|i'm|my|me|mine|we|our|us|user|user's)(?!\w)|我|俺|咱|用户|本人", re.IGNORECASE
)
# A sentence that asks, among others that only stand around it.
_ASKS = lazy_pattern(
    r"[?？]\s*$|吗|呢|什么|多少|多大|多久|怎么|怎样|如何|是否|哪|几|谁|啥|咩|乜|咋|边[个度行间]|来着$|(\w)[不没]\1|(?:[不没]|没有|伐|嘛)\W*$"
    r"|^\W*(?:(?:anyway|actually|so|and|but|btw|hey|hi|ok|okay|also|lo+l+|u+m+|u+h+|h+m+|o+h+|ugh|omg|well|right|now|wait|sorry|yo|bro|mate|dude|quick|quickly|question|one)\W+)*"
    r"(?:(?:on|in|at|to|for|from|with|by|of|about|until|since) (?=wh|how))?(?:(?:who|whom|whose|what|when|where|why|how)'?s?|which|do|does|did|have|has|am|is|are|was|were|can|could|tell|remind|refresh|name of)\b"
    r"|\b(?:what|who|when|where|how much|how many|how old)\W*$|\bremind me\b|\b(?:forget|forgot|(?:can(?:'?t|not)|don'?t) (?:remember|recall)|any idea) (?:what|who|when|where|which|how|if|my)\b",
    re.IGNORECASE,
)
# A sentence that only asks, or asks for something to be done: it tells nothing.
_ONLY_ASKS = lazy_pattern(
    r"[?？]\s*$|(?:吗|伐|嘛|不|没|没有)[~～。!！]*$|(?:什么|多少|怎么|怎样|如何|哪|几点|几分钟|谁|啥|咩|乜|咋|点[讲样解]|边[个度]|是不是|有没有|能不能)(?![^，,]*[都也])[^，,]{0,15}$|^\W*(?:请|帮|给我|替我|推荐|翻译(?:一?下|成|这))"
    r"|^\W*(?:(?:hey|hi|ok|okay|so|and|also|btw|please|pls|um)\W+)*"
    r"(?:(?:what|how)(?:'?s)?(?! an?\b)|why|which|(?:who|when|where)(?:'?s| (?:is|are|was|were|do|does|did|can|should|will))|can|could|would|give|show|help|write|translate|suggest|recommend|explain|tell|check|please|(?:make|draw|find|get) me|top \d+|(?:is|are) (?:it|there|you))\b",
    re.IGNORECASE,
)
# Who asks for what is so now asks for the last that was told: "Where am I living these days?"
_NOW = lazy_pattern(
    r"\b(?:now|nowadays|currently|current|these days|at the moment|at present|anymore|any more|latest)\b|现在|目前|如今|眼下|而家|宜家",
    re.IGNORECASE,
)
# All that is left of a question that asks for everything: "What do you know about me?", 你了解我什么.
_OVERVIEW = lazy_pattern(
    r"(?<!\w)(?:know|known|knew|remember|remembered|recall|tell|told|say|said|sum|up|summary|summarise|summarize|describe"
    r"|profile|all|actually|far|learn|learned|learnt|so|please|got|still|myself|overview|facts?|list|recap|picture|everything"
    r"|stored?|saved|kept|keeping|shared?|mentioned|talk|talked|memory|memories|info|information|rundown|outline|gist|impression|introduce|reckon|notes?|noted|hold|gathered|abt)(?!\w)"
    "|了解|知道|晓得|清楚|认识|记得|记住|记录|记下|记了|印象|掌握|关于|介绍|概括|概述|总结|描述|念叨|说说|聊聊|讲讲|说过|讲过|聊过|提过|全部|所有|一切"
    "|资料|档案|画像|信息|情况|样的人"
)
# Or it is about nobody else, whatever its words are: "Who am I?", 我都告诉过你什么.
_WHO = lazy_pattern(
    r"\bwho (?:am i|i am|is the user|the user is)\b|\bwhat (?:kind|sort|type) of (?:person|man|woman|human|guy) (?:am i|is the user)\b"
    r"|who do you think i am|\bon (?:file|record)\b|\b(?:have|hold|got|gathered) (?:on|about|of) (?:me|the user)\b|我是谁|用户是谁|告诉过|眼[中里]的我|怎么看我"
)
_AROUND_OVERVIEW = lazy_pattern(
    r"(?<!\w)(?:according|dear|things?|give|show|remind|person|man|woman|human|guy|briefly|short|quick|quickly|already|again|kindly|even|few|u|whats|file|records?|think|well|chats?|conversations?|words?|sentences?|assistant)(?!\w)"
    "|方面|到现在|眼里|眼中|简单|大概|基本|个人|觉得|认为|之前|以前|目前|这儿|那儿|这里|那里|列出来|列|存|留下|自己|一遍|一?[人事样都还对些就的了是在多少个下帮请给把说讲看和过会里这有做吧呀不跟谁]"
)
# Who asks for this does not ask where somebody lives.
_LIVELIHOOD = lazy_pattern(
    r"\b(?:for|makes?|made|earns?|earned) (?:a|my|his|her|their) living\b|(?<=\bwhat )(?:do i|do we|does the user) do(?=\W*$)"
    r"|(?<=\bhow )(?:do|does|did) (?:\S+ ){1,3}?(?:earn|make)(?: (?:my|his|her|their|the|an?|some|any|extra|more))* (?:wages?|money|bread|crust|keep|cash|pay)\b"
    "|[靠凭](?:什么|啥|乜嘢?)(?:手艺)?(?:[挣赚]钱|吃饭|揾食|谋生|生活|过活)",
    re.IGNORECASE,
)
_MOTHER_TONGUE = lazy_pattern(r"\bmother(?:'s)? tongue", re.IGNORECASE)
# Python is no language that somebody speaks.
_PROGRAMMING = lazy_pattern(
    r"\b(?:programming|coding|computer) languages?\b|(?:编程|程序|开发)语言", re.IGNORECASE
)
_DATE_SIGNS = lazy_pattern(r"(?<=\d)\s*[年月日号]")  # every date has them
_FEWEST = 3  # terms of a part that is asked by itself
_ONE_WORD = 2  # Chinese characters
_END_BYTES = 100  # at least, of the end of a text; a Chinese character has three
_SINGLE_WORDS = 2  # at most; more are a question without its verb


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. A question of several sentences is also asked part by part, so that each is answered."""

    text: str
    asked: str = ""  # the one sentence that asks, after small talk or alone
    ending: str = ""  # what is said at the end of a text that goes on and does not end with a question
    terms: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...] = ()  # where the terms of each part stand among all terms
    aside: frozenset[int] = frozenset()  # terms of the small talk around what is asked
    words: tuple[str, ...] = ()  # what it asks for, to be told in other words
    spans: tuple[DayRange, ...] = ()  # the times it names
    asks: bool = True  # it is a question, and not something said to see what belongs to it
    now: bool = False  # it asks for what is so now
    overview: bool = False  # it asks for whatever is known
    personal: bool = False  # it names the person whose memory it is asked of
    own: bool = False  # it asks about that person, and nobody else
    named: frozenset[int] = frozenset()  # terms by which it calls somebody else that it asks about

    @classmethod
    def of(cls, text: str, at: datetime) -> "Question":
        """Read a question asked at that moment."""
        # No model, and no server, takes half of a surrogate pair.
        text = text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()
        plain = simplify(text)
        if (reason := _REASON.search(plain)) and any(map(_ASKS.search, _sentences(plain[: reason.start()]))):
            plain = plain[: reason.start()]
        said = _USER.sub("我", plain)  # 用户口味: no 户口
        said = _MOTHER_TONGUE.sub("native language", _PROGRAMMING.sub("programming", said))
        said = _LIVELIHOOD.sub("work", said)
        sentences = _sentences(said)
        asking = [sentence for sentence in sentences if _ASKS.search(sentence)]
        # Who types single words looks for these, and not for all that is about the same.
        words = _matter(said)[:MOST_TERMS]
        distinct = tuple(dict.fromkeys([*words, *(topics(said, terms(said)) if asking else ())]))[:MOST_TERMS]
        numbers = {term: number for number, term in enumerate(distinct)}
        about = [_about(part) for part in asking or sentences]
        parts = [tuple(dict.fromkeys(numbers[term] for term in each if term in numbers)) for each in about]
        asked = {number for part in parts for number in part}
        parts = [part for part in parts if len(part) >= _FEWEST]
        says_enough = len(sentences) == 1 or len(asked) >= _FEWEST
        # Today and yesterday in the small talk around a question do not say when its answer was told.
        counted = () if len(sentences) > 1 else relative_spans(plain, at)
        overview = _is_overview(plain)
        last = _sentences(plain)[-1] if asking and asking == sentences[-1:] and says_enough else ""
        persons = persons_in(last)
        return cls(
            text=text,
            asked=last,
            ending="" if asking and asking[-1] == sentences[-1] else _end_of(_sentences(plain)),
            terms=distinct,
            parts=tuple(parts) if len(parts) > 1 else (),
            aside=frozenset(numbers.values()) - asked if asked else frozenset(),
            # Of several sentences the longest would say most.
            words=() if overview or len(parts) > 1 else _asked_words(asking, sentences),
            spans=(*spans(plain, at), *counted),
            asks=bool(asking),
            now=any(map(_NOW.search, asking)),
            overview=overview,
            personal=bool(_PERSONAL.search(said)),
            own=len(asking) == 1 and not (overview or persons) and asks_own(asking[0], about[0]),
            named=frozenset(numbers[term] for term in persons if term in numbers),
        )


def _asked_words(asking: list[str], sentences: list[str]) -> tuple[str, ...]:
    """What is asked for, and may be told in other words; nothing where somebody types single words."""
    words = tuple(words_of(_CARRIERS.sub(" ", " ".join(asking or sentences))))
    return words if asking or len(words) > _SINGLE_WORDS else ()


def only_asks(text: str) -> bool:
    """Whether a text tells nothing, but asks, or asks for something to be done."""
    return all(map(_ONLY_ASKS.search, _sentences(simplify(text))))


def _sentences(text: str) -> list[str]:
    return [found for sentence in _SENTENCE.findall(text) if (found := sentence.strip())]


def _end_of(sentences: list[str]) -> str:
    """The last sentences, enough to say something; nothing if these are all."""
    end = ""
    while sentences and len(end.encode()) < _END_BYTES:
        *sentences, sentence = sentences
        end = f"{sentence} {end}".strip()
    return end if sentences else ""


def _is_overview(text: str) -> bool:
    """Whether a question names nothing to look for but the person: then whatever is known about them answers it."""
    said = text.casefold().replace("’", "'").strip()
    if len(said.split()) == 1 and (said.isascii() or len(said) <= _ONE_WORD):
        return False  # a word that is looked for
    plain = _ASKING_CHINESE.sub(" ", _CARRIERS.sub(" ", said))
    if not (_OVERVIEW.search(plain) or _WHO.search(said)):
        return False
    return not terms(_AROUND_OVERVIEW.sub(" ", _OVERVIEW.sub(" ", plain)))


def _about(text: str) -> list[str]:
    """What a part of a question is about: its words and its topics."""
    return [*_matter(text), *topics(text, terms(text))]


def _matter(text: str) -> list[str]:
    """The terms of a text without words that only carry its sentences, unless it has no others."""
    # Words, not their stems: "likely" carries a question, what somebody likes is what it is about.
    matter = _DATE_SIGNS.sub(" ", _CARRIERS.sub(" ", text.replace("’", "'")))
    matter = _ASKING_CHINESE.sub(" ", _NOW.sub(" ", matter))
    found = terms(text)
    return terms(matter) or ([] if topics(text, found) else found)


# --- which records may answer

#: Where recall looks unless told: what was said, and what was kept of it.
COLLECTIONS = ("messages", "exchanges", "profile", "episodes", "knowledge")
LAYERS = {"profile": ("profile",), "event": ("episodes",)}


class Filters(TypedDict, total=False):
    """What the methods of `Recall` take beside the question."""

    collections: Sequence[str]
    layer: str | None  # "profile" or "event", in place of collections
    kinds: Sequence[str] | None
    marks: Sequence[str] | None  # any of these
    without: Sequence[str]  # none of these
    where: Mapping[str, Any]  # metadata equals these scalars
    since: datetime | None
    until: datetime | None
    everyone: bool  # look in a scope that names nobody


def queries(scope: Scope, at: datetime, filters: Filters) -> list[Query]:
    """One query for each collection to look in; what has expired by `at` is in none of them."""
    for name in filters:
        if name not in Filters.__annotations__:  # a misspelt filter would silently let everything through
            raise InvalidQuery(f"unknown filter {name!r}; known: {', '.join(Filters.__annotations__)}")
    if not isinstance(scope, Scope):
        raise InvalidQuery(f"scope must be a Scope, such as Scope(user='lin'); got {scope!r}")
    everyone = filters.get("everyone", False)
    if not isinstance(everyone, bool):
        raise InvalidQuery(f"everyone must be True or False; got {everyone!r}")
    if not everyone and scope.user is None and scope.agent is None and scope.session is None:
        # A name that was left out by an oversight would show one person what another said.
        raise InvalidQuery(
            "a search belongs to somebody: name a user, an agent or a session in its scope, or say everyone=True"
        )
    where = filters.get("where", {})
    if not isinstance(where, Mapping):
        raise InvalidQuery(f"where must be a mapping of metadata names to values; got {where!r}")
    clauses: dict[str, Any] = {
        "kinds": _names("kinds", filters.get("kinds")),
        "marks": _names("marks", filters.get("marks")),
        "without": _names("without", filters.get("without", ())) or (),
        "where": dict(where),
        "since": _moment("since", filters.get("since")),
        "until": _moment("until", filters.get("until")),
    }
    found = [
        Query(collection=collection, scope=scope, alive_at=at, **clauses).checked()
        for collection in _collections(filters)
    ]
    since, until = found[0].since, found[0].until
    if since and until and since > until:
        raise InvalidQuery(f"since ({since.isoformat()}) is later than until ({until.isoformat()})")
    return found


def _names(what: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = () if isinstance(given, str) else tuple(given)
    # A string is a sequence of its letters, and would ask for kinds of one letter each.
    if isinstance(given, str) or not all(isinstance(name, str) for name in names):
        raise InvalidQuery(f"{what} must be a list of names; got {given!r}")
    return names


def _moment(what: str, given: datetime | None) -> datetime | None:
    if given is not None and not isinstance(given, datetime):
        raise InvalidQuery(f"{what} must be a datetime; got {given!r}")
    return given


def _collections(filters: Filters) -> tuple[str, ...]:
    if (layer := filters.get("layer")) is not None:
        if "collections" in filters:
            raise InvalidQuery("give layer or collections, not both")
        if layer not in LAYERS:
            raise InvalidQuery(f"unknown layer {layer!r}; known: {', '.join(LAYERS)}")
        return LAYERS[layer]
    named = filters.get("collections", COLLECTIONS)
    if isinstance(named, str) or not named:
        raise InvalidQuery(f"collections must be a list of names, such as ['messages']; got {named!r}")
    for name in named:
        if name not in SHAPES:
            raise InvalidQuery(f"unknown collection {name!r}; known: {', '.join(SHAPES)}")
    return tuple(dict.fromkeys(named))
