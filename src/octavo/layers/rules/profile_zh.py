"""What a Chinese clause says that lasts."""

import re

from octavo.kernel.terms.dates import small_number
from octavo.layers.rules.facts import NO, YES, Statement, denied, plain
from octavo.layers.rules.profile import ProfileRules
from octavo.layers.rules.tables import Table

CHINESE = Table("chinese")
_ANTONYMS, _AFFIRMING = CHINESE.pairs("ANTONYMS"), CHINESE.words["SAME_TRAITS"]
_NO_PEOPLE = ("上班族", "月光族", "家族", "民族", "打工族")
_YEARS = re.compile(rf"^(?:了|过)?(?:{CHINESE.NUMBER.pattern}多?年的?)?")
_NOT_WELL = re.compile("不(?!错)|差|烂|一般")
_NUMBER_OF_DAY = re.compile("[一二三四五六七八九十]+(?=[月日号])")


class ChineseProfile(ProfileRules):
    """The kinds of statements that Chinese has of its own."""

    def statement(self, said: str) -> Statement | None:
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

    def whole(self, match: "re.Match[str]", slot: str, category: str) -> Statement | None:
        """A sentence that is its own value."""
        return Statement(category, [{f"{slot}:{plain(match[0])}": YES}])

    def job(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """A role, and whom it is held for or where."""
        found, groups = {}, match.groupdict()
        value = groups.get("v") or ""
        if value and groups.get("e") is None and not CHINESE.OCCUPATIONS.search(value):
            return None
        if value:
            found["occupation"] = plain(_YEARS.sub("", value))
        if groups.get("e"):
            found["workplace" if CHINESE.PLACES.search(groups["e"]) else "employer"] = plain(groups["e"])
        return Statement(category, [found])

    def trait(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """What somebody is like; of two opposites one is the other denied."""
        word = plain(match["v"])
        yes = not (match.groupdict().get("no") or "").startswith(("不", "没"))
        if match["v"] in _ANTONYMS:
            word, yes = _ANTONYMS[match["v"]], yes == (match["v"] in _AFFIRMING)
        return Statement(category, [{f"trait:{word}": YES if yes else NO}])

    def major(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """本科 and 硕士 have a subject each: the second does not take the place of the first."""
        return Statement(category, [{f"major {match['k'] or ''}".strip(): plain(match["v"])}])

    def skill(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """英语不太好: how well something is done; said without any "how", nothing is said."""
        how = match[0][match.end("v") - match.start() :]
        if not how:
            return None
        return Statement(category, [{f"can:{plain(match['v'])}": NO if _NOT_WELL.search(how) else YES}])

    def origin(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """来自湖南, 是湖南人; 是好人 says of nobody where they come from."""
        if match[0].startswith("是") and (not match[0].endswith("人") or CHINESE.NO_HOME.search(match[0])):
            return None
        return Statement(category, [{"home town": plain(match["v"])}])

    def birthday(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """The day, or the year, that somebody was born."""
        return Statement(category, [{"birthday": compared_day(match["v"])}]) if match["v"] else None

    def age(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """How many years."""
        return Statement(category, [{"age": str(small_number(match["v"] or match["w"]))}])

    def ethnicity(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """汉族; but 上班族 is no people."""
        return None if match["v"].endswith(_NO_PEOPLE) else Statement(category, [{"民族": plain(match["v"])}])

    def contact(self, match: "re.Match[str]", slot: str, category: str) -> Statement | None:
        """Something named by the clause; a telephone's number is no telephone."""
        if match["k"][:2] in ("电话", "手机") and re.search(r"\d{7}", match["v"]):
            return Statement(category, [{"手机号": plain(match["v"])}])
        return self.keyed(match, slot, category)


_PROFILE = ChineseProfile(CHINESE)


def profile_statement(said: str) -> Statement | None:
    """What the words after a subject say that lasts; None when they say nothing of the kind."""
    return _PROFILE.statement(said)


def statement_about_owner(clause: str) -> Statement | None:
    """What is said of the owner though something else is the subject: 对我来说家人最重要."""
    if CHINESE.MATTERS_TO_OWNER.search(clause):
        return Statement("value", [{f"value:{plain(re.sub('我|用户|他|她', '', clause))}": YES}])
    if match := CHINESE.PRINCIPLE_OF_OWNER.match(clause):
        return Statement("value", [{f"value:{plain(match['v'])}": YES}])
    if match := CHINESE.FAVOURITE_OF_OWNER.match(clause):
        return _PROFILE.favourite(match, "", "preference")
    return None


def compared_day(words: str) -> str:
    """A day as it is compared: 十二月三号 is 12月3日."""
    digits = _NUMBER_OF_DAY.sub(lambda match: str(small_number(match[0])), words)
    return plain(digits).replace("号", "日")
