"""What kind of happening a Chinese clause tells, if it tells one."""

import re

from octavo.layers.rules import lexicon_zh as zh

_DECISION = re.compile(
    rf"(?:.{{0,14}}?(?:商量|讨论|考虑|沟通|思考|权衡)(?:之后|以后|过后|后|完|了))?(?:终于|最终|最后|已经|刚|就)*(?:不再|不)?(?:{zh.DECISIONS})(?!权|书|性|好|表)"
)
_PREPARED = re.compile("准备了|准备好|计划书|确定性|定了.{0,6}(?:票|酒店|餐|位)")
_MEETING = re.compile(zh.MEETINGS)
_HELD = re.compile(r"开(?:了|完|过)?(?:一?[个次场])?(?:.{0,10})会(?!员|计|所)")
_OCCASION = re.compile(zh.OCCASIONS)
_LIFE = re.compile(zh.LIFE)
_TALK = re.compile(rf"{zh.TALKS}|打(?:了|过|完)?.{{0,8}}电话|(?:跟|和|与|向|对).{{1,10}}(?:说|讲|吵|谈|聊)")
_BEFORE_ACTION = r"(?:(?:和|跟|同|与|陪|带|给|替|为|把|将|在|从|向|用|对|帮|被|让).{1,16}?)?(?:一起|一块儿?)?(?:要|得|需要|必须|会|将|想|正在|在|正|没有?|不|去|来|能|可以|独自|亲自|自己|连续|顺利|成功|刚刚?|已经|又|再|才|一共)*"
_ACTION = re.compile(_BEFORE_ACTION + zh.ACTIONS)
_GOING_ON = re.compile(rf"(?:正)?在{zh.ACTIONS}")
_BY_OWNER = re.compile(
    "(?:跟|和|被|把|给|陪|带|帮|替).{1,20}[了过完]"
)  # 被老板骂了: without a subject, it is the teller
_STATE = re.compile(zh.STATES)
_WEATHER = re.compile(zh.WEATHER)
_ASPECT = re.compile(r"(?<!除)[了过](?!期|敏|分|程|时)|正在|正[^直式好确常]|完$|好了|已经|刚|没(?!什么|问题)")
_STOPPED = re.compile("不再?.{1,2}了")  # 现在不吃了: of what, the clause before it said
_LACKING = re.compile("没有|从来?没|不")  # nothing happens; 没赶上飞机 does
_AHEAD = re.compile(r"^(?:要|得|将|会|准备|需要|必须|打算|有(?:一?[个场次])?)")
_MOVED = re.compile(
    r"(?:搬家?到|搬去|搬来|搬进|定居到?)了?(?P<to>[\u3400-\u9fffA-Za-z]{2,12}?)(?:了|住|生活)*$"
)
HABIT = re.compile(
    "平时|平常|(?:主要|偶尔|只)(?:喝|吃|用|穿|看|听|玩|写|坐|买|骑|开)|每天|每周|每晚|每年|每个月|经常|常常|总是|通常|一般|习惯|周末都|有空就|没事就|从来"
)


def happening(said: str, *, timed: bool, sure: bool, done: bool = False) -> str | None:
    """The event category of what is said after a subject; None when nothing is said to happen.

    `timed`: the clause names a time; `sure`: the subject was named, not only carried over; `done`: an adverb says it is over.
    """
    if _STOPPED.fullmatch(said):
        return None
    aspect = done or _ASPECT.search(said) is not None or _GOING_ON.match(said) is not None
    if _DECISION.match(said) and not _PREPARED.match(said):
        return "decision"
    ahead = _AHEAD.match(said) is not None and (timed or sure)
    if not (aspect or timed or ahead):
        return None
    talk, meeting = _TALK.search(said), _MEETING.search(said) or _HELD.search(said)
    if meeting and not (talk and talk.start() < meeting.start()):
        return "meeting"
    life = _LIFE.search(said)
    if (life and not (talk and talk.start() < life.start())) or (_OCCASION.search(said) and not talk):
        return "event"
    if talk:
        return "conversation"
    if feeling(said):
        return "other"  # before 发烧 is taken for 发
    if _ACTION.match(said):
        return "action"
    if (_STATE.search(said) or _WEATHER.search(said)) and (timed or sure or aspect):
        return "other"
    if sure and aspect and not _LACKING.match(said):
        return "action"
    if _BY_OWNER.match(said) and aspect:
        return "action"
    return "other" if sure and timed else None


def feeling(said: str) -> bool:
    """Whether a clause only tells how somebody is just now."""
    return (
        re.match(rf"(?:{zh.DEGREES}){{0,3}}(?:感觉|觉得|心情)?(?:{zh.DEGREES}){{0,3}}{zh.STATES}", said)
        is not None
    )


def of_kin(said: str) -> bool:
    """Whether something happened to one of the owner's people that matters to the owner."""
    return (_LIFE.search(said) or _OCCASION.search(said)) is not None and _ASPECT.search(said) is not None


def around_owner(said: str) -> bool:
    """Whether something happened about the owner, of which somebody or something else is the subject."""
    return _WEATHER.search(said) is not None


def moved_to(said: str) -> str | None:
    """Where somebody moved."""
    match = _MOVED.search(said)
    return match["to"] if match else None
