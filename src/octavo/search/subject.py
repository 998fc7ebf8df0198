"""Whom a question asks about, and whom a text tells of: the person whose memory it is, or somebody else.

"Where do I live?" is not answered by where a teacher lives, though both are about the same, in the same words.
"""

import asyncio
import functools
import re
from collections.abc import Collection

from octavo.kernel.model import Record
from octavo.kernel.terms import TOPIC_PREFIX
from octavo.kernel.terms.dates import MONTH_NAMES, WEEKDAY_NAMES
from octavo.kernel.terms.english import STOP_WORDS
from octavo.kernel.terms.terms import is_unspaced, simplify, terms
from octavo.kernel.terms.topics import SURNAMES, says_topic, topics
from octavo.kernel.text import lazy_pattern

OWN, OTHER, UNKNOWN = 1, -1, 0

# It has no case, and to look for the other case of each of twenty thousand characters takes longer than all the rest.
_HAN = r"(?-i:[\u4e00-\u9fff])"
# People and animals that somebody has.
_PEOPLE = (
    "wife|husband|spouse|partner|boyfriend|girlfriend|fianc[eé]e?|hubby|missus|ex|mother|father|mum|mom|mam|dad|mummy|mommy|daddy|papa|parents?|folks|"
    r"brothers?|sisters?|siblings?|twins?|sons?|daughters?|kids?|child|children|boys?|girls?|baby|toddler|eldest|oldest|youngest|(?:younger|older|middle|little) (?:one|guy)|(?:step|god|grand)\w+|"
    r"gran|granny|nan|nana|lola|lolo|kuya|mammy|fella|bloke|lad|gf|bf|hubby|roomie|uncle|aunt|auntie|cousins?|nieces?|nephews?|\w+-in-law|in-laws|friends?|mates?|buddy|pal|bestie|boss|manager|supervisor|"
    "colleagues?|co-?workers?|workmate|dispatcher|madam|apprentice|employees?|trainee|deckhand|neighbou?rs?|tenant|lodger|flatmates?|roommates?|housemates?|teacher|tutor|professor|coach|trainer|"
    "instructor|mentor|lecturer|classmates?|cats?|dogs?|pupp(?:y|ies)|kittens?|pets?|hamsters?|rabbits?|parrots?|budgie|horses?|pony|tortoise"
)
_PEOPLE_CHINESE = (
    "老婆|妻子|[老爱亡]妻|内[子人]|婆[娘姨]|[长次幼][子女]|崽|伢|爱人|媳妇|太太|老公|丈夫|对象|男朋友|女朋友|前?[男女]友|伴侣|未婚[夫妻]|前[夫妻任]|老伴|妈|爸|母亲|父亲|爹|娘|父母|爷爷|奶奶|外[公婆]|姥[姥爷]|祖[父母]"
    "|[表堂大二三小]?[哥姐弟妹]|嫂|兄弟|儿子|女儿|闺女|孩子|小孩|[大小]?娃|[大细][仔女]|宝宝|孙子|孙女|外孙|外甥|侄[子女儿]|儿媳|女婿|公公|婆婆|岳[父母]|丈母娘|老丈人"
    "|叔|伯|舅|[大小二]?姑|[大小二]?姨(?!妈[期巾])|婶|[老女男]?(?:最?好)?朋友|闺蜜|死党|发小|哥们|[老女男]?同学|同桌|室友|舍友|同事|搭档|老板|领导|上司|经理|主管|组长"
    rf"|下属|客户|亲戚|班主任|导师|教授|师[父傅兄姐弟妹]|教练|徒弟|学生|伙计|店员|员工|租客|邻居|[老]?战友|网友|{_HAN}?(?:老师|师傅|阿姨|叔叔|大爷|大妈|总(?![是共计会算]))|[小大]?[猫狗](?![粮砂])|宠物|鹦鹉|乌龟|仓鼠|兔子"
    # 老孟, 阿岚
    rf"|阿(?![司里拉]){_HAN}|[老小][{SURNAMES}]"
)
_ABOUT_PEOPLE = frozenset(
    TOPIC_PREFIX + topic
    for topic in ("family", "partner", "parents", "siblings", "children", "friends", "pets", "boss", "teacher", "neighbours", "wedding", "landlord")
)  # fmt: skip
#: Topics that are somebody: who asks about their job asks for more than that they are there.
PEOPLE = frozenset(
    TOPIC_PREFIX + topic
    for topic in (
        "partner", "parents", "mother", "father", "siblings", "brother", "sister", "children", "son", "daughter", "grandchildren",
        "grandparents", "grandmother", "grandfather", "uncle", "aunt", "cousin", "inlaws", "fatherinlaw", "motherinlaw",
        "childinlaw", "friends", "boss", "teacher", "neighbours", "landlord", "pets", "dog", "cat",
    )
)  # fmt: skip
_ANYBODY = lazy_pattern(r"\b(?:who|whose|person|people|someone)\b|谁|和|跟|的人", re.IGNORECASE)
_MY, _ME = r"(?:my|our|(?:the )?user's)\s+", "(?:我们|我|俺|咱们?|本人|用户)"
_THEIRS = rf"(?:[\w-]+\s+){{0,2}}?(?:{_PEOPLE})\b"
_OWN = lazy_pattern(
    rf"\b(?:(?:i|i'?m|i'?ve|i'd|i'll|me|mine|myself|we|we're|we've|we'd|us|ours|the user)\b(?!'s)|{_MY}(?!{_THEIRS})\w)"
    rf"|{_ME}(?:自己|家)?的?(?!{_PEOPLE_CHINESE})",
    re.IGNORECASE,
)
# "What does Pearl play?", "Inés's job"
_ASKED_BY_NAME = lazy_pattern(
    r"\b(?:is|are|was|were|does|did|do|has|had|can|will|'s)\s+(?:(?:Mrs?|Ms|Dr)\.?\s+)?(?!I\b)[A-ZÀ-Ý]\w+"
    r"|\b(?!It|What|Who|Where|That|How|Let|When|There|Here)[A-ZÀ-Ý]\w+'s\b"
)
_OTHER_FIRST = lazy_pattern(
    rf"\W*(?:(?:and|but|so|oh|well|also)\s+)?(?:(?:{_MY}|(?:the|his|her)\s+){_THEIRS}|(?:he|she|his|her)\b)"
    # "I have a son named Leo": what is told by name is his.
    rf"|\W*(?:i|we)(?:'ve| have)? (?:have|had|got|adopted)\s+(?:[\w-]+\s+){{0,3}}?(?:{_PEOPLE})\b[^,;]*?\b(?:named|called)\b"
    rf"|\W*{_ME}(?:家里?)?(?:有|养了?|领养了?)[^，。]{{0,6}}?(?:{_PEOPLE_CHINESE})[^，。]{{0,3}}?叫"
    rf"|\W*(?:但|而|不过|对了|其实|现在|今天|昨天|明天|上周|上个月|去年)*(?:{_ME}?(?:家里?|{_HAN}{{2}}的)?的?(?:{_PEOPLE_CHINESE})|[他她它])",
    re.IGNORECASE,
)
# "Inés lives in Brixton", "Tom (my husband) works nights", "Pearl's dog", and not "Moved to Leeds".
_NAME_FIRST = lazy_pattern(
    r"\W*(?:(?:Mrs?|Ms|Dr|Miss)\.?\s+)?(?!(?:Run|Use|Take|Put|Make|Keep|Send|Check|Add|Set|Get|Buy|Bring|Avoid|Write|Read|Book|Try|Give|Move|Open|Close|Push|Start|Stop)\b)([A-ZÀ-Ý][\w-]+)(?:\s?\([^()]{1,40}\)|,\s(?:my|our)\s[\w-]+(?:\s[\w-]+)?,)?"
    r"(?:'s\s|(?:\s+and\s+[A-ZÀ-Ý]\w+)?\s+(?:is|was|are|were|has|had|can|can't|will|won't|would|used|did|does|doesn't|got|went|made|took|came|said|told|left|lost|won|broke|bought|found|gave|grew|ran|met|\w{2,}[^s\W]s|\w+ed)\s)"
)
#: "my sister maddie is 6": a name as somebody types it who types no capitals.
NAMED_KIN = lazy_pattern(
    rf"\b(?:{_PEOPLE}),? (?!(?:is|was|has|had|and|who|got|the|just|now|still|also|always|never|really|who|that|this|in|at|on|from|for|to|he|she|they)\b)[a-z]{{3,}}"
    r"(?= (?:is|was|has|had|and|who|got|works?|lives?|goes|said|says|keeps|wants)\b|[,(]|'s\b|$)"
)
# What only people do.
_DOES_CHINESE = (
    "(?=(?:超|很|特别|可|真|最|还|也)?(?:住(?!.?$)|租在|养了|家养|练的|学的|读|念|怕|喜欢|讨厌|最[喜爱怕]|爱[吃喝看听玩]|会(?!员|议)|考[上了]|嫁|毕业|有点|今年|明年|下个?月|想|要去|属.的|生日|不[吃喝]"
    "|是[^，]{1,8}[人的]|在[^，]{1,8}(?:上班|工作|打工|读|当|做)))"
)
# 安然住单位宿舍, 桂芬学的是模特步: after what is neither a time, a manner nor a thing.
_NAME_FIRST_CHINESE = lazy_pattern(
    "(?![一二三四五六七八九十两几不没也还都就又很最太更每这那哪今昨明后前上下早晚中从打平现目如以之当刚正已曾终总经常有真其自主即原大小老阿可应好至特居周月年个双第我你他她它"
    "跟和与在把给为对让被请租借搬暂独合同定是但偶本谁感突尤确的稍容忽听非倘据去])"
    rf"([\u4e00-\u9fff]{{2,3}}?)(?<![也还不很都就又全着能]){_DOES_CHINESE}"
)
#: Characters of given names.
_GIVEN = frozenset(
    "伟芳娜敏静丽强磊洋勇艳杰娟涛超秀霞刚桂英华玉兰志佳琪欣怡婷雪梅琳晶莹颖倩雯萱涵妍悦思彤嘉诗梦洁瑶曼薇菲晓宇浩轩泽辰子豪博睿俊凯鹏翔峰宁安然若楠知念晨阳曦昊翰君晴月芬莲珍琴燕红丹青云帆航哲恒诚毅斌彬辉建国庆海岚蓉蕾璐媛淑慧贤德瑞祥康健柏芷亦舟阮"
)
_NICKNAME_FIRST = lazy_pattern(
    rf"(?:阿(?![司里拉妈爸爷公婆嬷姨姐哥弟妹叔伯娘爹嫂])[\u4e00-\u9fff]|[老小][{SURNAMES}]){_DOES_CHINESE}"
)
# "My wife Funmi", 我叔叔, "Funmi hates", 读书会的时间是; and what they are called: "my dog is called Biscuit", 我叔叔叫王志强.
_SUBJECTS = tuple(
    map(
        lazy_pattern,
        (
            rf"\W*(?i:{_MY}|(?:the|his|her)\s+)(?:[\w-]+\s+){{0,2}}?(?i:({_PEOPLE}))\b(?:,?\s+([A-ZÀ-Ý]\w+))?",
            rf"\W*{_ME}?(?:家里?)?的?({_PEOPLE_CHINESE})",
            _NAME_FIRST.pattern,
            r"([^，。的\s]{2,20})的[^，。的]{1,8}(?:是|在|有|叫)",
        ),
    )
)
_CALLED = lazy_pattern(
    r"\b(?:called|named|name is|name's) ([A-ZÀ-Ý]\w+)|(?:叫做?|名叫|名字是|姓名是)([\u4e00-\u9fff]{2,3})(?![\u4e00-\u9fff])"
)
_CALLED_NAME = lazy_pattern(
    rf"(?<!^)(?<![.!?] )\b(?!I\b|I'|Mrs?\b|Ms\b|Dr\b|(?i:{MONTH_NAMES}|{WEEKDAY_NAMES})\b)[A-ZÀ-Ý][\w-]+"
)
_CALLED_MY = lazy_pattern(
    rf"\b{_MY}(?:[\w-]+\s+){{0,2}}?({_PEOPLE})\b|{_ME}(?:家里?)?的?({_PEOPLE_CHINESE})", re.IGNORECASE
)
_CALLED_LOWER = lazy_pattern(
    r"(?:\b(?:do|does|did|is|are|was|were|has|had|will|can)|'s)\s+([a-zà-ÿ]\w+)|\b([a-zà-ÿ]\w+)'s\b|^\W*[那这]?([\u4e00-\u9fff]{2})|([A-Za-z]\w+) ?(?=[\u4e00-\u9fff])"
)
_NAMES = lazy_pattern(
    r"(?<=[a-z,;:] )(?!I\b)([A-ZÀ-Ý]\w+)|([A-Z]\w+)(?= ?[\u4e00-\u9fff])"
    r"|(?:叫做?|小名|名字是|姓名是)([\u4e00-\u9fff]{2,3}?)(?![\u4e00-\u9fff])"
)
_NAMES_OF_KIN = lazy_pattern(
    rf"(?:{_PEOPLE_CHINESE})(([\u4e00-\u9fff])\2|[{SURNAMES}][\u4e00-\u9fff]{{1,2}}?(?=[在是从给跟和的说买去来，。有会也拿搬考怀嫁]|$))"
)
_MINE = lazy_pattern(r"\bmine\b|我的(?=是|在|呢|则|$)", re.IGNORECASE)
_CLAUSE_END = lazy_pattern(
    r"[.!?;:]\s+|\n+|[，。！？；：、]"
    r"|(?:,|,?\s(?:and|but|so|while|because))\s+(?=(?:I|I'm|I've|we|my|mine|he|she|his|her)\b)|,\s+(?=[A-ZÀ-Ý])"
)

# Who says a text, as transcripts have it: "Anna: I moved to Bergen", 小明：我搬家了. But 用户：… is a memory, kept as it was typed.
_SPEAKER = lazy_pattern(
    r"\s*(?!用户|(?i:the user|the agent):)([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}) ?[:：](?!//)"
)
_LONGEST_SPEAKER = 40
_ROLES = frozenset(
    ("user", "assistant", "system", "tool", "function", "developer", "human", "ai", "agent", "bot")
)


async def load() -> None:
    """Compile the patterns, once: it takes a tenth of a second, for which no event loop should stand still."""
    if not _compile.cache_info().currsize:
        await asyncio.to_thread(_compile)


@functools.cache
def _compile() -> None:
    """Try every pattern on what none of them fits."""
    asks_own("x", ())
    told_of("x", ())
    for tries in (persons_in, subjects_of, begins_with_name):
        tries("x")
    names_in("é")


def asks_own(question: str, about: Collection[str]) -> bool:
    """Whether a question asks about the person whose memory it is, and nobody else; `about` are its terms."""
    question = question.replace("’", "'")
    if _ANYBODY.search(question) or not _ABOUT_PEOPLE.isdisjoint(about) or _OTHER_FIRST.match(question):
        return False
    return bool(_OWN.search(question)) and not _ASKED_BY_NAME.search(question)


def persons_in(question: str) -> set[str]:
    """The terms by which a question calls those it asks about, if they are others: "my brother", 我弟, "Trixie"."""
    question = question.replace("’", "'")
    if names := _CALLED_NAME.findall(question):
        return set(terms(" ".join(names)))
    words = [word for row in _CALLED_MY.findall(question) for word in row if word]
    if not words and not _OWN.search(question):
        found = [word for row in _CALLED_LOWER.findall(question) for word in row if word]
        words = [word for word in found if word not in STOP_WORDS and not says_topic(terms(word)[-1])]
    # 女朋友 is no 女; 弟 is a word of its own.
    return {term for word in words for term in terms(word) if len(term) > 1 or len(word) == 1}


def names_in(text: str) -> list[str]:
    """What may be names in a text: "Kiara", 石磊 after 叫."""
    patterns = (_NAMES,) if text.isascii() else (_NAMES, _NAMES_OF_KIN)
    return [name for each in patterns for row in each.findall(text) for name in row if len(name) > 1]


def told_of(text: str, asked: Collection[str]) -> int:
    """Whom a text tells of; if of several, in the parts of it that hold any of the terms asked for."""
    clauses: list[tuple[int, str]] = []
    chinese = not text.isascii() and any(map(is_unspaced, text))
    # In a language where it need not be said, whoever names nobody tells of himself, or goes on about whom he named.
    subject = OWN if chinese else UNKNOWN
    for clause in _CLAUSE_END.split(simplify(text).replace("’", "'")):
        if clause and not clause.isspace():
            subject = _subject(clause) or (subject if chinese else UNKNOWN)
            clauses.append((subject, clause))
    own, other = ([clause for of, clause in clauses if of == who] for who in (OWN, OTHER))
    # "Walt's birthday is in March and mine in October": mine is what was named before.
    if own and other and not any(_MINE.search(clause) or _holds_any(clause, asked) for clause in own):
        return OTHER if any(_holds_any(clause, asked) for clause in other) else UNKNOWN
    return OWN if own else OTHER if other else UNKNOWN


def subjects_of(text: str) -> set[str]:
    """Whom or what a text tells of first, by name or as people call it; nothing if of the one who tells it."""
    text = simplify(text).replace("’", "'")
    found = next((found for pattern in _SUBJECTS if (found := pattern.match(text))), None)
    called = _CALLED.search(text) if found else None
    words = [word.casefold() for one in (found, called) if one for word in one.groups() if word]
    return {word for word in words if word not in STOP_WORDS}


def speaker_of(record: Record) -> str:
    """Who says it: the name a message has, or what its text begins with; "" where neither is there."""
    name = record.data.get("name") if isinstance(record.data, dict) else None
    if isinstance(name, str) and name.casefold() not in _ROLES:
        return name[:_LONGEST_SPEAKER]
    said = begins_with_speaker(record.text)
    return said[1] if said else ""


def begins_with_speaker(text: str) -> re.Match[str] | None:
    """The name before a line of a transcript, if it is one."""
    return _SPEAKER.match(text, 0, _LONGEST_SPEAKER)


def _holds_any(clause: str, asked: Collection[str]) -> bool:
    found = terms(clause)
    return not set(found).isdisjoint(asked) or not set(topics(clause, found)).isdisjoint(asked)


def _subject(clause: str) -> int:
    if _OTHER_FIRST.match(clause):
        return OTHER
    if _OWN.search(clause):
        return OWN
    if (named := _NAME_FIRST.match(clause)) and named[1].lower() not in STOP_WORDS:
        return OTHER
    if (named := _NAME_FIRST_CHINESE.match(clause)) and not says_topic(named[1][:2]):
        return OTHER
    return UNKNOWN


def begins_with_name(clause: str) -> bool:
    """Whether a Chinese clause surely begins with what somebody is called: 怡君超会做菜, 阿岚在奶茶店打工."""
    named = _NAME_FIRST_CHINESE.match(clause)
    given = named and _GIVEN.issuperset(named[1][:2]) and not says_topic(named[1][:2])
    return bool(given or _NICKNAME_FIRST.match(clause))
