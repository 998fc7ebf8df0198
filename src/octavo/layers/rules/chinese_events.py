"""What a Chinese clause speaks of: which kind of event it is, if any, which category else, and whom it names."""

import re
from functools import lru_cache

from octavo.layers.rules.facts import CHINESE, COMMON, OF_LIFE, category_of, is_personal
from octavo.layers.rules.moments import When
from octavo.layers.values import OwnerType


def at_any(found: tuple[When, ...], said: str) -> bool:
    """Whether a clause names no day, and nothing is done: 我早上起不来 is so on all of them."""
    dayless = all(COMMON.DAYLESS.fullmatch(when.words) for when in found)
    return bool(found) and dayless and not CHINESE.ASPECT.search(said)


def event_category(said: str, *, timed: bool, sure: bool, done: bool = False) -> str | None:
    """The event category of what is said after a subject; None when nothing is said to happen.

    `timed`: the clause names a time; `sure`: the subject was named, not only carried over; `done`: an adverb says it is over.
    """
    if CHINESE.STOPPED.fullmatch(said) or (not sure and re.search("太.{1,3}了$", said)):
        return None  # 现在不吃了: of what, the clause before it said; 打工人太难了
    said = CHINESE.BOUGHT.sub("买了", said)  # 买了两张演唱会门票: whatever it is that was bought
    aspect = done or bool(CHINESE.ASPECT.search(said) or CHINESE.GOING_ON.match(said))
    if CHINESE.DECISION.match(said) and not CHINESE.PREPARED.match(said):
        return "decision"
    ahead = CHINESE.AHEAD.match(said) is not None and (timed or sure)
    if not (aspect or timed or ahead):
        return None
    talk, meeting = CHINESE.TALK.search(said), CHINESE.MEETINGS.search(said) or CHINESE.HELD.search(said)
    life = CHINESE.LIFE.search(said)
    if meeting and not any(one and one.start() < meeting.start() for one in (talk, life)):
        return "meeting"
    if (life and not (talk and talk.start() < life.start())) or (CHINESE.OCCASIONS.search(said) and not talk):
        return "event"
    if talk:
        return "conversation"
    if CHINESE.FEELING.match(said):
        return "other"  # before 发烧 is taken for 发
    if timed and CHINESE.DUE.match(said):
        return "event"
    if not (timed or done) and CHINESE.SO_FAR.search(said):
        return None
    if CHINESE.ACTION.match(said):
        return "action"
    state = CHINESE.STATES.search(said) or CHINESE.WEATHER.search(said)
    if state and (timed or sure or aspect):
        return "other"
    # Nothing happens in 没有…; 被老板骂了 happens to the teller, though there is no subject.
    if aspect and ((sure and not CHINESE.LACKING.match(said)) or CHINESE.BY_OWNER.match(said)):
        got = CHINESE.COUNTED.search(said)  # 花半年工资入了把吉他; but 不到五十就老花了, 厂子黄了 last
        return "action" if timed or done or got or not is_personal(said, OF_LIFE) else None
    if not sure or not timed or CHINESE.IS_SO.match(said):
        return None
    return "action" if CHINESE.AHEAD.match(said) or re.match("在[^家这那]《?", said) else "other"


def matters_to_owner(said: str) -> bool:
    """Whether something happened to one of the owner's people that matters to the owner."""
    happened = CHINESE.LIFE.search(said) or CHINESE.OCCASIONS.search(said)
    return happened is not None and CHINESE.ASPECT.search(said) is not None


def only_happens(said: str, timed: bool, dated: bool = False) -> bool:
    """我明天会用邮件发给你: "会" is the future here, not a skill; 4月2号在市民中心办签证 is no work."""
    at_place = re.match("在(?!.*班$)" if dated else "在.*(?:工作(?!$)|读(?!.*年)|租)", said)
    does = timed and not said.endswith("工作") and re.match("会|能|可以|想|做", said)
    return bool((at_place and timed) or does or re.match("会(?:打电话|把|给|去|来|在)", said))


def names_another(said: str, timed: bool) -> bool:
    """小明是医生: the first words are somebody's name."""
    if not CHINESE.NAMED.match(said) or re.match("[家对在和跟与]|.*是我[^，]{1,6}的$", said):
        return False
    category = event_category(said, timed=timed, sure=False)
    return category in (None, "other") and not CHINESE.WEATHER.search(said)


def said_category(said: str) -> str:
    """The category of what the owner says of themselves; 我牙医姓冯 names a trade, and not the owner's."""
    if CHINESE.OF_ANOTHER.match(said):
        return "preference"
    return "education" if CHINESE.BARE_EDUCATION.search(said) else category_of(said)


@lru_cache(maxsize=16)
def owner_patterns(
    owner_type: OwnerType, narrated: bool, pronoun: bool
) -> tuple["re.Pattern[str]", "re.Pattern[str]", "re.Pattern[str]"]:
    """The patterns of the owner's people, of those close to the owner, and of the owner."""
    kind = "AGENT" if owner_type == "agent" else "NARRATED" if narrated else "SPOKEN"
    words = getattr(CHINESE, f"OWNER_{kind}").pattern
    words = f"(?:{words}|他(?!们)|她(?!们))" if pronoun else f"(?:{words})"
    self_ = CHINESE.SELF.pattern
    return (
        re.compile(
            rf"{words}{self_}(?:家)?的?(?:(?:双胞胎|孪生|[大小老二三四堂表干亲前太])?{CHINESE.RELATIONS.pattern}|老[大二三幺](?=[是叫在上刚今])|{CHINESE.SERVING.pattern})(?!是我|的(?:人|工作)|[粮砂窝毛舍包圈])"
        ),
        re.compile(rf"{words}{self_}(?:家)?的?(?:{CHINESE.KIN.pattern})"),
        re.compile(rf"(?P<who>{words}){self_}(?P<of>的)?"),
    )
