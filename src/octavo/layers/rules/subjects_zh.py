"""Whom a Chinese clause speaks of: the owner of the memory, somebody else, or whoever was spoken of before."""

import re
from functools import lru_cache
from typing import NamedTuple

from octavo.layers.deciding import OwnerType
from octavo.layers.rules import lexicon_zh as zh
from octavo.layers.rules.telling import Telling
from octavo.layers.rules.times import times

# 对花生过敏 is no "yes, 花生过敏".
_FILLER = re.compile(
    rf"(?!对(?![我他她咱用本，,\s了的])){zh.FILLERS}[，,\s]*|(?:比起|相比|除了)[^，,我]{{1,12}}[，,\s]?(?=我)"
)
_ADVERB = re.compile(
    rf"(?!已婚|就[读职业]|先生|总[监经裁]|正[直式义]|还[款书钱算]|都市|只[有要]|再见|应该|主要是|可能性|特别喜|才[艺能])(?:正(?=在.{{1,20}}(?:{zh.SCHOOL}|工作|上班|任职|实习|公司))|(?:{zh.ADVERBS})(?!的人))|\s+"
)
_SELF = r"(?:这个人|本人|自己|个人|这人)?"
OTHERS = re.compile(
    rf"(?:他们|她们|它们|你们|大家|别人|有人|某人|人家|他|她|它|你|您|谁)(?:的)?(?:{zh.RELATIONS})?|(?:这|那)(?:个|位|些).{{0,4}}|(?:有个|一个|某个|几个)?(?:{zh.RELATIONS})们?(?!是|的人)[\u3400-\u9fff]{{0,3}}?(?=是|在|喜欢|会|也|都|说|很|今|昨|爱|有|想|要|去|不|的|叫|擅|毕|住|来|$|觉|认|刚|正|结)"
)
_NAME_AFTER = re.compile(
    r"[\u3400-\u9fff]{0,3}?(?=是|在|喜欢|会|也|都|说|很|今|昨|前|上|爱|有|想|要|去|不|叫|擅|毕|住|来|觉|认|刚|正|结|的|生|考|怀|$)"
)


class Subject(NamedTuple):
    """Who a clause speaks of (None: it does not say), where that is written, and where what is said begins."""

    owner: bool | None
    start: int
    end: int
    said: int
    kin: bool = False


def fillers(clause: str) -> int:
    """Where a clause begins after the words that only lead to it."""
    at = 0
    while match := _FILLER.match(clause, at):
        at = match.end()
    return at


def skipped(clause: str, at: int, telling: Telling, *, leading: bool = False) -> int:
    """Where a clause goes on after the times and adverbs, and the fillers if they lead it, that stand at `at`."""
    spans = {when.start: when.end for when in times(clause, telling.at)}
    while at < len(clause):
        match = (_FILLER.match(clause, at) if leading else None) or _ADVERB.match(clause, at)
        # 今后 is a time too: the longer reading counts.
        end = max(spans.get(at, at), match.end() if match else at)
        if end == at:
            return at
        at = end
    return at


@lru_cache(maxsize=16)
def _owner(
    owner_type: OwnerType, narrated: bool, pronoun: bool
) -> tuple["re.Pattern[str]", "re.Pattern[str]", "re.Pattern[str]"]:
    """The patterns of the owner's people, of those close to the owner, and of the owner."""
    if owner_type == "agent":
        words = "我们|我|本人|智能体|本助手|该助手|助手|代理|机器人|AI助手|你|(?:这个|该|本)agent|Agent|agent"
    else:
        words = "该用户|这位用户|本用户|用户" if narrated else "我们团队|我们组|我们|咱们|咱|我|本人|俺|用户"
    words = f"(?:{words}|他(?!们)|她(?!们))" if pronoun else f"(?:{words})"
    people = rf"{words}{_SELF}(?:家)?的?"
    return (
        re.compile(rf"{people}(?:{zh.RELATIONS})(?!是我|的(?:人|工作))"),
        re.compile(rf"{people}(?:{zh.KIN})"),
        re.compile(rf"(?P<who>{words}){_SELF}(?P<of>的)?"),
    )


def subject(clause: str, telling: Telling) -> Subject:
    """Whom the clause speaks of."""
    at = skipped(clause, 0, telling, leading=True)
    # A pronoun is the owner unless the text says "I" for the owner, or has just spoken of somebody else.
    pronoun = telling.focus and not (telling.first_person and not telling.narrated)
    people, close, owner = _owner(telling.owner_type, telling.narrated, pronoun)
    if match := people.match(clause, at):
        name = _NAME_AFTER.match(clause, match.end())
        end = name.end() if name else match.end()
        return Subject(False, at, end, skipped(clause, end, telling), kin=close.match(clause, at) is not None)
    if match := owner.match(clause, at):
        return Subject(True, at, match.end("who"), skipped(clause, match.end(), telling))
    if match := OTHERS.match(clause, at):
        return Subject(False, at, match.end(), skipped(clause, match.end(), telling))
    if telling.narrated and clause.startswith(("我", "助手"), at):
        return Subject(False, at, at + 1, skipped(clause, at + 1, telling))
    return Subject(None, at, at, at)
