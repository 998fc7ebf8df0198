"""A text cut into sentences, and sentences into clauses: each clause says one thing, mostly."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST_CHARACTERS = 20_000  # of one text; facts in what follows are not looked for
LONGEST_SENTENCE = 400  # characters; what has no end by then is cut there
LONGEST_CLAUSE = 300  # characters; a longer one is no statement that anybody made

_SENTENCE = re.compile(r"[^。！？!?；;\n…]+[。！？!?；;…]*")
_STOP = re.compile(r"(?<=[a-z0-9)\]\"'’”][.])\s+(?=\S)", re.IGNORECASE)
_ABBREVIATED = re.compile(r"(?:^|\s)(?:mr|mrs|ms|dr|prof|st|no|vs|etc|e\.g|i\.e|inc|ltd|co|u\.s|approx|[a-z])\.$", re.IGNORECASE)  # fmt: skip
_QUESTION = re.compile(r"[?？]")
_LEADING = re.compile(r"^(?:[^\w\u3400-\u9fff]|_)+|^(?:\d{1,2}[.)、]\s*)")
_KEPT_END = frozenset(")）》\"”'+#%")

_SUBJECT_ZH = "我|他|她|用户"
_CLAUSE_ZH = re.compile(
    r"[，,：:]\s*|\s*[—–]{1,2}\s*|~+"
    rf"|(?<=[\u3400-\u9fff])\s+(?={_SUBJECT_ZH}|也|还|不|但|而)"
    r"|(?=但是|而且|并且|不过我|然后我|然后又|也(?:不|很?喜欢|会|爱)|但我|但他|但她|但现在|但不|所以我|同时也|后来我|另外我|以及我)"
    # Without any punctuation at all, a new "我是" begins a new statement, unless a verb still waits for its object.
    r"|(?<![告诉跟和对给让向说得为知道现比与把被据的叫找帮请，])(?=我(?:是|喜欢|住在|叫|会|擅长|毕业|不喜欢|今年|在[^，]{1,12}(?:工作|上班))|我的(?:专业|职业|爱好|名字|工作)是)"
)
_FOR_ME = re.compile(
    r"((?:对|在)于?(?:我|用户|他|她)(?:来说|而言|看来|心里))[，,]\s*"
)  # and what follows are one statement
_SPACED_ZH = re.compile(r"(?<=[\u3400-\u9fff])\s+(?=[\u3400-\u9fff])")

_PRONOUN_EN = r"(?:i|i'm|i've|i'd|my|we|we're|our|he|he's|she|she's|they|they're|his|her|their|the user|the user's|it|it's|you|it)\b"
_VERB_EN = (
    r"(?:am|is|are|was|work|works|worked|live|lives|like|likes|love|loves|enjoy|enjoys|hate|hates|prefer|prefers|speak|speaks|"
    r"study|studies|studied|graduated|have|has|had|don't|doesn't|do not|does not|didn't|can|can't|cannot|know|knows|ran|went|"
    r"bought|decided|chose|attended|met|talked|discussed|spoke|called|moved|got|started|finished|value|values|believe|believes|"
    r"tend|tends|run|runs|lead|leads|manage|manages|teach|teaches|plan|plans|usually|also|just|recently|currently|never|always|"
    r"drink|drinks|eat|eats|play|plays|wrote|fixed|sent|made|signed|booked|submitted|pushed|won|lost|agreed|promised|cooked|saw)\b"
)
_CLAUSE_EN = re.compile(
    rf"\s*[:;]\s+|\s+[—–-]{{1,2}}\s+|,\s+(?:(?:and|but|so|then|yet|while|though|although|plus)\s+){{0,2}}(?:then\s+|now\s+|also\s+){{0,2}}(?={_PRONOUN_EN}|{_VERB_EN}|now\b|could you|can you|would you|please)"
    rf"|\s+(?:and|but|so|while|though|because|then|yet)\s+(?:also\s+|then\s+){{0,2}}(?=(?:(?:now|today|yesterday|currently)\s+)?(?:{_PRONOUN_EN}|{_VERB_EN}))"
    rf"|,?\s+who\s+(?={_VERB_EN})|,\s+(?=(?:but|because|although|though|which|who|if|unless|when)\b)",
    re.IGNORECASE,
)
_RUN_ON_EN = re.compile(
    r"(?<=[a-z0-9])\s+(?=(?:I am|I'm|I like|I love|I live|I work|I have|I don't|My name is)\b)", re.IGNORECASE
)
#: A clause that ends so is not over: "I'm not sure I like it", "maybe I'm late", "tell him I'm here".
_WAITING_EN = re.compile(
    r"\b(?:that|says?|said|saying|think|thought|if|believe|and|or|sure|know|knows|knew|forgot|wonder|hope|wish|guess|suppose|bet|doubt|mean|pretend|imagine|"
    r"maybe|perhaps|like|when|where|how|what|who|why|which|whether|because|since|until|while|after|before|than|as|although|though|unless|"
    r"you|him|her|them|me|us|everyone|everybody|people|assume|assuming|feel|find|realize|realise|remember|claim|claims|fact|time|thing|one|place|way|reason|person|everything|anything|something|all|the|a|only|first|last|not|never|explain|write|so)$",
    re.IGNORECASE,
)
_OPENING_EN = re.compile(r"^(hi|hello|hey|thanks|thank you|ok|okay|well|actually|sorry|yes|no|yeah|nope|sure|btw|by the way|so|anyway|oh|good morning|good evening|remember|note|fyi|honestly|hey there|hi there)\b[^,\w]*,\s*", re.IGNORECASE)  # fmt: skip


class Sentence(NamedTuple):
    """A sentence without its end, and whether that asked something."""

    text: str
    asks: bool


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a text, in order."""
    for said in _said(text.replace("’", "'").replace("`", "'")):
        if clean := _clean(said):
            yield Sentence(clean, _QUESTION.search(said[-8:]) is not None)


def _said(text: str) -> Iterator[str]:
    for piece in _pieces(text):
        held = ""
        for part in _STOP.split(piece):
            held = f"{held} {part}".strip() if held else part
            if len(held) < 200 and _ABBREVIATED.search(held):
                continue  # "Dr. Lee" is no end of a sentence
            yield held
            held = ""
        if held:
            yield held


def _pieces(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        for at in range(0, len(match[0]), LONGEST_SENTENCE):
            yield match[0][at : at + LONGEST_SENTENCE]


def _clean(said: str) -> str:
    said = _LEADING.sub("", " ".join(said.split()))
    end = len(said)
    while end and not (said[end - 1].isalnum() or said[end - 1] in _KEPT_END):
        end -= 1
    return said[:end]


def clauses_zh(sentence: str) -> list[str]:
    """The clauses of a Chinese sentence, without what stood between them."""
    sentence = _FOR_ME.sub(r"\1", sentence)
    parts = [_SPACED_ZH.sub("", _clean(part))[:LONGEST_CLAUSE] for part in _CLAUSE_ZH.split(sentence)]
    return [part for part in parts if part]


def clauses_en(sentence: str) -> list[str]:
    """The clauses of an English sentence, without the words that joined them."""
    while match := _OPENING_EN.match(sentence):
        sentence = sentence[match.end() :]
    whole = (part for raw in _CLAUSE_EN.split(sentence) for part in _run_on(raw or ""))
    return [part for raw in whole if (part := _clean(raw)[:LONGEST_CLAUSE])]


def _run_on(clause: str) -> Iterator[str]:
    """The statements of a clause that has no punctuation where one ends and the next begins."""
    begin = 0
    for match in _RUN_ON_EN.finditer(clause):
        if not _WAITING_EN.search(clause, max(begin, match.start() - 20), match.start()):
            yield clause[begin : match.start()]
            begin = match.end()
    yield clause[begin:]
