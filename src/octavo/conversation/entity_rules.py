"""Who and what a text speaks about, found by rules: names, places, organisations and titles, in Chinese and English.

Rules miss some names and take a few words for names; a language model does better. They cost nothing and need none.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from itertools import chain


def _word_lists() -> dict[str, list[str]]:
    """The lists of `entity_words.txt`, by name."""
    text = resources.files(__package__).joinpath("entity_words.txt").read_text("utf-8")
    entries = text.replace("\n    ", "").splitlines()
    pairs = (line.split(" = ", 1) for line in entries if line and not line.startswith("#"))
    return {name: words.split("|") for name, words in pairs}


_WORDS = _word_lists()
_SURNAMES = "".join(_WORDS["SURNAMES"])
_BOUNDS = frozenset(_WORDS["BOUNDS"][0])
_CAPITALS = frozenset(("首都", "成都", "京都", "国都"))  # 都 is "all" everywhere else
# What a name may hold although it bounds others (王学明, 张爱玲, 李开复), and what it may end with (李明, 王正).
_WITHIN_NAMES = frozenset("明正爱开学进定喜养")
_ENDS_NAMES = frozenset("明正")
_NOT_NAMES = tuple(_WORDS["NOT_NAMES"])
_NOT_NICKNAMES, _NEVER, _OPENERS, _DOES = (
    frozenset(_WORDS[name]) for name in ("NOT_NICKNAMES", "NEVER", "OPENERS", "DOES")
)
_GENERIC, _GENERIC_ENDS = tuple(_WORDS["GENERIC"]), tuple(_WORDS["GENERIC_ENDS"])

MOST_CHARACTERS = 20_000  # of one text; names in what follows are not looked for
_Found = tuple[int, int, str]  # where it begins and ends, and the name

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_RUN = re.compile(rf"[{_HAN}·]+")
_TITLE = re.compile(r"《([^《》\n]{1,40})》")
_CALLED = re.compile(
    rf"(?:名字叫做|名字叫|名字是|名叫|叫做|我叫|(?<=[{_HAN}])叫|昵称是|姓名[:：]\s*)([{_HAN}·]{{1,8}}|[A-Z][\w\-]*)"
)
_PLACE = re.compile("|".join(sorted(_WORDS["PLACES"], key=len, reverse=True)))
_ORGANISED = re.compile("|".join(sorted(_WORDS["SUFFIXES"], key=len, reverse=True)))
_GIVEN = rf"(?:(?![{''.join(sorted(_BOUNDS - _WITHIN_NAMES))}])[{_HAN}])"
_TITLED = re.compile(rf"[{_SURNAMES}]{_GIVEN}{{0,2}}?(?:{'|'.join(_WORDS['TITLES'])})")
_NICKNAME = re.compile(rf"(?:小|老|阿)[{_HAN}]")
_SURNAME = re.compile(rf"{'|'.join(_WORDS['COMPOUND_SURNAMES'])}|[{_SURNAMES}]")
_RELATIONS = re.compile(
    "(?:同事|朋友|同学|室友|邻居|老板|经理|妻子|丈夫|太太|先生|女儿|儿子|妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|客户|导师|男友|女友|闺蜜|助手|律师|医生|老师)$"
)

_SENTENCE = re.compile(r"(?:(?<=[.!?。！？；])|(?<=\n))\s*")
_CAPITAL = (
    rf"(?<![A-Za-z0-9_@/.\-])(?:[a-z]{{1,2}})?[A-Z][A-Za-z0-9À-ɏ]*(?:['’\-][A-Za-zÀ-ɏ0-9]+)*(?![^\W{_HAN}])"
)
_INITIAL = r"(?<![A-Za-z0-9])[A-Z]\."
_PHRASE = re.compile(
    rf"{_CAPITAL}(?:(?:(?<=\bDr)\.[ ]+|(?<=\bM[rs])\.[ ]+|(?<=\bMrs)\.[ ]+|[ ]+|[ ]+(?:{'|'.join(_WORDS['JOINS'])})[ ]+)(?:{_INITIAL}[ ]+)*{_CAPITAL}|[ ]+\d+(?![\w.,:]))*"
)
_MIXED = re.compile(r"[A-Z].*[A-Z]|[a-z].*[A-Z]|\d")
_POSSESSIVE = re.compile(r"['’]s$")
_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:m|d|ll|ve|re))$", re.IGNORECASE)


def find_entities(text: str, limit: int = 20, known: Iterable[str] = ()) -> list[str]:
    """The names a text mentions, each once, in the order of their first mention; at most `limit` of them.

    A name that is `known` already is found wherever it stands by itself.
    """
    text = text[:MOST_CHARACTERS]
    found: list[_Found] = []
    taken = bytearray(len(text))
    # Sure rules first: what they take, a less sure one does not take apart.
    rules = (_find_titles, _find_called, _find_organisations, _find_people, _find_places, _find_english)
    for begin, end, name in chain(_find_known(text, known), *(rule(text) for rule in rules)):
        if not any(taken[begin:end]):
            taken[begin:end] = b"\1" * (end - begin)
            found.append((begin, end, name))
    return list(dict.fromkeys(name for _, _, name in sorted(found)))[:limit]


def _find_known(text: str, known: Iterable[str]) -> Iterator[_Found]:
    for name in sorted((name for name in known if name in text), key=len, reverse=True):
        for match in re.finditer(re.escape(name), text):
            begin, end = match.span()
            # 李明 is not who 李明杰 is, nor Ann who Anna is.
            if not (begin and _may_go_on(text[begin - 1], name[0])) and (
                end == len(text) or not _may_go_on(text[end], name[-1])
            ):
                yield begin, end, name


def _may_go_on(beside: str, edge: str) -> bool:
    """Whether what stands beside the edge of a name may belong to the same name."""
    if _RUN.match(edge):
        return _RUN.match(beside) is not None and beside not in _BOUNDS
    return beside.isascii() and beside.isalnum()


def _find_titles(text: str) -> Iterator[_Found]:
    for match in _TITLE.finditer(text):
        if name := match.group(1).strip():
            yield match.start(), match.end(), name


def _find_called(text: str) -> Iterator[_Found]:
    """What somebody or something is called, in so many words: 我叫…, 名叫…, 它叫…."""
    for match in _CALLED.finditer(text):
        given = match.group(1)
        if given[0].isascii():
            yield *match.span(1), given
            continue
        name = _cut_at_bound(given)
        # 叫 is also to shout, to order and to ask for: what follows is a name only when it ends like one.
        if 2 <= len(name) <= 4 and name not in _NOT_NAMES and (given == name or given[len(name)] in _BOUNDS):
            yield match.start(1), match.start(1) + len(name), name


def _cut_at_bound(given: str) -> str:
    for at, character in enumerate(given):
        if character in _BOUNDS and not (at and character in _WITHIN_NAMES):
            return given[:at]
    return given


def _find_organisations(text: str) -> Iterator[_Found]:
    for run in _RUN.finditer(text):
        begin = run.start()
        for match in _ORGANISED.finditer(text, run.start(), run.end()):
            if (
                match.end() < run.end()
                and len(match.group()) == 1
                and text[match.end()] in "长委域场内里别分间"
            ):
                continue  # 市长, 区域, 市场: the suffix belongs to the next word
            start = max(begin, match.start() - 10)
            for at in range(match.start() - 1, start - 1, -1):
                if text[at] in _BOUNDS and text[at] != "学" and text[at - 1 : at + 1] not in _CAPITALS:
                    start = at + 1
                    break
            name = text[start : match.end()]
            if (
                len(name) - len(match.group()) >= 2
                and not name.startswith(_GENERIC)
                and not name.endswith(_GENERIC_ENDS)
            ):
                yield start, match.end(), name
                begin = match.end()


def _find_people(text: str) -> Iterator[_Found]:
    for match in _TITLED.finditer(text):
        if _may_begin(text, match.start()) and match.group() not in _NOT_NAMES:
            yield *match.span(), match.group()
    named: list[tuple[int, str]] = []
    for run in _RUN.finditer(text):
        at = run.start()
        while at < run.end():
            if (name := _read_person(text, at, run.end())) is not None:
                named.append((at, name))
                at += len(name)
            else:
                at += 1
    names = {name for _, name in named}
    for at, name in named:
        # Where 张伟 is named elsewhere, 张伟家 is where he lives and not somebody else.
        known = name[:-1] if name[:-1] in names else name
        yield at, at + len(known), known


def _read_person(text: str, at: int, end: int) -> str | None:
    """The name of a person that begins here, if one does."""
    if not _may_begin(text, at):
        return None
    if _NICKNAME.match(text, at, end) and _may_end(text, at + 2, end):
        name = text[at : at + 2]
        return None if name in _NOT_NICKNAMES or name[1] in _BOUNDS - _WITHIN_NAMES else name
    family = _SURNAME.match(text, at, end)
    if family is None:
        return None
    for length in (2, 1):
        last = family.end() + length
        given = text[family.end() : last]
        if last > end or given[-1] in _BOUNDS - _ENDS_NAMES or given[0] in _BOUNDS - _WITHIN_NAMES:
            continue
        if "·" in given or text.startswith(_NOT_NAMES, at):
            return None
        if _may_end(text, last, end):
            return text[at:last]
    return None


def _may_begin(text: str, at: int) -> bool:
    """Whether a Chinese name may begin here: after a mark, a word that bounds names, or one that says who it is."""
    if at == 0 or not _RUN.match(text[at - 1]):
        return True
    return text[at - 1] in _BOUNDS or _RELATIONS.search(text[max(0, at - 4) : at]) is not None


def _may_end(text: str, at: int, end: int) -> bool:
    return at >= end or text[at] in _BOUNDS


def _find_places(text: str) -> Iterator[_Found]:
    for match in _PLACE.finditer(text):
        yield *match.span(), match.group()


def _find_english(text: str) -> Iterator[_Found]:
    begins = {match.end() for match in _SENTENCE.finditer(text)} | {0, len(text) - len(text.lstrip())}
    alone: list[tuple[int, int, str]] = []
    inside: set[str] = set()
    for match in _PHRASE.finditer(text):
        begin, name = _trim(match.start(), match.group())
        if len(name) < 2 or not any(map(str.isalpha, name)):  # of "May 2023" only the year is left
            continue
        if begin in begins and " " not in name and not _MIXED.search(name):
            alone.append((begin, begin + len(name), name))
            continue
        inside.add(name)
        yield begin, begin + len(name), name
    for begin, end, name in alone:
        # A capital at the beginning of a sentence says nothing: something else must.
        if name in inside or (not name.endswith("ing") and _does(text[end : end + 40])):
            yield begin, end, name


def _trim(begin: int, phrase: str) -> tuple[int, str]:
    """The phrase without words that are no part of a name, and where it begins now."""
    while phrase:
        first, _, rest = phrase.partition(" ")
        plain = _POSSESSIVE.sub("", first).rstrip(".").casefold()
        # "The" and "My" begin a sentence or a phrase; a name that has one is as well known without it.
        if plain not in _NEVER and plain not in _OPENERS and not _CONTRACTED.search(first):
            break
        begin += len(phrase) - len(rest.lstrip()) if rest else 0
        phrase = rest.lstrip()
        for join in _WORDS["JOINS"]:
            if phrase.startswith(f"{join} "):
                begin += len(join) + 1
                phrase = phrase[len(join) + 1 :]
    words = phrase.split(" ")
    while words and (words[-1].casefold() in _NEVER or words[-1] in _WORDS["JOINS"]):
        words.pop()
    return begin, _POSSESSIVE.sub("", " ".join(words)).rstrip(".") if words else ""


def _does(after: str) -> bool:
    if after.startswith(("'s", "’s", ",")):
        return not after.startswith(",") or bool(re.match(r", (?:my|our|his|her|the|a|an|who)\b", after))
    following = re.match(r"[ ]+([a-z]+)", after)
    return following is not None and following.group(1) in _DOES
