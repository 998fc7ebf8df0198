"""How likely it is that memory holds an answer at all: by the words and topics of the best, by who says them, and by meaning.

"How old is Mara?" is not answered by "Mara hates herring", though it is about nobody else: some questions are answered in
known words or not at all, by a number, a day or a name.
"""

import heapq
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from octavo.kernel.terms import is_topic
from octavo.kernel.terms.dates import MONTH_NAMES, NUMBER_NAMES, WEEKDAY_NAMES
from octavo.kernel.terms.matching import index_text
from octavo.kernel.terms.terms import simplify
from octavo.kernel.terms.terms import terms as terms_of
from octavo.kernel.terms.topics import SURNAMES, is_definite
from octavo.kernel.text import lazy_pattern
from octavo.search.ranking import LOOKED_AT, TOLD, Ranking, Scored, weigh
from octavo.search.subject import NAMED_KIN, PEOPLE, speaker_of

_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_NUMBERS = (
    rf"\d|\b(?:{NUMBER_NAMES.removeprefix('a|an|')}|hundred|thousand|million|dozen|half|couple|pair"
    rf"|twins?|triplets|both|once|twice|single|no|none|zero|never|only)\b|\b(?:{_TENS})"
)


#: A number by which nothing is counted, and that may be somebody's age.
_YEARS_OLD = (
    rf"(?<![\d$£€¥,.:/-])(?:\d{{1,3}}|\b(?:{NUMBER_NAMES.removeprefix('a|an|one|')})|\b(?:{_TENS})(?:-\w+)?)"
    r"(?=\W*$|\s*[,;!?)]|\.(?!\d)|[ -](?:years?|yrs?|yo|(?:months?|weeks?|days?) old|and|but|now|so|who|which|already|today|this|next|when)\b)"
    r"|岁|(?<![\d$£€¥一二三四五六七八九十])(?:\d\d|[二三四五六七八九]?十[一二三四五六七八九多几]?)(?=[，,。！!了的]|$)"
)
#: An amount that is no year, hour or date, and of which nothing is counted in other units.
_AMOUNT = (
    r"[$£€¥₹]\s?\d|(?<![\w:/.-])(?!(?:19|20)\d\d\b)\d[\d,.]*(?:k|m|p|kr|rs|usd|eur|gbp|bn|l|lakh)?(?!\w|[:/-]\d|[.,]\d)"
    rf"(?!\s*(?:am|pm|o'clock|years?|yrs?|months?|weeks?|days?|hours?|hrs?|minutes?|mins?|kms?|kgs?|miles?|kilos?|met(?:re|er)s?|people|{MONTH_NAMES})\b)"
)


class AnswerKind(NamedTuple):
    """A kind of answer: what asks for it, and what every text has that gives one."""

    asks: re.Pattern[str]
    gives: re.Pattern[str]


_PHONE_NUMBER = AnswerKind(
    lazy_pattern(
        r"\bwhat(?:'s| is|s) (?:\S+ ){1,3}?(?:phone|telephone|mobile|cell) number\b|手机号|电话(?:号码?)?(?:是|多少)|(?:qq|微信|车牌)号?(?:是|多少)",
        re.IGNORECASE,
    ),
    lazy_pattern(
        r"\d[\d -]{2,}|[a-z]\w*\d|[a-z]+_\w|[零一二三四五六七八九]{4}|(?:是|号|叫) ?[a-z]\w{3,}",
        re.IGNORECASE,
    ),
)
_AGE = AnswerKind(
    lazy_pattern(
        r"\bhow old\b|\bwhat age\b|(?:\bmy|\w's) age\b|\bage of\b|[几多少]岁|多大(?:了|年纪|岁数|年龄)?[?？]?$|年纪|年龄|岁数",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"{_YEARS_OLD}|\b(?:born|turn(?:s|ed|ing)?|aged?|toddler|baby|newborn|teenager|twins)\b"
        "|出生|生于|满月|属[鼠牛虎兔龙蛇马羊猴鸡狗猪]|[五〇零]后",
        re.IGNORECASE,
    ),
)
_PRICE = AnswerKind(
    lazy_pattern(
        r"\bhow much (?:is|was|were|are|does|did|do|would|has|have|money|rent|for|to|[iw]e?)\b|\bwhat(?:'s| is| was|s)?(?: \w+){0,3} (?:salary|rent|price|cost|income)\b"
        "|多少钱|(?:工资|月薪|房租|租金|学费|存款|额度|收入|薪水|房贷|月供).{0,4}多少|多少.{0,2}(?:工资|房租|学费|存款|块)|花了?多少",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"{_AMOUNT}|\b(?:hundred|thousand|million|grand|bucks|quid|pounds?|dollars?|euros?|free|nothing|ten|{_TENS})\b"
        r"|[百千万块元]|[二三四五六七八九]十|免费|没花|(?<=[\u4e00-\u9fff])\d",
        re.IGNORECASE,
    ),
)
# When something was done, the day on which it was told may say.
_DAY = AnswerKind(
    lazy_pattern(
        r"\bwhen(?:'s| is| are| do| does| will)\b|\b(?:what|which) (?:day|date|time)\b|\bbirthday\b"
        "|哪一?天|几月|几号|几点|星期几|周几|生日|什么时候(?!.*[了过])",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"\d|\b(?:{MONTH_NAMES})\b|\b(?:{WEEKDAY_NAMES}|today|tonight|tomorrow|yesterday|morning|afternoon|evening|midnight|noon"
        "|week|month|year|spring|summer|autumn|fall|winter|christmas|xmas|easter|eid|diwali|ramadan|thanksgiving|halloween"
        r"|at (?:about |around |half |quarter )*(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b|valentine|ago|last|next|since|until|every|each|always|soon|later|o'clock|born|turn)"
        "|[年月日号点节春夏秋冬]|星期|礼拜|周[一二三四五六日天末]|[上下这每]周|[今明昨后前当]天|[今明昨前后]晚|[早晚]上|[上中下]午"
        "|小时|初[一二三四五六七八九十]|除夕|时候",
        re.IGNORECASE,
    ),
)
_NO_CAPITALS = r"^(?=.*[a-z]{3})[^A-ZÀ-Ý]*$"
#: A name inside a sentence; those that the question has are written small.
_CAPITAL = rf"(?<=[a-z,;:] )(?!I\b|I'|(?i:{WEEKDAY_NAMES}|{MONTH_NAMES})s?\b)[A-ZÀ-Ý]\w"
_WHOLE_NAME = AnswerKind(
    lazy_pattern(r"\b(?:surname|(?:last|family|maiden|middle|first|full|second) name)\b", re.IGNORECASE),
    lazy_pattern(
        rf"(?<!\w)(?!(?:Mr|Mrs|Ms|Miss|Dr|Doc|Prof|Professor|Sir|Sister|Father|Mother|Uncle|Aunt|Auntie|Granny|The|I|My)\b)[A-ZÀ-Ý][\w'-]+ (?:(?:van|von|de|di|da|el|al|bin) )?[A-ZÀ-Ý]\w"
        rf"|(?i:\b(?:surname|last|family|maiden|née|nee|full|real)\b)|{_NO_CAPITALS}"
    ),
)
_WHICH = AnswerKind(
    lazy_pattern(
        r"\b(?:which|what) (?:[\w-]+ )?(?:school|university|college|hospital|clinic|gym|bar|pub|club|airline|company|firm|studio|library|parish|church|restaurant"
        r"|caf[eé]|hotel|bakery|bank|insurer|station|orchestra|prison|brand|make|model|street|suburb|district|surgeon|dentist|judge)\b|\btitle\b"
        r"|\bwho(?:'?s| is| was) (?:my|our|the|\w+'s) \w+\W*$",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"{_CAPITAL}|{_NO_CAPITALS}|[\u4e00-\u9fff]"),
)
_NAME = AnswerKind(
    lazy_pattern(r"\b(?:names?|surname|called)\b|叫什么|叫啥|姓什么|姓啥|名字|全名|姓名", re.IGNORECASE),
    lazy_pattern(
        rf"(?<! in )(?<! at )(?<!from ){_CAPITAL}|{NAMED_KIN.pattern}|\b(?:called|named?|nicknamed?)\b|叫|姓|名|[片粒]|我是[{SURNAMES}]|[\u4e00-\u9fff] ?[A-Za-z]{{2}}"
        rf"|[{SURNAMES}](?:医生|医师|大夫|老师|总|主任|经理|教授|师傅|师父|姐|哥|嫂|阿姨|姨|婶|叔|伯|爷|奶|律师|教练|校长|先生|女士|太太|导)|[老小阿][{SURNAMES}]"
        r"|[妻夫婆公妇子女儿弟妹哥姐友事学师板宝猫狗象爸妈](?:[小阿][\u4e00-\u9fff]|([\u4e00-\u9fff])\1"
        rf"|[{SURNAMES}][\u4e00-\u9fff]{{1,2}}(?=[，。在是从给跟和的说买去来]|$))"
    ),
)
_COLOUR = AnswerKind(
    lazy_pattern(r"\b(?:what|which) colou?r\b|[什么啥]颜色|啥色", re.IGNORECASE),
    lazy_pattern(
        r"\b(?:red|blue|green|yellow|black|white|gr[ea]y|pink|purple|orange|brown|silver|gold|beige|navy|turquoise|teal|violet|maroon|cream|ginger|tabby|blonde?|dark|tortoiseshell|calico|spotted|striped|colou?r)"
        "|[红蓝绿黄黑白灰粉紫橙棕褐银金青橘花]",
        re.IGNORECASE,
    ),
)
_WORK = AnswerKind(
    lazy_pattern(
        r"\bwhat (?:do|does|did) (?:\S+ ){1,3}do(?: for (?:a living|work)|\W*$)|\b(?:job|occupation|profession|a living)\b|[做干](?:什么|啥|哪行)(?:工作|的)|职业|什么(?:工作|行业)|工作是",
        re.IGNORECASE,
    ),
    lazy_pattern(
        r"\b(?:is|was|are|were|am|as|been|be|become|became|it?'?[sm]|s?he'?s) (?:an?|the|in|with|on|at) "
        r"|\b(?:work|does|drive|drove|driving|teach|taught|runs?\b|ran\b|sell|makes?\b|fix|build|cook|own|manage|studi|retire|serve|train"
        r"|job|business|(?!(?:grand|step)?(?:mother|father|brother|sister|daughter|partner|member)|user|never|every|over|under|after|other|another|either|whether|together|older|younger|easter|october|september|november|december|summer|winter|water|dinner|former|number|letter|later|better|longer|rather|weather|paper|woman|human)\w{3,}(?:er|or|ist|ian|man|woman)s?\b|nurse|chef)"
        "|[做当是开卖教修种搞干跑养管送倒师员][^，。]|上班|工作|公司|[厂店院校局园]|所(?!以|有)|部队|的$|退休|生意|读|学",
        re.IGNORECASE,
    ),
)
_PLACE = AnswerKind(
    lazy_pattern(
        r"\bwhere(?:'?s)?\b|\b(?:which|what) (?:city|town|country|area|street)\b|(?<!身体)哪[里儿](?!不|有|疼|出)|[在住去到]哪|哪个?(?:城市|小区|地方|国|省|区)|什么地方|[边邊]度",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"{_CAPITAL}|(?i:\b(?:here|there|home|abroad|liv(?:es?|ed|ing)|moved?|based|stays?|staying|outside|inside|upstairs|downstairs|next|near|hometown|address|street|road|floor|village|town|city|country|island|farm|office|room|hospital|school|house|flat|shop|door|yard|garden|kitchen|drawer|shelf|box)\b)"
        r"|(?i:\b(?:on|off|by|under|behind|beside|between|above|below|across|(?:in|at|into|from|to) (?:the|an?|my|our|his|her|their|your))\b)"
        r"|^[^A-ZÀ-Ý]*\b(?:in|at|from|to (?!be\b|do\b|have\b|get\b|go\b|see\b))\b"
        "|[在住去到搬回来从往留上进]|[省市县区镇村路街国州城港厂店院校园楼栋馆]|所(?!以|有)|公司|大学|工地|老家|是[^，]{1,6}人",
    ),
)
_KINDS = (_PHONE_NUMBER, _AGE, _PRICE, _COLOUR, _DAY, _WHOLE_NAME, _WHICH, _NAME)
_OF_OTHERS = (*_KINDS, _WORK, _PLACE)  # of the person, much else tells where they are


def answer_kind(question: str, *, of_others: bool) -> AnswerKind | None:
    """What kind of answer a question asks for, if it is one of these."""
    return next((kind for kind in (_OF_OTHERS if of_others else _KINDS) if kind.asks.search(question)), None)


_BEST, _ABOUT = 5, 12  # records looked at for the words, and for the topics
_UNKNOWN = 0.5
_LONG = 8  # words of a question
_TOPIC = 0.7  # of a question whose words are nowhere, but whose topics are
_MISSING = 0.3  # of a question about a brother or a salary, where no record is about one
_NEAR = 0.20  # of the way from the mean to the question is where the nearest stands if it answers
_NOWHERE = 0.2  # of a question that shares nothing with any record, though vectors name some
_ANOTHERS = 0.2  # of a question about one speaker, where others say what is asked for: so much more
_SPOKEN_MORE, _SPOKEN_BEST = 0.5, 2  # of its words, in as many hits of each
_UNTOLD = 0.25  # at least, of a question about the person that is about nothing definite
_FEWEST = 100  # records to judge a term's rarity by, though fewer were found
_FEW = 20  # records, among which none stands out
_LACKING = 0.2  # of a question for a number, a day or a name, where no such thing is told
_FITTING = 0.7  # of the weight of its words that the best hit has
_FIRST = 3  # hits that may answer whatever their words are
_QUESTION_MARK = re.compile("[?？]")
_CAPITALISED = re.compile(r"\b[A-ZÀ-Ý]\w+")


def judge_presence(ranked: Ranking, hits: Sequence[Scored]) -> float:
    """How likely it is that memory holds an answer: by the share of the question's words, and of its topics, that one
    of the best records has; by who says them in these hits, and by whether these give the kind of answer it asks for.

    Small talk around the question does not count. A topic says less than the words: many texts are about the same.
    One that is definite and that no record is about says most.
    """
    question = ranked.question
    if not question.text.strip():
        return _UNKNOWN  # nothing was asked
    if not (ranked.found and (question.overview or any(ranked.candidates.held) or ranked.candidates.cosines)):
        # "How old am I?" may have been answered in words that nothing connects with it.
        untold = question.personal and not any(map(is_definite, question.terms))
        return _UNTOLD if untold else 0.0
    if question.overview:
        return 1.0
    scores = ranked.signals["terms"]
    best = heapq.nlargest(_ABOUT, range(len(ranked.found)), key=scores.__getitem__)
    weights = [weigh(n, max(len(ranked.found), _FEWEST)) for n in ranked.candidates.held]
    asked = [at for at in range(len(question.terms)) if at not in question.aside]
    own = [at for at in asked if not is_topic(question.terms[at])]
    # No record has all the words of a long question.
    long = math.sqrt(max(1.0, len(own) / _LONG))
    words = min(_share(ranked, own, best[:_BEST], weights) * long, 1.0)
    topics = [at for at in asked if is_topic(question.terms[at])]
    about = _share(ranked, topics, best if question.personal else best[:_BEST], weights)
    presence = 1 - (1 - words) * (1 - _TOPIC * about)
    told = ranked.pick_about_person(hits[:LOOKED_AT])
    if not question.parts:
        definite = [at for at in topics if is_definite(question.terms[at])]
        if question.personal and not definite:  # it may have been said in any words
            presence = max(presence, _UNTOLD)
        named = any(ranked.candidates.held[at] for at in question.named)
        for people in (True, False):
            known = [
                _is_told(ranked, at, told if named or not people else None)
                for at in definite
                if (question.terms[at] in PEOPLE) is people
            ]
            if known and 2 * sum(known) <= len(known):  # a mother or a father is enough of parents
                presence *= _MISSING
    if _is_said_by_others(ranked, hits[:LOOKED_AT], asked, weights):
        presence *= _ANOTHERS
    if _lacks_answer_kind(ranked, hits[:LOOKED_AT], asked, weights, told):
        presence *= _LACKING
    if not question.asks and len(own) > _LONG:
        return max(presence, _UNKNOWN)  # nobody said what is looked for
    if ranked.candidates.cosines:
        presence = (presence or _NOWHERE) * _nearness(ranked)
    return presence


def _nearness(ranked: Ranking) -> float:
    """How far the nearest record stands out from all that the vectors named, beside how far an answer does; 1 at most.

    It is measured on the way from their mean to the question itself: cosines of two models mean different things.
    """
    cosines = ranked.candidates.cosines.values()
    # Of several sentences nobody knows which one is to be answered; and among a few records none stands out.
    if not ranked.question.asked or len(cosines) <= _FEW:
        return 1.0
    mean = sum(cosines) / len(cosines)
    missing = max(0.0, 1 - (max(cosines) - mean) / (1 - mean) / _NEAR) if mean < 1 else 0.0
    return 1 - ranked.trust * missing


def _is_said_by_others(
    ranked: Ranking, hits: Sequence[Scored], numbers: list[int], weights: list[float]
) -> bool:
    """Whether the question names one of the speakers, and others say what these terms are about.

    Who asks somebody else for something says nothing about it.
    """
    speakers = [set(terms_of(speaker_of(record))) for _, record, _ in hits]
    terms = ranked.question.terms
    named = {name for names in speakers for name in names if len(name) > 1}.intersection(terms)
    wanted = [at for at in numbers if ranked.candidates.held[at] and terms[at] not in named]
    total = sum(weights[at] for at in wanted)
    if not named or not total:
        return False
    shares: tuple[list[float], list[float]] = [], []  # of the others, and of whom the question names
    for (at, record, _), names in zip(hits, speakers, strict=True):
        if names:
            held = [weights[n] for n in wanted if ranked.found[at].counts[n]]
            says = 0.0 if _QUESTION_MARK.search(record.text) else sum(held) / total
            shares[not named.isdisjoint(names)].append(says)
    others, own = (sum(heapq.nlargest(_SPOKEN_BEST, each)) for each in shares)
    return others - own > _SPOKEN_MORE


def _is_told(ranked: Ranking, number: int, told: set[int] | None) -> bool:
    """Whether a record holds this term: one of those that tell of whom it is asked about, if of somebody else."""
    if told is None:
        return bool(ranked.candidates.held[number])
    return any(ranked.found[at].counts[number] for at in told)


def _lacks_answer_kind(
    ranked: Ranking, hits: Sequence[Scored], numbers: list[int], weights: list[float], told: set[int] | None
) -> bool:
    """Whether none of the hits that fit the question best has the number, the day or the name that it asks for.

    If it asks about somebody, only hits that tell of them count.
    """
    question, found = ranked.question, ranked.found
    sentence = question.asked.replace("’", "'")
    kind = answer_kind(sentence, of_others=told is not None)
    asking = kind.asks.search(sentence) if kind else None
    if kind is None or asking is None:
        return False
    aside = terms_of(asking[0])
    wanted = [at for at in numbers if at not in question.named and question.terms[at] not in aside]
    fitting = [
        (sum(weights[n] for n in wanted if found[at].counts[n]), index_text(record.text, record.data))
        for at, record, _ in hits
        if at not in ranked.others and (told is None or at in told)
    ]
    best = max((share for share, _ in fitting), default=0.0)
    names = [] if kind is _WHOLE_NAME else _CAPITALISED.findall(sentence)
    said = re.compile("|".join(map(re.escape, names)) or r"\Z")
    return not any(
        kind.gives.search(said.sub(lambda name: name[0].lower(), simplify((quote or text)[:TOLD])))
        for nth, (share, (text, quote)) in enumerate(fitting)
        if share >= _FITTING * best or nth < _FIRST
    )


def _share(ranked: Ranking, numbers: list[int], best: list[int], weights: list[float]) -> float:
    """The largest share of the weight of these terms that one of the records has."""
    total = sum(weights[at] for at in numbers)
    held = (sum(weights[at] for at in numbers if ranked.found[position].counts[at]) for position in best)
    return max(held, default=0.0) / total if total else 0.0
