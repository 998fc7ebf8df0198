"""A text cut into sentences and clauses, each brought to a form that the patterns know."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from octavo.kernel.text import lazy_pattern
from octavo.layers.rules.facts import CHINESE, COMMON, ENGLISH
from octavo.layers.values import OwnerType

MOST_CHARACTERS = 20_000  # of one text; facts in what follows are not looked for
LONGEST_CLAUSE = 300  # characters; a longer one is no statement that anybody made
_AS_TYPED = str.maketrans("‘’`０１２３４５６７８９", "'''0123456789")
_ASKED = lazy_pattern(r"[?？]\W{0,7}$")
#: A cut inside a clause would leave "I live in Be": it is made where a clause ends, else between words.
_PIECE = lazy_pattern(
    r"(?s).{1,400}(?:$|(?<=[,，、:：])(?!\d)|(?=\s(?:and|but|so|because)\s))|.{1,400}(?<=\s)|.{1,400}"
)
_WHOLE = lazy_pattern(r"(?s).*(?:[。！？!?；;…\n]|[.](?=\s))")
_KEPT_END = frozenset("\"'+#%")
_OPENED_BY = dict(zip(")）]］」』】》〉”", "(（[［「『【《〈“", strict=True))
_I = re.IGNORECASE

#: Patterns, and what takes the place of each.
_Rewrites: TypeAlias = "Iterable[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]"
_PAST = frozenset(ENGLISH.words["PAST"])
_CONTRACTED = tuple(
    (lazy_pattern(rf"\b{short}" + ("" if short.endswith(")") else r"(?![\w'])"), _I), full)
    for short, full in (
        (rf"(at (?:an?|my|our|the|his|her|their) (?:\w+ )?{ENGLISH.KIN.pattern})'s (?=in |near |for |on |last |this )", r"\1's place "),
        (r"(we|they|you)ve", r"\1 have"), (r"(they|you)re", r"\1 are"), (r"(he|she|that)s", r"\1's"), (r"ill (?=(?:be|have|never|always|take|go|need|get)\b)", "I will "), (r"id (?=(?:rather|love|like|say|be|describe|prefer|never|always|choose)\b)", "I would "), (r"^were (?=(?:an?|the|from|in|off|both|not|vegan|\w+(?:ing|ers|ians))\b)", "we are "), (r"my (name|birthday|number|mobile|email|job|address|surname|car|phone)s (?!are|were|and|have|is)(?=\w)", r"my \1 is "), (r"((?:^|(?<!to )(?<!at )(?<!from )(?<!near )(?<!off )(?:my|our|the) )(?:mum|mom|mam|dad|wife|husband|hubby|partner|gf|bf|nan|gran|missus|boyfriend|girlfriend|other half|mother|father))s (?=(?:an?|the|got|not|been|from|in|at|on|called|named|vegan|vegetarian|allergic|\d+|\w+ing)\b)", r"\1's "),
        (rf"^((?:my|our|the) (?:[\w-]+ )?[\w-]+)'s (?!{ENGLISH.RELATIONS.pattern}\b|{ENGLISH.JOBS.pattern}\b)(?=\w+(?:$|,))", r"\1 is "), ("can(?:'t|not|nae)", "can not"), ("dinnae", "do not"), (r"(did|is|was|has|would|could)nae", r"\1 not"), (r"bin (?=\w+ing\b)", "been "), (r"(i|we) (?:am|are) (belong|know|own|prefer|understand)ing", r"\1 \2"), ("won't", "will not"), ("shan't", "shall not"), ("i'm", "I am"), ("ive", "I have"), (r"(\w+)n't", r"\1 not"), (r"(\w+)'ve", r"\1 have"),
        (r"(\w+)'re", r"\1 are"), (r"(\w+)'ll", r"\1 will"), (r"(have|has) got (?!married|engaged|divorced|promoted|fired|hired|to )(?=\w)", r"\1 "), (rf"^({ENGLISH.KIN.pattern})'?s got (?!married|engaged|divorced|promoted|fired|hired|to )(?=\w)", r"\1 has "), ("gonna", "going to"), ("tryna", "trying to"), ("wanna", "want to"), (r"(i|we|they|you)'d (?=(?:\w+ )?(?:rather|prefer|like|love|be|say|never|always|hate|pick|choose|take))", r"\1 would "),
        (r"(i|he|she|we|they|you)'d (?=(?:\w+ly |just |already |never )?(?:been|gone|had|done|seen|taken|better|\w+ed|\w+en)\b)", r"\1 had "), (r"(i|he|she|we|they|you)'d", r"\1 would"), (rf"((?:my|our|the) (?:[\w-]+ )?\w+|{ENGLISH.KIN.pattern}(?: [A-Z]\w+)?)'s (?=(?:an?|the|from|not|in|at|on|called|named|very|quite|pretty|so|really|too|still|also|now|good|bad|rusty|terrible|fluent|allergic|afraid|scared|due|booked|vegan|vegetarian|diabetic|married|retired|pregnant|gone|\d+|(?!{ENGLISH.THINGS_IN_ING.pattern})\w+ing)\b|(?-i:[A-Z])\w+(?:an|ish|ese)(?:$|,| and\b)|(?:important|better|worse|awful|fine|expensive|ill|sick|single|divorced|engaged|autistic|deaf|blind|mad|keen)(?:$|,| (?:to|for|with|about|of|at|in|on|and|but|so|now)\b))", r"\1 is "), (r"((?:my|our|the) (?:[\w-]+ )?\w+)'s (?=been\b|(?:just |recently |already )?(?:got|had|\w+ed|gone|left|put|lost|bought|taken|given) (?:the|an?|my|our|me|us|to|in|\d)\b)", r"\1 has "), (rf"(he|she|it|that|there|who|user)'s (?=(?!called|named|married|retired|engaged|divorced|based|(?:{ENGLISH.STATES.pattern})\b|\w+ed (?:with|in|by|about|of|at|to)\b)(?:been|had|got|just|already|recently|\w+ed)\b)", r"\1 has "),
        (r"(he|she|it|that|there|who|what|how|where|my (?:\w+ )?(?:name|job|title|birthday|age|hobby|major|email|address|favou?rite \w+))'s", r"\1 is"), (r"(\w+)'s (?=(?:my|our) )", r"\1 is "), (r"(\w+ing|work|school|everything)'s (?=(?:not|my|the|an?|\w+ing)\b)", r"\1 is "), ("im", "I am"), (r"(\w+) n (?=(?:i|my|me|our)\b)", r"\1 and "), (r"(i|we|they|you) r (?=\w)", r"\1 are "), (r"^me,? (?=i (?:no|can|do|am|have|will)\b)", ""), (r"^(i|we) (?:myself|ourselves) (?=\w)", r"\1 "), (rf"me (?=(?:{ENGLISH.KIN.pattern}|hands?|back|backside|head|knees?|legs?|feet|foot|arms?|eyes|ears|own|phone|car|van|truck|ute|house|dog|cat|mates?|job|tea|boss|kids|life|room|flat)\b)", "my "), (r"(i have|i am having) (\d\d) years(?: old)?(?=,|$)", r"I am \2 years old"), (r"(i|we) no (?:dey |de )?(?!longer|one|matter)(?=[a-z]{3})", r"\1 do not "), ("fave?", "favourite"), (r"(favou?rite \w+ is) that (?=\w+ \w)", r"\1 the "), (r"(do|does|did|is|was|are|were|has|have|could|would|should)nt", r"\1 not"), ("cant", "can not"), ("wont", "will not"), (r"its (?=(?:an?|the|not|my|our|called|been|so) )", "it is "),
    )
)  # fmt: skip
_DOES = {
    "being": "am",
    "having": "have",
    "living": "live",
    "working": "work",
    "coming": "come",
    "growing up": "grew up",
}
_SAID_SHORT = (
    (ENGLISH.REACHED, "my contact is "),
    (ENGLISH.AGE_AND_SEX, r"I am \g<old>\g<age>, I am "),
    (ENGLISH.HERE, r"I am a \g<what>, "),
    (ENGLISH.BOTH_OF_US, "we "),
    (ENGLISH.ASIDE_HOW, r"\g<did> \g<how> "),
    (
        lazy_pattern(
            r"^(?=new (?:job|role|course|place|contract|address|number|phone|car|boss|flat|house) )", _I
        ),
        "my ",
    ),
    (ENGLISH.COLON_NAMES, r"\g<own> called "),
    (ENGLISH.MY_LIST, r"\g<own> are "),
    (ENGLISH.ALWAYS, r"I \g<how> have \g<what>"),
    (ENGLISH.WHAT_I_DO, "my job is to "),
    (ENGLISH.AS_SOMEONE, r"I \g<does>, "),
    (ENGLISH.HOME_IS, "I live "),
    (ENGLISH.ANY_DAY, "I prefer "),
    (ENGLISH.WHERE_IT_IS, r"\g<i> \g<does> in \g<what>"),
    (ENGLISH.THAT_IS_MY, r"\g<own> is \g<what>"),
    (ENGLISH.RHETORICAL, ""),
    (ENGLISH.MYSELF, r"\g<i> am "),
    (ENGLISH.DAY_IS, r"I have \g<what> on \g<day>"),
    (ENGLISH.WHAT_I_AM, r"I \g<do> \g<what>"),
    (ENGLISH.INVERTED, r"\g<own> is \g<what>"),
    (ENGLISH.NOT_THAT_ONE, r"I avoid \g<what>"),
    (ENGLISH.WOULD_NOT, r"I avoid \g<what>"),
    (ENGLISH.APPOSED, r"\g<who> (\g<aside>) "),
    (ENGLISH.MOVED_DAY, "my "),
    (ENGLISH.WHO_IN_BRACKETS, r"\g<who> \g<name> "),
    (lazy_pattern("^(?:I was )?born and (?:raised|bred) ", _I), "I grew up "),
    (ENGLISH.EACH_TIME, r"I have \g<what> \g<when>"),
    (ENGLISH.BEING, lambda match: f"I {_DOES[match['ing'].lower()]} {match['rest']}, "),
    (ENGLISH.KEY_LINE, r"my \g<key> is "),
    (ENGLISH.FRONTED, r"\g<i> \g<does> \g<what>"),
    (ENGLISH.FOUND_DOING, r"\g<when>I am often "),
    (ENGLISH.IT_IS_MY, r"\g<own> is "),
    (ENGLISH.ALL_I_DO, r"I \g<do>\g<can> only \g<what>\g<one>"),
    (ENGLISH.I_AM, r"I am \g<what>"),
    (ENGLISH.SINCE, r"\g<i> \g<long> ago"),
    (ENGLISH.KEEPS_ME, r"\g<what> \g<does>"),
    (ENGLISH.TALKING_TO, "I am "),
    (ENGLISH.CALL_HIM, r"\g<own> is called "),
    (ENGLISH.WHO_IS, r"\g<who> \g<aside>, \g<who> "),
    (ENGLISH.CLEFT, r"I \g<do> "),
    (ENGLISH.NONE_CAN, "we can not "),
    (ENGLISH.NONE_OF_US, r"we do not \g<do>"),
    (ENGLISH.NOT_FOR_ME, r"I avoid \g<what>"),
    (ENGLISH.WEEKLY, "I have "),
    (ENGLISH.SUBJECTLESS, "I "),
    (ENGLISH.SAME_AGAIN, r"\g<said>"),
    (ENGLISH.THEN_HAPPY, r"I like \g<what>"),
    (ENGLISH.EVEN_SO, r"\g<so> with \g<what>"),
    (
        ENGLISH.NEW_KEY,
        lambda match: f"my {re.sub('.*number', 'phone number', match['key'] or match['same'])} is ",
    ),
    (ENGLISH.OWN_KEY, r"my \g<key> is "),
    (
        lazy_pattern(
            r"(?<! is)(?<! am)(?<! are)(?<! was)(?<! do)(?<! but),? not (?:\d+|[A-Z]\w+|two|three|four|five|six)$"
        ),
        "",
    ),
    (ENGLISH.AS_I_AM, r"\g<i>, "),
    (ENGLISH.NAME_AND_AGE, r"my name is \g<name>, "),
    (ENGLISH.NAMED_ASIDE, r"\g<who> \g<name> "),
    (ENGLISH.NAMED_FIRST, r"I am \g<name>, I am "),
    (ENGLISH.NAME_THEN_WHOSE, r"\g<name> is "),
    (
        ENGLISH.IS_MY,
        lambda match: f"{match['own']} {'are' if ' and ' in match['name'] else 'is'} called {match['name']}",
    ),
    (ENGLISH.THEIR_NAME, r"my \g<who> is called "),
    (ENGLISH.RATHER_CALLED, r"my name is \g<name>"),
    (ENGLISH.NAMED_HERE, r"my name is \g<name>"),
    (ENGLISH.NAMED_SMALL, r"my name is \g<name>, I am "),
    (lazy_pattern("^born ", _I), "I was born "),
    (ENGLISH.WAS_SO, lambda match: f"I was {match['done'].lower()} "),
    (lazy_pattern(r"^never (?=(?:been|had|seen|gone|\w+ed)\b)", _I), "I have never "),
    (
        lazy_pattern(
            r"^been (?!there|here|ages|great|good|fun|nice|ok|an? (?:\w+ )?(?:day|week|month|year|while|time|morning|night)\b)(?=\w)",
            _I,
        ),
        "I have been ",
    ),
    (ENGLISH.LEFT_OUT, "I am "),
    (ENGLISH.APPOINTED, "I have "),
    (ENGLISH.TOO, lambda match: f"we {match['did']} with {match['who'] or match['whom']}"),
    (ENGLISH.CALLED, "my name is "),
)
_TWO_IN_ONE = (
    (ENGLISH.AND_DOES, "; "),
    (ENGLISH.BUT_KIN, r"\g<did>, \g<who> \g<is> \g<what>"),
    (ENGLISH.BUT_NOT, r"\g<did>, \g<who> do not \g<verb> "),
    (ENGLISH.DID_TOO, r"\g<did>, I did "),
    (ENGLISH.ONLY_NOW, r"\g<did>, I only \g<verb> "),
    (ENGLISH.TWO_DATED, r"\g<did>, \g<who> \g<verb> "),
    (ENGLISH.BY_TRADE, ", I am a "),
    (ENGLISH.AND_AGED, r"\g<am>, I am "),
    (ENGLISH.AND_BEEN, r"\g<did>, I have "),
    (ENGLISH.KIN_TOO, r"\g<did>, \g<who> "),
    (ENGLISH.HAS_TOO, r"\g<have>, \g<who> have "),
    (ENGLISH.TOO_HAS, r"\g<am>, I have "),
    (ENGLISH.STILL, ", I am "),
    (
        lazy_pattern(r"\b(I am \d{1,3})(?:,? (?=from |an? |\w+ing )|,? and (?=in |at |from |an? ))", _I),
        r"\1, I am ",
    ),
    (lazy_pattern(rf"\b(I am \d{{2,3}}), (?=(?:[\w-]+ )?{ENGLISH.JOBS.pattern}\b)", _I), r"\1, I am a "),
    (ENGLISH.LIVING_IN, r"\g<be>, I am "),
    (ENGLISH.FOR_JOB, r"\g<did>, I have a job "),
    (ENGLISH.MY_PLACE, r"\g<did>, I live in "),
    (
        lazy_pattern(r"(?<= by day),? (?:and |but )?(?=(?!and |but |\w+ing )[\w' -]+ by night)", _I),
        ", I am a ",
    ),
    (ENGLISH.BORN_TOO, r"\g<did>, I was "),
    (ENGLISH.AND_IS, r"\1\2, I am "),
    (ENGLISH.AND_IS, r"\1\2, I am "),
    (ENGLISH.OTHER_TOO, r"\g<is>, \g<who> is "),
    (ENGLISH.I_TOO, r"\g<did>, \g<who> "),
    (ENGLISH.LIVES_WITH, r"\g<live>, \g<who> live "),
    (lazy_pattern(r"\bI am a (?=(?!one|eu|u[nst]i)[aeiou])", _I), "I am an "),
)


_ASIDE = (
    (CHINESE.FOR_OWNER, r"\1"),  # 对我来说，and what follows are one statement
    (CHINESE.ASIDE, r"\1\2"),  # 我妻子，陈默，在天文台工作
    (CHINESE.NAMED_ASIDE, r"我叫\1"),  # 我，廖小满，二十二岁
    (CHINESE.THAT_IS, r"\1是我的\2"),  # 我给盲人读报，这是我的工作
    (CHINESE.THE_ONE, r"\1"),  # 我就是厂里管仓库的那个
    (CHINESE.HEARD_LAST, r"据说\g<said>\g<claim>"),  # 公司要上市了，据说
    (CHINESE.LIKE_ME, r"我是\g<what>，"),
    (CHINESE.WE_WORKERS, r"我是\g<what>，\g<before>"),
    (CHINESE.THOSE_WHO, r"我\g<what>的，"),
    (CHINESE.KIN_AND_I, r"我和\1"),
    (CHINESE.FIELD, r"我的\g<key>是\g<value>，"),
    (CHINESE.SIGN_IN, r"我的邮箱是\g<value>"),
    (CHINESE.KIN_DOES, r"\g<not>，\g<who>\g<what>"),  # 我不喝酒，我爸爸喝
    (CHINESE.IT_IS, r"\2叫\1"),  # 它叫布丁，是我家的狗
)


def beginning(text: str) -> str:
    """The whole sentences of a text that are read."""
    read = text[:MOST_CHARACTERS]
    return whole[0] if read != text and (whole := _WHOLE.match(read)) else read


class Sentence(NamedTuple):
    """A sentence without its end, and whether that asked something."""

    text: str
    asks: bool


def own_words(text: str, owner_type: OwnerType) -> str:
    """What of a text its owner says: code, texts to work on and the other side of a conversation are only shown."""
    text = COMMON.CITED.sub("", COMMON.CODE.sub("\n", text))
    # "Translate this: I am a doctor" says of nobody that they are a doctor.
    for task in (ENGLISH.TASK, CHINESE.TASK):
        if found := task.search(text):
            text = text[: found.start()]  # where what is shown ends, nobody can tell
    if ":" not in text and "：" not in text:
        return text
    mine, other = COMMON.USER, COMMON.ASSISTANT
    if owner_type == "agent":
        mine, other = other, mine
    lines, own = [], True
    for line in text.split("\n"):
        label = None
        if other.match(line):
            own = False
        elif label := mine.match(line):
            own = True
        if own:
            lines.append(line[label.end() :] if label else line)
    return "\n".join(lines)


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a text, in order."""
    for written in _sentences(text.translate(_AS_TYPED)):
        if clean := _clean(written):
            yield Sentence(clean, _ASKED.search(written) is not None)


def _sentences(text: str) -> Iterator[str]:
    for match in COMMON.SENTENCE.finditer(text):
        open_part = ""
        for part in COMMON.STOP.split(match[0]):
            open_part = f"{open_part} {part}".strip() if open_part else part
            if len(open_part) < 200 and COMMON.ABBREVIATED.search(open_part):
                continue  # "Dr. Lee" is no end of a sentence
            yield from _PIECE.findall(open_part)
            open_part = ""
        if open_part:
            yield open_part


def _clean(written: str) -> str:
    """Without white space, list marks and punctuation around it."""
    text = COMMON.LEADING.sub("", " ".join(written.split()))
    end = len(text)
    while end and not (text[end - 1].isalnum() or text[end - 1] in _KEPT_END):
        if (opened := _OPENED_BY.get(text[end - 1])) and opened in text[:end]:
            break
        end -= 1
    return text[:end]


def clauses_zh(sentence: str) -> list[str]:
    """The clauses of a Chinese sentence, without what stood between them."""
    sentence = _rewritten(sentence, _ASIDE)
    parts = [CHINESE.SPACED.sub("", _clean(part))[:LONGEST_CLAUSE] for part in CHINESE.CLAUSE.split(sentence)]
    joined: list[str] = []
    for part in (CHINESE.FRONTED.sub(r"我\g<verb>\g<v>", one) for one in parts if one):  # 英语和法语我都会说
        # 也许|我会去: what is only perhaps so
        number = re.fullmatch(r"\d[\d -]{6,}|[a-zA-Z0-9_.+-]+@[a-zA-Z0-9.-]+", part)  # 有事打我手机，|0571…
        early = joined and (CHINESE.PERHAPS.fullmatch(joined[-1]) or COMMON.CHINESE.fullmatch(joined[-1]))
        once = joined and CHINESE.ONCE.fullmatch(joined[-1])  # 以前，|我住在杭州: not any more
        perhaps = joined.pop() if joined and (number or early or once) else ""
        if joined and part[0] == "我" and CHINESE.WHERE.fullmatch(COMMON.CHINESE.sub("", joined[-1])):
            joined[-1] = f"我{joined[-1]}{part[1:]}"  # 上周在迪卡侬，我买了一顶帐篷
        else:
            joined.append(perhaps + part)
    return joined


def clauses_en(sentence: str) -> list[str]:
    """The clauses of an English sentence, without the words that joined them."""
    sentence = expanded(sentence)
    while match := ENGLISH.OPENING.match(sentence):
        sentence = sentence[match.end() :]
    sentence = _introduced(_as_one(ENGLISH.TRAILER.sub("", ENGLISH.POLITE.sub("", sentence))))
    statements = (part for clause in ENGLISH.CLAUSE.split(sentence) for part in _statements(clause or ""))
    return [
        part
        for statement in statements
        if (part := ENGLISH.TRAILER.sub("", _clean(statement))[:LONGEST_CLAUSE])
    ]


def _statements(clause: str) -> Iterator[str]:
    """The statements of a clause that has no punctuation where one ends and the next begins."""
    begin = 0
    for match in ENGLISH.RUN_ON.finditer(clause):
        # A clause that ends so is not over: "I'm not sure I like it", "maybe I'm late", "tell him I'm here".
        ordered = ENGLISH.ORDER.match(clause, begin)
        if not ordered and not ENGLISH.WAITING.search(clause, max(begin, match.start() - 20), match.start()):
            yield clause[begin : match.start()]
            begin = match.end()
    yield clause[begin:]


def _introduced(text: str) -> str:
    """I am Lin, a nurse: two statements; so is "I live in Leeds with my two cats", since one may move without the other."""
    text = _rewritten(text, _SAID_SHORT)
    if match := ENGLISH.LED_IN.match(text):
        text = f"{text[match.end() :]} {match['when'][0].lower()}{match['when'][1:]}"
    return _rewritten(text, _TWO_IN_ONE)


def _rewritten(text: str, rewrites: _Rewrites) -> str:
    """The text with each pattern replaced in turn; hardly any of them is in a text, and to look costs half as much as to replace."""
    for pattern, other in rewrites:
        if pattern.search(text):
            text = pattern.sub(other, text)
    return text


def _as_one(text: str) -> str:
    """As a nurse, I …: who says so is a nurse, unless it is told of another time."""
    match = ENGLISH.AS_ONE.match(text)
    if match is None or match["verb"].lower() in _PAST or re.search("(?<!ne)ed$", match["verb"]):
        return text
    return f"I am {match['role']}, {text[match.start('i') :]}"


def expanded(text: str) -> str:
    """The text without contractions: I'm is I am."""
    return _rewritten(text, _CONTRACTED)


# --- from clause to clause
