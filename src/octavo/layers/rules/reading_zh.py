"""The facts of a Chinese sentence: clause by clause, each with the subject it speaks of."""

import re

from octavo.layers.rules import lexicon_zh as zh
from octavo.layers.rules.events_zh import HABIT, around_owner, feeling, happening, moved_to, of_kin
from octavo.layers.rules.facts import YES, Fact, Said, plain, words
from octavo.layers.rules.facts_zh import day_of, profile_facts, regardless_of_subject
from octavo.layers.rules.splitting import Sentence, clauses_zh
from octavo.layers.rules.subjects_zh import OTHERS, Subject, fillers, skipped
from octavo.layers.rules.subjects_zh import subject as find_subject
from octavo.layers.rules.telling import DEEPEST, Telling
from octavo.layers.rules.times import times, without_times

_SUPPOSED = re.compile(
    "^(?:如果|要是|假如|假设|倘若|万一|若是|若|除非|一旦|即使|哪怕|就算|假使|倘使|幸好|要不是)|的话$|^(?:.{0,4})(?:要是|如果|假如)"
)
_ASKED = re.compile(
    "什么(?!都)|哪(?!怕|里都)|谁(?!都)|怎么(?!都|也|样都)(?<!不怎么)|怎样|为何|为啥|多少|是不是|有没有|能不能|会不会|要不要|可不可以|是否|好不好|对不对|几点|几个人|吗$|呢$|吧$"
)
_HAS_ASKED = re.compile("(?:问|咨询|请教)(?:了|过|我)")  # 用户问我怎么学英语: told, not asked
_COMMAND = re.compile(
    "^(?:请|帮我|帮忙|麻烦|给我|告诉我|替我|教我|提醒我|让我们|咱们来|别|不要|你|您|再给|再来|继续|列出|推荐|解释|总结一下|翻译一下|看看|能否|能不能|可以帮|我想(?:问|知道|请|让你|了解|查|看)|我要你|我需要你|我希望你(?!以后))"
)
_TO_SAY = re.compile("就?说(?!明|服|话)|内容|主题|标题|大意|意思是|告诉[他她]|跟[他她]说|题目")
_DONE_TALKING = re.compile(
    "(?:懂|明白|知道|清楚|了解|理解|收到|记住|看到|看懂|搞定|错|做错|说错|弄错|打错|搞错|走|来|回来|先走|先撤|服|醉|笑死)了"
)
_DAY_OF_YEAR = re.compile(r"[\d一二三四五六七八九十]月|\d{4}年")
_STANDING = re.compile(
    "(?:以后|今后|从现在(?:起|开始)|每次|一律|永远|下次|始终).*(?:请|用|回答|回复|不要|别|叫我|称呼|给我|写|先)|^(?:请|麻烦)?(?:都|一直|始终|总是)(?:用|给)|^(?:请)?(?:你)?(?:的)?(?:回答|回复|说话|写代码|注释)(?:的?时候|问题)?(?:请)?(?:都|尽量|要|请|必须|可以|不要|别)|^(?:请|你?可以)?(?:叫我|称呼我)"
)
_AS_ONE = re.compile("作为(?:一[名个位])?(?=.)")  # 作为老师，我…
_WITH = re.compile(
    rf"^(?:和|跟|与|同)(?:我|他|她|自己)?的?(?:{zh.RELATIONS}|他|她)[\u3400-\u9fff]{{0,3}}?(?:(?:都|一起)+|(?=住|生活|喜欢|经营|开))"
)  # 和太太住在苏州
_WISHED = re.compile("^(?:用户|我)?(?:希望|要求)")
_REPORT = re.compile(
    r"(?:告诉(?:我|你|大家|助手|AI|客服|他们?)?|(?:跟|对|向|和)(?:我|你|大家|助手|AI|客服|他们?)(?:说起|说过|说|讲|提到|提过|表示|透露)|说|表示|提到|透露|补充|自称|声称|介绍|坦言|强调|(?:觉得|认为|夸|评价|常说|老说)(?=我|他|她|用户))(?:过|了|道|自己)?(?!话|服|明|不定|法|实)"
)
_TOLD = re.compile("^(?:告诉|说|表示|提到|透露|补充|自称|声称|介绍|坦言|强调|跟我说|对我说|向我)")
_OPINION = re.compile("(?:觉得|感觉|认为|发现|承认|意识到|知道|想说|是说)(?:自己|我|他|她)?")

_NAMED = re.compile(
    r"(?:[小老阿][\u3400-\u9fff]|[A-Z][a-z]+|[\u3400-\u9fff]{1,6}?)(?:的[\u3400-\u9fff]{1,4}?)?(?=是|在.{1,12}(?:工作|上班|读)|(?:也|很|最|非常|特别|都|不)*(?:喜欢|讨厌|擅长|精通|会说|会弹|热爱|住在|毕业|重视)|说|叫)"
)


def read_zh(sentence: Sentence, telling: Telling) -> list[Fact]:
    """The facts about the owner in one sentence, in order."""
    found: list[Fact] = []
    telling.when = None
    clauses = clauses_zh(sentence.text)
    ordered = False
    for at, clause in enumerate(clauses):
        if (match := _AS_ONE.match(clause)) and "我" in "".join(clauses[at : at + 2]):
            clause = "我是" + clause[match.end() :].partition("我")[0]  # noqa: PLW2901 - read as what it says
        bare = clause[skipped(clause, 0, telling, leading=True) :]
        if _SUPPOSED.search(clause) or _SUPPOSED.search(bare):
            break  # what follows a condition holds only if it does
        asks = (sentence.asks and at == len(clauses) - 1) or (
            _ASKED.search(clause) is not None and not _HAS_ASKED.search(clause)
        )
        if ordered and _TO_SAY.match(clause):
            break  # 帮我写封邮件，说我病了: whoever says it, it is to be said
        ordered = ordered or _COMMAND.match(bare) is not None
        if not asks:
            found += _clause(clause, telling)
    return found


def _clause(clause: str, telling: Telling, depth: int = 0) -> list[Fact]:
    if depth > DEEPEST:
        return []
    bare = skipped(clause, 0, telling, leading=True)
    if telling.owner_type == "user" and (
        (_STANDING.search(clause) or _STANDING.search(_WISHED.sub("", clause[bare:])))
        and not re.match("我(?!希望)", clause[bare:])
    ):
        wish = _WISHED.sub("", re.sub("请|麻烦|你", "", clause[fillers(clause) :]))
        key = plain(re.sub("我|自己", "", wish))
        return [Fact("profile", "preference", f"用户希望{wish.replace('我', '自己')}", {f"wish:{key}": YES})]
    if _COMMAND.match(clause[bare:]) and not (
        telling.owner_type == "agent" and clause[bare:].startswith(("你", "您"))
    ):
        return []
    if (said := regardless_of_subject(clause, "(?:我|用户|他|她)")) is not None:
        return [Fact("profile", said.category, _named(clause[fillers(clause) :], telling), said.slots[0])]
    subject = find_subject(clause, telling)
    said_text = clause[subject.said :]
    if _DONE_TALKING.fullmatch(said_text):
        return []
    if (match := _REPORT.match(said_text)) and len(match[0]) < len(said_text):
        return _reported(clause, subject, match.end(), telling, depth)
    if subject.owner is not False and (match := _OPINION.match(said_text)) and len(match[0]) < len(said_text):
        if (profile := profile_facts(said_text)) is not None:
            return _facts(profile, clause, subject, telling)
        inner = said_text[match.end() :]
        return _clause((match[0][-1] if match[0][-1] in "我他她" else "") + inner, telling, depth + 1)
    return _said(clause, subject, telling)


def _reported(clause: str, subject: Subject, length: int, telling: Telling, depth: int) -> list[Fact]:
    """What somebody told: of the owner, if the owner told it of themselves or somebody else of the owner."""
    speaker = telling.focus if subject.owner is None else subject.owner
    inner = clause[subject.said + length :]
    before = telling.focus
    telling.focus = speaker
    telling.moment(clause[: subject.said + length])
    found = _clause(inner, telling, depth + 1)
    if found:
        lasting = [fact for fact in found if fact.layer == "profile"]
        telling.focus = True
        return lasting or found
    telling.focus = speaker if subject.owner is not None else before
    if (
        speaker
        and (subject.owner or telling.narrated)  # 说重点 is an order
        and _TOLD.match(clause[subject.said :])
        and telling.focus
        and not OTHERS.match(inner)
        and not re.match(rf"(?:他|她|我)的?{zh.RELATIONS}", inner)
    ):
        return [_event("conversation", clause, subject, telling)]
    return []


def _said(clause: str, subject: Subject, telling: Telling) -> list[Fact]:
    said = clause[subject.said :]
    timed = bool(times(clause, telling.at))
    profile = None if _only_happens(said, timed) else profile_facts(_WITH.sub("", said))
    if subject.owner is False:
        telling.focus = False
        if subject.kin and of_kin(said):
            return [_event("event", clause, subject, telling)]
        return []
    if subject.owner is None and profile is None and _names_another(said, timed):
        telling.focus = False  # 小明是医生: somebody else, and so is whoever "他" is next
        return []
    if subject.owner is None and not telling.focus:
        return []
    if subject.owner:
        telling.focus = True
    if profile is not None:
        return _facts(profile, clause, subject, telling)
    born = "".join(when.words for when in times(clause, telling.at))
    if _DAY_OF_YEAR.search(born) and re.fullmatch("(?:是)?(?:出生|生|过?生日)的?", said):
        return [Fact("profile", "preference", _content(clause, subject, telling), {"birthday": day_of(born)})]
    if HABIT.search(clause) and not re.search("[了过我]", said) and not re.match("在", said):
        return [
            Fact("profile", "preference", _content(clause, subject, telling), {f"habit:{plain(said)}": YES})
        ]
    done = re.search("刚|已经|终于|总算|正", clause[subject.end : subject.said]) is not None
    category = happening(said, timed=timed, sure=subject.owner is True, done=done)
    if (
        category is None
        and (feeling(said) or around_owner(said))
        and (timed or subject.owner or telling.when)
    ):
        category = "other"
    if category == "other" and subject.owner is None and not (around_owner(said) or feeling(said)):
        return []
    return [_event(category, clause, subject, telling)] if category else []


def _names_another(said: str, timed: bool) -> bool:
    if not _NAMED.match(said) or said.startswith(("家", "对", "在")):
        return False
    return happening(said, timed=timed, sure=False) in (None, "other") and not around_owner(said)


def _only_happens(said: str, timed: bool) -> bool:
    """我明天会用邮件发给你: "会" is the future here, not a skill."""
    return (
        timed and re.match("会|能|可以|想|做|在.*(?:工作|读)", said) is not None and not said.endswith("工作")
    ) or re.match("会(?:打电话|把|给|去|来|在)", said) is not None


def _facts(said: Said, clause: str, subject: Subject, telling: Telling) -> list[Fact]:
    if len(said.items) < 2:
        return [_fact(said, slots, _content(clause, subject, telling)) for slots in said.slots]
    begin = clause.find(said.items[0], subject.said)
    head = clause[:begin] if begin > 0 else clause[: subject.said]
    return [
        _fact(said, slots, _content(head + item, subject, telling))
        for slots, item in zip(said.slots, said.items, strict=True)
    ]


def _fact(said: Said, slots: dict[str, str], content: str) -> Fact:
    return Fact("profile", said.category, content, slots)


def _event(category: str, clause: str, subject: Subject, telling: Telling) -> Fact:
    when = telling.moment(clause)
    content = _content(clause, subject, telling)
    said = without_times(clause[fillers(clause) :], telling.at)
    return Fact(
        "event", category, content, {}, words(said),
        negated=re.search("没(?!什么)|不(?!错)|取消", clause[subject.said :]) is not None,
        happened_at=when.at if when else None, time_text=when.words if when else "",
        implied=_implied(clause, telling) if subject.owner is not False else None,
    )  # fmt: skip


def _implied(clause: str, telling: Telling) -> Fact | None:
    """What is so since it happened."""
    if moved := moved_to(clause):
        return Fact("profile", "preference", f"{telling.name_zh}住在{moved}", {"residence": plain(moved)})
    if (match := re.search("(结婚|离婚)了", clause)) and not re.search("[要想快没不]|打算|准备", clause):
        said = {"结婚": "已婚", "离婚": "离异"}[match[1]]
        return Fact("profile", "preference", telling.name_zh + said, {"civil status": plain(said)})
    return None


def _named(text: str, telling: Telling) -> str:
    """The text with the owner's name where it says "I"."""
    if telling.narrated:
        return text
    return re.sub("我们|咱们|我|咱|俺", telling.name_zh, text)


def _content(clause: str, subject: Subject, telling: Telling) -> str:
    """The clause as a statement of its own."""
    start = fillers(clause)
    if subject.owner is None:
        head, tail = telling.name_zh, clause[start:]
    elif subject.owner:
        head, tail = clause[start : subject.start] + telling.name_zh, clause[subject.end :]
    else:
        head, tail = clause[start : subject.start], clause[subject.start :]
        if telling.narrated or not tail.startswith("我"):
            return head + re.sub("^[他她]", telling.name_zh, tail)
        return head + telling.name_zh + ("" if tail[1:2] == "的" else "的") + _named(tail[1:], telling)
    tail = re.sub("^(?:这个人|本人)", "", tail)
    return _named(head, telling).replace(telling.name_zh * 2, telling.name_zh) + _named(tail, telling)
