"""What a text is about: everyday topics, by a table of the words that say so, in English and in Chinese.

"What is my occupation?" and "I drive the night tram" share no word, but both are about work. A topic is a term like any
other, of a spelling that no text has, so that every index holds it and every search can ask for it.
"""

import asyncio
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple, TypeAlias

from octavo.kernel.terms import TOPIC_PREFIX
from octavo.kernel.terms.english import stem, stem_start
from octavo.kernel.terms.terms import simplify, terms
from octavo.kernel.text import lazy_pattern

_NOT = lazy_pattern(r"\b(can|do|does|did|is|was|could|would|have|has) not\b")
# "shes at the bank", "cant stand it", as people type them
_BARE = lazy_pattern(
    r"\b(?:(can|don|doesn|didn|isn|wasn|couldn|wouldn|haven|hasn)(t)|(i)(m)|(i|we|they)(ve)|(he|she|that|what|where|who|when|how)(s))\b"
)
_END = lazy_pattern(r"[.,;:!?)\"]+(?=\s|$)")  # what may stand right behind a word
SURNAMES = "赵钱孙李周吴郑王冯陈蒋沈韩杨朱秦许何吕施张孔曹严华金魏陶姜戚谢邹苏潘葛范彭鲁韦马方任袁柳鲍史唐费廖岑薛贺倪汤罗毕郝安常乐于傅卞齐康伍余顾孟黄穆萧尹姚邵汪毛米戴宋庞熊纪舒项祝董梁杜阮蓝闵季贾江童郭梅林钟徐邱骆高夏蔡田樊胡凌霍万柯卢莫房丁邓洪石崔龚程裴陆翁段侯武刘景詹龙叶黎白蒲卓蒙乔谭温庄柴聂游简曾关岳司欧裘路尤涂甘瞿阎"
# "I'm Lorcan, I mend organs", 我是岑若楠，: nothing else in them says that it is a name.
_NAMED = lazy_pattern(
    rf"\b(?:I'?m|I am|The user is) [A-ZÀ-Ý][a-zß-ÿ]+(?=[,.!]|$)|(?:我是|用户是|本人)(?:[{SURNAMES}][\u4e00-\u9fff]{{1,2}}|[小老阿][{SURNAMES}])(?![\u4e00-\u9fff])"
)
# "I'm 68", "she is 82 and her eyes are failing": nothing else in them says that it is an age.
_AGED = lazy_pattern(
    r"\b(?:i'?m|he'?s|she'?s|am|is|are|be|turn(?:s|ed|ing)?|pushing)(?: (?:only|just|nearly|almost|now|already|about))? "
    r"(?:\d{1,2}|(?:\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty)(?:-\w+)?|eleven|twelve)"
    r"(?=\s*(?:[,.!;]|$)|\s+(?:and|but|now|so|in|this|next|on|years?)\b)",
    re.IGNORECASE,
)
# "I'm a welder at the docks", 我是一名护工: that it is a trade shows in how it is said, and in how the word ends.
_IS_TRADE = (
    r"\b(?:i'?m|i am|i was|user is|s?he'?s|as|became|become|(?<!it )(?<!this )(?<!that )(?<!there )is) an? (?!veg|christian|believer|beginner|member|lover)"
    r"(?:[\w-]+ ){0,2}?(?:[\w-]+(?:er|or|ist|ian|man|woman|eer|yst|ant)|nurse|chef|cook|vet|judge|pilot|guard|architect|mechanic|coach|clerk|priest|agent)\b"
)
_TRADE = lazy_pattern(
    rf"{_IS_TRADE}|(?:是|当|做|干)(?:了|着|一?[名个位])?[\u4e00-\u9fff]{{0,6}}?"
    r"(?:师|员|工|医生|护士|司机|教练|经理|警察|会计|律师|老板|匠|保安|保姆|主播|作家|记者|翻译|编辑|农民|军人|兽医)(?:[，。！的了,.!]|$)",
    re.IGNORECASE,
)
_EMPLOYED = lazy_pattern(
    rf"{_IS_TRADE} (?:at|for|with|in) |在[\u4e00-\u9fff]{{2,10}}(?:上班|工作|任职|当|做)", re.IGNORECASE
)
# "I support Asante Kotoko": no table has the names of all clubs.
_SUPPORTS = lazy_pattern(
    r"\b(?:[Ss]upport(?:s|ed|er of|ing)?|(?:fan|follower) of) (?!(?:I|Mr|Mrs|Ms|Dr)\b)[A-Z][a-z]+"
)
# A number that somebody is reached at: no table has it.
_REACHED = lazy_pattern(
    r"(?<![\d.,])(?:\+\d{1,3}[ -]?|\(?0)\d{1,4}\)?(?:[ -]?\d{2,4}){2,4}(?!\d)|(?<!\d)(?:1[3-9]\d{9}|\d{3}[ .-]\d{3}[ .-]\d{4})(?!\d)"
)
_ADDRESS = lazy_pattern(
    r"\b\d+[a-z]?,? (?:[A-Z][\w'-]+ ){1,3}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Close|Crescent|Terrace|Parade|Place|Court|Square|Gardens|Boulevard|Blvd|Quay|Mews|Grove|Row|Way)\b"
    r"|\b(?:flat|apartment|apt|unit) \d+[a-z]?\b|[路街道巷弄]\d+[号號弄]|\d+[栋棟幢座](?:\d+单元)?\d*|[\d一二三四五六七八九十]+单元"
)
# "Where is she from?", "my girlfriend's Portuguese": nothing else in them says where somebody comes from.
_COMES_FROM = lazy_pattern(
    r"\b[Ww]here(?:'?s)? .{1,40}\bfrom\W*$|(?:\b[Ii]s|'s|'m|\b[Aa]m|\bwas|'re|\bare|\b[Hh]alf|\bborn)[ -](?:half[- ]|part[- ])?"
    r"[A-Z][a-z]+(?:ese|ish|ian|ean|[^aeiou]an|utch|ench|reek|zech|wiss|elsh|cots?)\b(?! (?:teacher|lessons?|class|food|wine|tutor|homework|exam))"
)
_DIED = lazy_pattern(
    r"\bl(?:ost|osing) (?:my|our|his|her|their) (?:\w+ )?(?:mum|mom|mam|mother|dad|father|nan|nana|gran|grandma|grandmother|grandad|grandpa|grandfather|husband|wife|partner|brother|sister|son|daughter|baby|uncle|aunt|auntie|cousin|friend|dog|cat)\b",
    re.IGNORECASE,
)
_SAID_BY_SHAPE = (
    ("phonenumber", _REACHED),
    ("contact", _REACHED),
    ("residence", _ADDRESS),
    ("home", _ADDRESS),
    ("hometown", _COMES_FROM),
    ("death", _DIED),
    ("team", _SUPPORTS),
    ("name", _NAMED),
    ("birthday", _AGED),
    ("occupation", _TRADE),
    ("employer", _EMPLOYED),
)
# "What don't I like?", 我不爱吃什么: the word alone says the opposite.
_NOT_LIKED = lazy_pattern(
    r"(?:n't|\bnot|\bnever)(?: (?:i|you|we|they|he|she|my \w+|the user|really|much|actually))* (?:like|love|enjoy)\b|[不没](?:太|大|怎么|是很|是太)?(?:喜欢|爱|中意)",
    re.IGNORECASE,
)
_LIKED = lazy_pattern(r"\b(?:like|love|enjoy|prefer|favou?rite|fan)|喜欢|爱|中意", re.IGNORECASE)
# Who books a trip, or gets booked in, reads nothing.
_BOOKED = lazy_pattern(
    r"\bbooked\b|\bbook(?:ing)? (?:(?:an?|the|my|our|me|us|him|her|them|some|any|in|it|that|this|another)\b|(?:\w+ )?(?:tickets?|flights?|hotels?|tables?|rooms?|trips?|seats?|appointments?)\b)",
    re.IGNORECASE,
)
_NOTHING: tuple[tuple[()], tuple[()]] = (), ()
_BOOKS = f"{TOPIC_PREFIX}books"
MOST_CHARACTERS = 2000  # of a text: a longer one is about everything


#: A word of the table, or the word of a phrase that it is looked up by; whether it has yet to be stemmed; the phrase; its topics.
_Entry: TypeAlias = tuple[str, bool, str, tuple[str, ...]]


class _Table(NamedTuple):
    entries: Mapping[str, Sequence[_Entry]]  # the first two characters of a term → what may be it
    definite: frozenset[str]


def topics(text: str, found: Iterable[str]) -> list[str]:
    """The topics of a text, as terms, each once; `found` are its other terms."""
    text = simplify(text[:MOST_CHARACTERS])
    told = [_told_by(term) for term in set(found)]
    about = {topic for words, _ in told for topic in words}
    if any(phrases for _, phrases in told):
        said = _END.sub(r" \g<0>", text.casefold().replace(chr(0x2019), chr(39)))
        folded = f" {' '.join(said.split())} "
        if " not " in folded:  # "can not stand" is "can't stand"
            folded += _NOT.sub(r"\1n't", folded).replace("cann't", "can't")
        if _BARE.search(folded):
            folded += _BARE.sub(lambda bare: "'".join(filter(None, bare.groups())), folded)
        for _, phrases in told:
            for phrase, named in phrases:
                if phrase in folded:
                    about.update(named)
    if len(rest := _NOT_LIKED.sub("", text)) < len(text):
        about.add(f"{TOPIC_PREFIX}dislike")
        if not _LIKED.search(rest):
            about.discard(f"{TOPIC_PREFIX}like")
    if _BOOKS in about and len(rest := _BOOKED.sub(" ", text)) < len(text):
        about -= {_BOOKS, f"{TOPIC_PREFIX}hobby"}.difference(topics(rest, terms(rest)))
    for topic, pattern in _SAID_BY_SHAPE:
        if pattern.search(text):
            about.add(f"{TOPIC_PREFIX}{topic}")
    if f"{TOPIC_PREFIX}phonenumber" in about:
        about.discard(f"{TOPIC_PREFIX}phone")  # who asks for the number does not ask for the device
    return sorted(about)


async def load() -> None:
    """Read the table, once: it takes some hundredths of a second, for which no event loop should stand still."""
    if not _table.cache_info().currsize:
        await asyncio.to_thread(_table)


def is_definite(term: str) -> bool:
    """Whether a term is a topic such as a brother or a salary: no text about anything else answers a question about it."""
    return term in _table().definite


def says_topic(word: str) -> bool:
    """Whether a word or a pair of characters by itself says that a text is about something."""
    return bool(_told_by(word)[0])


def topic_name(term: str) -> str:
    """The topic of such a term, as people call it."""
    return term.removeprefix(TOPIC_PREFIX)


@functools.cache
def _table() -> _Table:
    entries: dict[str, list[_Entry]] = defaultdict(list)
    definite: set[str] = set()
    for line in resources.files(__package__).joinpath("topics.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        names, _, held = line.partition(": ")
        about = tuple(TOPIC_PREFIX + name for name in re.findall(r"\w+", names))
        if "!" in names:
            definite.add(about[0])
        english, _, chinese = held.partition("|")
        for word in english.split():
            phrase = f" {word.replace('_', ' ')}" if "_" in word else ""
            rarest = max(word.split("_"), key=lambda part: ("'" not in part, len(part))) if phrase else word
            if (
                rarest.isascii() and rarest.isalpha()
            ):  # most are, and to stem thousands takes a tenth of a second
                entries[stem_start(rarest)].append((rarest, True, phrase, about))
            else:
                term = terms(rarest)[-1]
                entries[term[:2]].append((term, False, phrase, about))
        for word in simplify(chinese).split():
            entries[word[:2]].append((word[:2], False, word if len(word) > 2 else "", about))
    return _Table(dict(entries), frozenset(definite))


def _told_by(term: str) -> tuple[Iterable[str], Iterable[tuple[str, tuple[str, ...]]]]:
    """The topics that a term says by itself, and the phrases that it is part of, with theirs."""
    start = term[:2]
    return _terms_from(start).get(term, _NOTHING) if start in _table().entries else _NOTHING


@functools.cache
def _terms_from(start: str) -> Mapping[str, tuple[set[str], list[tuple[str, tuple[str, ...]]]]]:
    """The terms of the table that begin so: few are asked for, and only those have to be stemmed."""
    found: dict[str, tuple[set[str], list[tuple[str, tuple[str, ...]]]]] = {}
    for word, stems, phrase, about in _table().entries[start]:
        words, phrases = found.setdefault(stem(word) if stems else word, (set(), []))
        if phrase:
            phrases.append((phrase, about))
        else:
            words.update(about)
    return found
