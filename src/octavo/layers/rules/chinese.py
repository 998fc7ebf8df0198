"""The facts of a Chinese sentence: clause by clause, each with the subject it speaks of."""

import re
from functools import lru_cache
from typing import NamedTuple

from octavo.layers.rules.context import DEEPEST, Context, profile_facts, skipped, time_spans
from octavo.layers.rules.facts import YES, Fact, Statement, plain
from octavo.layers.rules.moments import times
from octavo.layers.rules.profile_zh import CHINESE, compared_day, profile_statement, statement_about_owner
from octavo.layers.rules.sentences import Sentence, clauses_zh
from octavo.layers.values import OwnerType

_NAMES: dict[OwnerType, str] = {"user": "用户", "agent": "智能体"}


class Subject(NamedTuple):
    """Who a clause speaks of (None: it does not say), where that is written, and where what is said begins."""

    owner: bool | None
    start: int
    end: int
    said: int
    kin: bool = False


def read_chinese(sentence: Sentence, context: Context) -> list[Fact]:
    """The facts about the owner in one sentence, in order."""
    found: list[Fact] = []
    context.when = None
    clauses = clauses_zh(sentence.text)
    ordered = False
    for at, written in enumerate(clauses):
        clause = written
        if (match := CHINESE.AS_ONE.match(clause)) and "我" in "".join(clauses[at : at + 2]):
            clause = "我是" + clause[match.end() :].partition("我")[0]  # 作为老师，我…
        bare = clause[_after_leading(clause, context) :]
        if CHINESE.SUPPOSED.search(clause) or CHINESE.SUPPOSED.search(bare):
            break  # what follows a condition holds only if it does
        # 用户问我怎么学英语: told, not asked
        asks = CHINESE.ASKED.search(clause) is not None and not CHINESE.HAS_ASKED.search(clause)
        if ordered and CHINESE.TO_SAY.match(clause):
            break  # 帮我写封邮件，说我病了: whoever says it, it is to be said
        ordered = ordered or CHINESE.COMMAND.match(bare) is not None
        if not asks and not (sentence.asks and at == len(clauses) - 1):
            found += _clause_facts(clause, context)
    return found


# --- clauses


def _clause_facts(clause: str, context: Context, depth: int = 0) -> list[Fact]:
    if depth > DEEPEST:
        return []
    bare = clause[_after_leading(clause, context) :]
    standing = CHINESE.STANDING.search(clause) or CHINESE.STANDING.search(CHINESE.WISHED.sub("", bare))
    if context.owner_type == "user" and standing and not re.match("我(?!希望)", bare):
        wish = CHINESE.WISHED.sub("", re.sub("请|麻烦|你", "", clause[_after_fillers(clause) :]))
        key = plain(re.sub("我|自己", "", wish))
        return [Fact("profile", "preference", f"用户希望{wish.replace('我', '自己')}", {f"wish:{key}": YES})]
    to_agent = context.owner_type == "agent" and bare.startswith(("你", "您"))
    if CHINESE.COMMAND.match(bare) and not to_agent:
        return []
    if (statement := statement_about_owner(clause)) is not None:
        content = _with_name(clause[_after_fillers(clause) :], context)
        return [Fact("profile", statement.category, content, statement.slots[0])]
    subject = _subject(clause, context)
    said = clause[subject.said :]
    if CHINESE.DONE_TALKING.fullmatch(said):
        return []
    if (match := CHINESE.REPORT.match(said)) and len(match[0]) < len(said):
        return _reported(clause, subject, match.end(), context, depth)
    if subject.owner is not False and (match := CHINESE.OPINION.match(said)) and len(match[0]) < len(said):
        if (profile := profile_statement(said)) is not None:
            return _profile_facts(profile, clause, subject, context)
        whose = match[0][-1] if match[0][-1] in "我他她" else ""
        return _clause_facts(whose + said[match.end() :], context, depth + 1)
    return _owner_facts(clause, subject, context)


def _reported(clause: str, subject: Subject, length: int, context: Context, depth: int) -> list[Fact]:
    """What somebody told: of the owner, if the owner told it of themselves or somebody else of the owner."""
    before = context.about_owner
    speaker = before if subject.owner is None else subject.owner
    inner = clause[subject.said + length :]
    context.about_owner = speaker
    context.moment(clause[: subject.said + length])
    if found := _clause_facts(inner, context, depth + 1):
        context.about_owner = True
        return [fact for fact in found if fact.layer == "profile"] or found
    context.about_owner = speaker if subject.owner is not None else before
    if (
        speaker
        and (subject.owner or context.narrated)  # 说重点 is an order
        and CHINESE.TOLD.match(clause[subject.said :])
        and context.about_owner
        and not CHINESE.OTHERS.match(inner)
        and not re.match(rf"(?:他|她|我)的?{CHINESE.RELATIONS.pattern}", inner)
    ):
        return [_event("conversation", clause, subject, context)]
    return []


def _owner_facts(clause: str, subject: Subject, context: Context) -> list[Fact]:
    """What the words after a subject say: something that lasts, a habit, or something that happened."""
    said = clause[subject.said :]
    found = times(clause, context.at)
    timed = bool(found)
    profile = None if _only_happens(said, timed) else profile_statement(CHINESE.WITH.sub("", said))
    if subject.owner is False:
        context.about_owner = False
        return [_event("event", clause, subject, context)] if subject.kin and _matters_to_owner(said) else []
    if subject.owner is None and profile is None and _names_another(said, timed):
        context.about_owner = False  # 小明是医生: somebody else, and so is whoever "他" is next
        return []
    if subject.owner is None and not context.about_owner:
        return []
    if subject.owner:
        context.about_owner = True
    if profile is not None:
        return _profile_facts(profile, clause, subject, context)
    day = "".join(when.words for when in found)
    if CHINESE.DAY_OF_YEAR.search(day) and re.fullmatch("(?:是)?(?:出生|生|过?生日)的?", said):
        slots = {"birthday": compared_day(day)}
        return [Fact("profile", "preference", _content(clause, subject, context), slots)]
    if CHINESE.HABIT.search(clause) and not re.search("[了过我]", said) and not said.startswith("在"):
        slots = {f"habit:{plain(said)}": YES}
        return [Fact("profile", "preference", _content(clause, subject, context), slots)]
    done = re.search("刚|已经|终于|总算|正", clause[subject.end : subject.said]) is not None
    category = event_category(said, timed=timed, sure=subject.owner is True, done=done)
    about_owner = _is_feeling(said) or CHINESE.WEATHER.search(said) is not None
    if category is None and about_owner and (timed or subject.owner or context.when):
        category = "other"
    if category == "other" and subject.owner is None and not about_owner:
        return []
    return [_event(category, clause, subject, context)] if category else []


def _names_another(said: str, timed: bool) -> bool:
    if not CHINESE.NAMED.match(said) or said.startswith(("家", "对", "在")):
        return False
    category = event_category(said, timed=timed, sure=False)
    return category in (None, "other") and not CHINESE.WEATHER.search(said)


def _only_happens(said: str, timed: bool) -> bool:
    """我明天会用邮件发给你: "会" is the future here, not a skill."""
    if re.match("会(?:打电话|把|给|去|来|在)", said):
        return True
    return timed and not said.endswith("工作") and bool(re.match("会|能|可以|想|做|在.*(?:工作|读)", said))


# --- subjects


def _after_fillers(clause: str) -> int:
    """Where a clause begins after the words that only lead to it."""
    return skipped(clause, 0, [CHINESE.FILLER])


def _after_leading(clause: str, context: Context) -> int:
    """Where a clause begins after its fillers, adverbs and times."""
    return skipped(clause, 0, [CHINESE.FILLER, CHINESE.ADVERB], time_spans(clause, context))


@lru_cache(maxsize=16)
def _owner_patterns(
    owner_type: OwnerType, narrated: bool, pronoun: bool
) -> tuple["re.Pattern[str]", "re.Pattern[str]", "re.Pattern[str]"]:
    """The patterns of the owner's people, of those close to the owner, and of the owner."""
    if owner_type == "agent":
        words = "我们|我|本人|智能体|本助手|该助手|助手|代理|机器人|AI助手|你|(?:这个|该|本)agent|Agent|agent"
    elif narrated:
        words = "该用户|这位用户|本用户|用户"
    else:
        words = "我们团队|我们组|我们|咱们|咱|我|本人|俺|用户"
    words = f"(?:{words}|他(?!们)|她(?!们))" if pronoun else f"(?:{words})"
    self_ = CHINESE.SELF.pattern
    return (
        re.compile(rf"{words}{self_}(?:家)?的?(?:{CHINESE.RELATIONS.pattern})(?!是我|的(?:人|工作))"),
        re.compile(rf"{words}{self_}(?:家)?的?(?:{CHINESE.KIN.pattern})"),
        re.compile(rf"(?P<who>{words}){self_}(?P<of>的)?"),
    )


def _subject(clause: str, context: Context) -> Subject:
    """Whom the clause speaks of: the owner of the memory, somebody else, or whoever was spoken of before."""
    at = _after_leading(clause, context)
    spans = time_spans(clause, context)

    def subject(owner: bool, written: int, end: int, kin: bool = False) -> Subject:
        return Subject(owner, at, written, skipped(clause, end, [CHINESE.ADVERB], spans), kin)

    people, close, owner = _owner_patterns(context.owner_type, context.narrated, context.pronoun_is_owner)
    if match := people.match(clause, at):
        name = CHINESE.NAME_AFTER.match(clause, match.end())
        end = name.end() if name else match.end()
        return subject(False, end, end, kin=close.match(clause, at) is not None)
    if match := owner.match(clause, at):
        return subject(True, match.end("who"), match.end())
    if match := CHINESE.OTHERS.match(clause, at):
        return subject(False, match.end(), match.end())
    if context.narrated and clause.startswith(("我", "助手"), at):
        return subject(False, at + 1, at + 1)
    return Subject(None, at, at, at)


# --- events


def event_category(said: str, *, timed: bool, sure: bool, done: bool = False) -> str | None:
    """The event category of what is said after a subject; None when nothing is said to happen.

    `timed`: the clause names a time; `sure`: the subject was named, not only carried over; `done`: an adverb says it is over.
    """
    if CHINESE.STOPPED.fullmatch(said):  # 现在不吃了: of what, the clause before it said
        return None
    aspect = done or bool(CHINESE.ASPECT.search(said) or CHINESE.GOING_ON.match(said))
    if CHINESE.DECISION.match(said) and not CHINESE.PREPARED.match(said):
        return "decision"
    ahead = CHINESE.AHEAD.match(said) is not None and (timed or sure)
    if not (aspect or timed or ahead):
        return None
    talk, meeting = CHINESE.TALK.search(said), CHINESE.MEETINGS.search(said) or CHINESE.HELD.search(said)
    if meeting and not (talk and talk.start() < meeting.start()):
        return "meeting"
    life = CHINESE.LIFE.search(said)
    if (life and not (talk and talk.start() < life.start())) or (CHINESE.OCCASIONS.search(said) and not talk):
        return "event"
    if talk:
        return "conversation"
    if _is_feeling(said):
        return "other"  # before 发烧 is taken for 发
    if CHINESE.ACTION.match(said):
        return "action"
    state = CHINESE.STATES.search(said) or CHINESE.WEATHER.search(said)
    if state and (timed or sure or aspect):
        return "other"
    # Nothing happens in 没有…; 被老板骂了 happens to the teller, though there is no subject.
    if aspect and ((sure and not CHINESE.LACKING.match(said)) or CHINESE.BY_OWNER.match(said)):
        return "action"
    return "other" if sure and timed else None


def _is_feeling(said: str) -> bool:
    """Whether a clause only tells how somebody is just now."""
    return CHINESE.FEELING.match(said) is not None


def _matters_to_owner(said: str) -> bool:
    """Whether something happened to one of the owner's people that matters to the owner."""
    happened = CHINESE.LIFE.search(said) or CHINESE.OCCASIONS.search(said)
    return happened is not None and CHINESE.ASPECT.search(said) is not None


# --- facts


def _profile_facts(statement: Statement, clause: str, subject: Subject, context: Context) -> list[Fact]:
    return profile_facts(statement, clause, subject.said, "", lambda text: _content(text, subject, context))


def _event(category: str, clause: str, subject: Subject, context: Context) -> Fact:
    return context.event(
        category,
        clause,
        _content(clause, subject, context),
        begins=_after_fillers(clause),
        negated=re.search("没(?!什么)|不(?!错)|取消", clause[subject.said :]) is not None,
        implied=_implied(clause, context) if subject.owner is not False else None,
    )


def _implied(clause: str, context: Context) -> Fact | None:
    """What is so since it happened."""
    name = _NAMES[context.owner_type]
    if match := CHINESE.MOVED.search(clause):
        return Fact("profile", "preference", f"{name}住在{match['to']}", {"residence": plain(match["to"])})
    if (match := re.search("(结婚|离婚)了", clause)) and not re.search("[要想快没不]|打算|准备", clause):
        status = {"结婚": "已婚", "离婚": "离异"}[match[1]]
        return Fact("profile", "preference", name + status, {"civil status": plain(status)})
    return None


def _with_name(text: str, context: Context) -> str:
    """The text with the owner's name where it says "I"."""
    return text if context.narrated else re.sub("我们|咱们|我|咱|俺", _NAMES[context.owner_type], text)


def _content(clause: str, subject: Subject, context: Context) -> str:
    """The clause as a statement of its own."""
    start, name = _after_fillers(clause), _NAMES[context.owner_type]
    if subject.owner is None:
        head, tail = name, clause[start:]
    elif subject.owner:
        head, tail = clause[start : subject.start] + name, clause[subject.end :]
    else:
        head, tail = clause[start : subject.start], clause[subject.start :]
        if context.narrated or not tail.startswith("我"):
            return head + re.sub("^[他她]", name, tail)
        return head + name + ("" if tail[1:2] == "的" else "的") + _with_name(tail[1:], context)
    tail = re.sub("^(?:这个人|本人)", "", tail)
    return _with_name(head, context).replace(name * 2, name) + _with_name(tail, context)
