"""Kinds of answers that a text gives in known words or not at all: a number, a day, a name.

"How old is Mara?" is not answered by "Mara hates herring", though it is about nobody else.
"""

import re
from typing import NamedTuple

from octavo.kernel.terms.dates import MONTH_NAMES, NUMBER_NAMES, WEEKDAY_NAMES
from octavo.kernel.terms.topics import SURNAMES
from octavo.kernel.text import lazy_pattern

_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_NUMBERS = (
    rf"\d|\b(?:{NUMBER_NAMES.removeprefix('a|an|')}|hundred|thousand|million|dozen|half|couple|pair"
    rf"|twins?|triplets|both|once|twice|single|no|none|zero|never|only)\b|\b(?:{_TENS})"
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
        r"\bhow old\b|\bwhat age\b|\b(?:my|\w's) age\b|[几多少]岁|多大(?:了|年纪|岁数|年龄)?[?？]?$|年纪|年龄|岁数",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"{_NUMBERS}|\b(?:born|turn(?:s|ed|ing)?|aged?|toddler|baby|newborn|teenager)\b"
        "|岁|[一二三四五六七八九十]{2}|十|出生|生于|满月|属[鼠牛虎兔龙蛇马羊猴鸡狗猪]|[五〇零]后",
        re.IGNORECASE,
    ),
)
_PRICE = AnswerKind(
    lazy_pattern(
        r"\bhow much (?!time|sleep|long)|\bwhat(?:'s| is| was|s)?(?: \w+){0,3} (?:salary|rent|price|cost|income)\b"
        "|多少钱|(?:工资|月薪|房租|租金|学费|存款|额度|收入|薪水|房贷|月供).{0,4}多少|多少.{0,2}(?:工资|房租|学费|存款|块)|花了?多少",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"\d|\b(?:hundred|thousand|million|grand|bucks|quid|pounds?|dollars?|euros?|free|nothing|ten|{_TENS})\b"
        "|[百千万块元]|[二三四五六七八九]十|免费|没花",
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
        "|valentine|ago|last|next|since|until|every|each|always|soon|later|o'clock|born|turn)"
        "|[年月日号点节春夏秋冬]|星期|礼拜|周[一二三四五六日天末]|[上下这每]周|[今明昨后前当]天|[今明昨前后]晚|[早晚]上|[上中下]午"
        "|小时|初[一二三四五六七八九十]|除夕|时候",
        re.IGNORECASE,
    ),
)
_NAME = AnswerKind(
    lazy_pattern(r"\b(?:names?|surname|called)\b|叫什么|叫啥|姓什么|姓啥|名字|全名|姓名", re.IGNORECASE),
    lazy_pattern(
        rf"(?<=[a-z,;:] )(?!I\b|I')[A-ZÀ-Ý]\w|\b(?:called|named?|nicknamed?)\b|叫|姓|名|[片粒]|我是[{SURNAMES}]|[\u4e00-\u9fff] ?[A-Za-z]{{2}}"
        rf"|[{SURNAMES}](?:医生|医师|大夫|老师|总|主任|经理|教授|师傅|师父|姐|哥|嫂|阿姨|姨|婶|叔|伯|爷|奶|律师|教练|校长|先生|女士|太太|导)|[老小阿][{SURNAMES}]"
        r"|[妻夫婆公妇子女儿弟妹哥姐友事学师板宝猫狗象爸妈](?:[小阿][\u4e00-\u9fff]|([\u4e00-\u9fff])\1"
        rf"|[{SURNAMES}][\u4e00-\u9fff]{{1,2}}(?=[，。在是从给跟和的说买去来]|$))"
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
        r"|job|business|\w+(?:er|or|ist|ian|man|woman|nurse|chef)s?\b)"
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
        r"\b(?:in|at|on|from|to|near|next|around|here|there|home|abroad|lives?|moved?|outside|inside|round|behind|across|under|over|above|below|beside|between|off|by)\b"
        "|[在住去到搬回来从往留]|[省市县区镇村路街国州城港厂店院校园楼栋]|所(?!以|有)|公司|工地|老家|是[^，]{1,6}人",
        re.IGNORECASE,
    ),
)
_KINDS = (_PHONE_NUMBER, _AGE, _PRICE, _DAY, _NAME)
_OF_OTHERS = (*_KINDS, _WORK, _PLACE)  # of the person, much else tells where they are


def answer_kind(question: str, *, of_others: bool) -> AnswerKind | None:
    """What kind of answer a question asks for, if it is one of these."""
    return next((kind for kind in (_OF_OTHERS if of_others else _KINDS) if kind.asks.search(question)), None)
