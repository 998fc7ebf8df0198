"""What a clause says that lasts: one of the six kinds of profile facts, by the patterns of a language's table."""

import re
from collections.abc import Callable
from functools import cached_property
from itertools import takewhile
from typing import TypeAlias

from octavo.kernel.terms.dates import small_number
from octavo.layers.rules.facts import (
    CHINESE,
    ENGLISH,
    NO,
    SYNONYMS,
    YES,
    ProfileStatement,
    RuleTable,
    denied,
    plain,
)

_Kind: TypeAlias = Callable[["re.Match[str]", str, str], ProfileStatement | None]
_ENGLISH_ANTONYMS, _SAME_TRAITS = ENGLISH.pairs("ANTONYMS"), ENGLISH.pairs("SAME_TRAITS")
_NATIONALITIES = frozenset(ENGLISH.words["NATIONALITIES"])
_STAYS_WHOLE = (" than ", " over ", " to ", " between ")
_RANK = re.compile("(?:an? |the )?(junior|senior|staff|lead|principal) (.+)", re.IGNORECASE)
_AFTER_PLACE = re.compile(r" (?:with|for|since|and|but|near|now)\b")
_BORN_ON = re.compile(rf"(?:the )?(?:\d|(?:{ENGLISH.MONTHS.pattern})\b)", re.IGNORECASE)
_CHINESE_ANTONYMS, _AFFIRMING = CHINESE.pairs("ANTONYMS"), CHINESE.words["SAME_TRAITS"]
_SAME_KIN = {"kid": "child", "娃": "孩子", "闺女": "女儿"}
_COUNTED = re.compile(
    r"(?P<n>\d|one|two|three|four|five|six|seven|eight|nine|ten) (?P<what>child|kid|son|daughter|boy|girl|brother|sister|sibl|cat|dog|grandchild|grandson|granddaught)(?:ren)?"
    "|(?P<n_zh>[一两二三四五六七八九十\\d]+)[个只条位](?P<what_zh>孩子|娃|儿子|女儿|闺女|哥哥|姐姐|弟弟|妹妹|孙子|孙女|猫|狗)"
)
_YEARS = re.compile(rf"^(?:了|过)?(?:{CHINESE.NUMBER.pattern}多?年的?)?")
_NOT_WELL = re.compile("不(?!错)|差|烂|一般")
_NUMBER_OF_DAY = re.compile("[一二三四五六七八九十]+(?=[月日号])")


class ProfileRules:
    """The patterns of one language in their order; the first that fits, and says something, decides.

    A pattern has a kind, which is the method that makes a statement of its groups: `v` is the value, `k` what it is the value
    of, `no` and `hates` are there when it is denied.
    """

    def __init__(self, table: RuleTable) -> None:
        self._table = table

    @cached_property
    def _rules(self) -> list[tuple["re.Pattern[str]", _Kind, str, str]]:
        return [
            (each.pattern, getattr(self, each.kind), each.slot, each.category) for each in self._table.facts
        ]

    def statement(self, said: str) -> ProfileStatement | None:
        """What the words after a subject say; None when they say nothing that lasts."""
        for pattern, kind, slot, category in self._rules:
            if (match := pattern.match(said)) and (found := kind(match, slot, category)) is not None:
                return found
        return None

    def cleaned(self, value: str) -> str:
        """A value without the words that add nothing to it."""
        return value

    def listed_items(self, value: str) -> list[tuple[str, str]]:
        """The things of a list, each as it is written and as it is compared; none where there is no thing."""
        raise NotImplementedError

    def one(self, match: "re.Match[str]", slot: str, category: str) -> ProfileStatement | None:
        """Something of which there is one: an age, an employer."""
        return ProfileStatement(category, [{slot: plain(self.cleaned(match["v"]))}])

    def affirmed(self, match: "re.Match[str]", slot: str, category: str) -> ProfileStatement | None:
        """Something of which there may be many, so that the value is part of the name."""
        value = plain(self.cleaned(match["v"]))
        slots = {f"{slot}:{value}": NO if is_denied(match) else YES}
        if counted := _COUNTED.fullmatch(value):  # three children now are no longer two
            what, number = counted["what"] or counted["what_zh"], counted["n"] or counted["n_zh"]
            slots[f"number of {_SAME_KIN.get(what, what)}"] = number
        return ProfileStatement(category, [slots])

    def listed(self, match: "re.Match[str]", slot: str, category: str) -> ProfileStatement | None:
        """Things of which there may be many, one fact each."""
        items = self.listed_items(match["v"])
        if not items:
            return None
        value = YES if is_denied(match) == bool(match.groupdict().get("hates")) else NO
        slots = [{f"{slot}:{plain(compared)}": value} for _, compared in items]
        return ProfileStatement(category, slots, tuple(item for item, _ in items))

    def keyed(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """Something that the clause names itself: my shoe size is 43."""
        return ProfileStatement(category, [{plain(match["k"]): plain(match["v"])}])

    def favourite(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """The one of its kind that is liked best."""
        kind = match["k"] + match.groupdict().get("x", "")
        return ProfileStatement(category, [{f"favourite:{plain(kind)}": plain(match["v"])}])

    def civil_status(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """Married or not."""
        value = match["v"].lower()
        name = "not civil status" if is_denied(match) else "civil status"
        return ProfileStatement(category, [{name: SYNONYMS.get(value, value)}])


def is_denied(match: "re.Match[str]") -> bool:
    """Whether the words say that it is not so."""
    return bool(match.groupdict().get("no"))


# --- English


class EnglishProfile(ProfileRules):
    """The kinds of statements that English has of its own."""

    def statement(self, said: str) -> ProfileStatement | None:
        """What the words after a subject say; of what is at hand ("I love it") no memory can name anything."""
        if ENGLISH.POINTING.search(said):
            return None
        return super().statement(ENGLISH.LASTING.sub(_lasting_verb, said))

    def cleaned(self, value: str) -> str:
        """A value without "a lot", "these days", ", not Munich" at its end."""
        before = ""
        while before != value:
            before, value = value, ENGLISH.TAIL.sub("", value)
        return ENGLISH.NOT_THAT.sub("", value)

    def listed_items(self, value: str) -> list[tuple[str, str]]:
        value = self.cleaned(value)
        items = [item.strip() for item in ENGLISH.LIST.split(value) if item and item.strip()]
        items = list(takewhile(lambda item: not ENGLISH.NO_ITEM.match(item), items))
        whole = ENGLISH.TOGETHER.match(value) or any(word in value for word in _STAYS_WHOLE)
        if whole or not items or any(len(item.split()) > 4 for item in items):
            items = [value]  # a long item is a sentence
        return [(item, plain(ENGLISH.OBJECT_VERB.sub("", item))) for item in items]

    def job(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """A role, whom it is held for, and where."""
        groups = match.groupdict()
        role, slots = self.cleaned(groups.get("v") or ""), {}
        if role:
            role, _, place = _role_and_place(role)
            # "I'm seeing the dentist", "I'm married to a doctor": somebody else's job.
            if "strict" in groups and (not ENGLISH.OCCUPATION.search(role) or ENGLISH.NO_JOB.search(role)):
                return None
            # A senior software engineer is a software engineer, whichever word for one is compared.
            ranked = _RANK.match(role)
            slots["occupation"] = f"{ranked[1].lower()} {plain(ranked[2])}" if ranked else plain(role)
            if place.startswith(("at ", "for ")):
                slots["employer"] = plain(place.split(" ", 1)[1])
        if groups.get("e"):
            slots["employer"] = plain(self.cleaned(groups["e"]))
        if groups.get("p"):
            slots["workplace"] = plain(self.cleaned(groups["p"]))
        if is_denied(match):
            slots = {f"not {key}": value for key, value in slots.items()}
        return ProfileStatement(category, [slots])

    def trait(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """What somebody is like; of two opposites one is the other denied."""
        word, yes = match["v"].lower(), not is_denied(match)
        if word in _ENGLISH_ANTONYMS:
            word, yes = _ENGLISH_ANTONYMS[word], not yes
        return ProfileStatement(
            category, [{f"trait:{plain(_SAME_TRAITS.get(word, word))}": YES if yes else NO}]
        )

    def residence(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """Where somebody lives."""
        where = plain(_AFTER_PLACE.split(self.cleaned(match["v"]))[0])
        return ProfileStatement(category, [{"not residence" if is_denied(match) else "residence": where}])

    def origin(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """Where somebody comes from; "born in 1990" is when."""
        where = match["v"] or match["w"]
        return ProfileStatement(
            category, [{"birthday" if _BORN_ON.match(where) else "home town": plain(where)}]
        )

    def named(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """I'm Tom; but I'm British."""
        slot = "nationality" if match["v"].casefold() in _NATIONALITIES else "name"
        return ProfileStatement(category, [{slot: plain(match["v"])}])

    def about_owner(self, clause: str) -> ProfileStatement | None:
        """What is said of the owner though something else is the subject: "family comes first for me"."""
        if match := ENGLISH.FAVOURITE.match(clause):
            return self.favourite(match, "", "preference")
        if not ENGLISH.TO_OWNER.search(clause):
            return None
        value = plain(re.sub(r"(?i)the user|me|my|them|him|her", "", clause))
        return ProfileStatement("value", [{f"value:{value}": YES}])


def _lasting_verb(match: "re.Match[str]") -> str:
    """Have always loved is love, have been vegan is be vegan."""
    if match["verb"] is None:
        return "be "
    return f"{'never ' if match['often'].lower() == 'never' else ''}{match['verb']} "


def _role_and_place(role: str) -> tuple[str, str, str]:
    """A role, and where it is held: "a nurse at Mercy" apart."""
    match = ENGLISH.AFTER_ROLE.search(role)
    return (role[: match.start()], " ", role[match.end() :]) if match else (role, "", "")


# --- Chinese


class ChineseProfile(ProfileRules):
    """The kinds of statements that Chinese has of its own."""

    def statement(self, said: str) -> ProfileStatement | None:
        """What the words after a subject say; of what is at hand (我喜欢这个回答) no memory can name anything."""
        said = CHINESE.IN_DEALING.sub("", said)
        if CHINESE.POINTING.search(said):
            return None
        if (match := CHINESE.NO_MORE.fullmatch(said)) and (was := self.statement(match["was"])) is not None:
            return denied(was)
        return super().statement(said)

    def listed_items(self, value: str) -> list[tuple[str, str]]:
        short = CHINESE.END.sub("", value)
        if not short:
            return []  # 我懂了
        items = [
            CHINESE.END.sub("", part.strip()) for part in CHINESE.LIST.split(short) if part and part.strip()
        ]
        if not items or any(len(item) > 12 for item in items):
            items = [short]  # a long item is a sentence
        verb = match[0] if (match := CHINESE.VERB_BEFORE.match(items[0])) else ""
        # 弹钢琴和吉他: the second is played too, unless it brings a verb of its own.
        full = [items[0], *(item if CHINESE.VERB_BEFORE.match(item) else verb + item for item in items[1:])]
        return [(item, plain(CHINESE.OBJECT_VERBS.sub("", item))) for item in full]

    def job(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """A role, and whom it is held for or where."""
        found, groups = {}, match.groupdict()
        value = groups.get("v") or ""
        if value and groups.get("e") is None and not _is_trade(match[0], value):
            return None
        if value:
            found["occupation"] = plain(_YEARS.sub("", value))
        if groups.get("e"):
            found["workplace" if CHINESE.PLACES.search(groups["e"]) else "employer"] = plain(groups["e"])
        return ProfileStatement(category, [found])

    def trait(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """What somebody is like; of two opposites one is the other denied."""
        groups, slots = match.groupdict(), {}
        yes = not (groups.get("no") or "").startswith(("不", "没"))
        for said in filter(None, (match["v"] or match["w"], groups.get("x"))):  # 开朗外向: two of them
            word, so = plain(said), yes
            if said in _CHINESE_ANTONYMS:
                word, so = _CHINESE_ANTONYMS[said], yes == (said in _AFFIRMING)
            slots[f"trait:{word}"] = YES if so else NO
        return ProfileStatement(category, [slots])

    def major(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """本科 and 硕士 have a subject each: the second does not take the place of the first."""
        return ProfileStatement(category, [{f"major {match['k'] or ''}".strip(): plain(match["v"])}])

    def stopped(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """不再跑步了: what was done, whether as a habit or for the pleasure of it, is done no more."""
        items = self.listed_items(match["v"])
        kinds = ("habit",) if match["often"] else ("like", "habit")  # 不再每天跑步: now and then it may be
        return ProfileStatement(
            category, [{f"{kind}:{plain(one)}": NO for _, one in items[:1] for kind in kinds}]
        )

    def skill(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """英语不太好: how well something is done; said without any "how", nothing is said."""
        how = match[0][match.end("v") - match.start() :]
        if not how:
            return None
        return ProfileStatement(
            category, [{f"can:{plain(match['v'])}": NO if _NOT_WELL.search(how) else YES}]
        )

    def origin(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """来自湖南, 是湖南人; 是好人 says of nobody where they come from."""
        if match[0].startswith("是") and (not match[0].endswith("人") or CHINESE.NO_HOME.search(match[0])):
            return None
        return ProfileStatement(category, [{"home town": plain(match["v"])}])

    def birthday(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """The day, or the year, that somebody was born."""
        return ProfileStatement(category, [{"birthday": compared_day(match["v"])}]) if match["v"] else None

    def age(self, match: "re.Match[str]", _slot: str, category: str) -> ProfileStatement | None:
        """How many years."""
        return ProfileStatement(category, [{"age": str(small_number(match["v"] or match["w"]))}])

    def contact(self, match: "re.Match[str]", slot: str, category: str) -> ProfileStatement | None:
        """Something named by the clause; a telephone's number is no telephone."""
        if match["k"][:2] in ("电话", "手机") and re.search(r"\d{7}", match["v"]):
            return ProfileStatement(category, [{"手机号": plain(match["v"])}])
        return self.keyed(match, slot, category)

    def about_owner(self, clause: str) -> ProfileStatement | None:
        """What is said of the owner though something else is the subject: 对我来说家人最重要."""
        if CHINESE.MATTERS_TO_OWNER.search(clause):
            return ProfileStatement("value", [{f"value:{plain(re.sub('我|用户|他|她', '', clause))}": YES}])
        if match := CHINESE.PRINCIPLE_OF_OWNER.match(clause):
            return ProfileStatement("value", [{f"value:{plain(match['v'])}": YES}])
        if match := CHINESE.TRADE_OF_OWNER.match(clause):
            return self.one(match, "occupation", "career")
        if match := CHINESE.BORN_ON.match(clause):
            return self.birthday(match, "", "preference")
        if match := CHINESE.ABLE_OF_OWNER.match(clause):
            return self.affirmed(match, "can", "ability")
        if match := CHINESE.FAVOURITE_OF_OWNER.match(clause):
            return self.favourite(match, "", "preference")
        if match := CHINESE.CALLED.match(clause) or CHINESE.CALLED_IT.match(clause):
            return self.affirmed(match, "called", "preference")
        return None


def _is_trade(said: str, value: str) -> bool:
    """是一名制琴师: a trade by the shape of the sentence; 是个好人 is none."""
    if CHINESE.OCCUPATIONS.search(value):
        return True
    role = value.rpartition("的")[2]  # 地铁里的调图员
    return (
        not CHINESE.NO_TRADE.search(role)
        and (
            re.match("(?:是|做|当)(?:了)?一?[名位]|[做当干][了过].{1,4}年", said) is not None
            or (len(role) <= 10 and CHINESE.TRADE.search(value) is not None)
        )
        and not (role.endswith("人") and CHINESE.AS_TRADE.match(said) is None)
    )


def compared_day(words: str) -> str:
    """A day as it is compared: 十二月三号 is 12月3日."""
    digits = _NUMBER_OF_DAY.sub(lambda match: str(small_number(match[0])), words)
    return plain(digits).replace("号", "日")


ENGLISH_PROFILE, CHINESE_PROFILE = EnglishProfile(ENGLISH), ChineseProfile(CHINESE)
