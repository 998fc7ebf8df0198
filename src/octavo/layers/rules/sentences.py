"""A text cut into sentences, and sentences into clauses: each clause says one thing, mostly."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from octavo.layers.rules.profile_en import ENGLISH
from octavo.layers.rules.profile_zh import CHINESE
from octavo.layers.values import OwnerType

MOST_CHARACTERS = 20_000  # of one text; facts in what follows are not looked for
LONGEST_SENTENCE = 400  # characters; what has no end by then is cut there
LONGEST_CLAUSE = 300  # characters; a longer one is no statement that anybody made

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CITED = re.compile(r"^[ \t]{0,8}>.*$", re.MULTILINE)
_ASSISTANT = re.compile(
    r"\s{0,4}(?:\[|\*\*)?(?:assistant|ai|bot|chatbot|chatgpt|system|agent|助手|助理|机器人|客服|系统|小助手|智能体)(?:\]|\*\*)?\s?[:：]",
    re.IGNORECASE,
)
_USER = re.compile(
    r"\s{0,4}(?:\[|\*\*)?(?:user|human|me|customer|我|用户|客户)(?:\]|\*\*)?\s?[:：]\s?", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^。！？!?；;\n…]+[。！？!?；;…]*")
_STOP = re.compile(r"(?<=[a-z0-9)\]\"'’”][.])\s+(?=\S)", re.IGNORECASE)
_ABBREVIATED = re.compile(
    r"(?:^|\s)(?:mr|mrs|ms|dr|prof|st|no|vs|etc|e\.g|i\.e|inc|ltd|co|u\.s|approx|[a-z])\.$", re.IGNORECASE
)
_QUESTION = re.compile(r"[?？]")
_LEADING = re.compile(r"^(?:[^\w\u3400-\u9fff]|_)+|^(?:\d{1,2}[.)、]\s*)")
_KEPT_END = frozenset(")）》\"”'+#%")


class Sentence(NamedTuple):
    """A sentence without its end, and whether that asked something."""

    text: str
    asks: bool


def own_words(text: str, owner_type: OwnerType) -> str:
    """What of a text its owner says: code, texts to work on and the other side of a conversation are only shown."""
    text = _CITED.sub("", _CODE.sub("\n", text))
    # "Translate this: I am a doctor" says of nobody that they are a doctor.
    for task in (ENGLISH.TASK, CHINESE.TASK):
        if found := task.search(text):
            text = text[: found.start()]  # where what is shown ends, nobody can tell
    if ":" not in text and "：" not in text:
        return text
    mine, other = (_USER, _ASSISTANT) if owner_type == "user" else (_ASSISTANT, _USER)
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
    for written in _sentences(text.replace("’", "'").replace("`", "'")):
        if clean := _clean(written):
            yield Sentence(clean, _QUESTION.search(written[-8:]) is not None)


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        for at in range(0, len(match[0]), LONGEST_SENTENCE):
            open_part = ""
            for part in _STOP.split(match[0][at : at + LONGEST_SENTENCE]):
                open_part = f"{open_part} {part}".strip() if open_part else part
                if len(open_part) < 200 and _ABBREVIATED.search(open_part):
                    continue  # "Dr. Lee" is no end of a sentence
                yield open_part
                open_part = ""
            if open_part:
                yield open_part


def _clean(written: str) -> str:
    """Without white space, list marks and punctuation around it."""
    text = _LEADING.sub("", " ".join(written.split()))
    end = len(text)
    while end and not (text[end - 1].isalnum() or text[end - 1] in _KEPT_END):
        end -= 1
    return text[:end]


def clauses_zh(sentence: str) -> list[str]:
    """The clauses of a Chinese sentence, without what stood between them."""
    sentence = CHINESE.FOR_OWNER.sub(r"\1", sentence)  # 对我来说，and what follows are one statement
    parts = [CHINESE.SPACED.sub("", _clean(part))[:LONGEST_CLAUSE] for part in CHINESE.CLAUSE.split(sentence)]
    return [part for part in parts if part]


def clauses_en(sentence: str) -> list[str]:
    """The clauses of an English sentence, without the words that joined them."""
    while match := ENGLISH.OPENING.match(sentence):
        sentence = sentence[match.end() :]
    statements = (part for clause in ENGLISH.CLAUSE.split(sentence) for part in _statements(clause or ""))
    return [part for statement in statements if (part := _clean(statement)[:LONGEST_CLAUSE])]


def _statements(clause: str) -> Iterator[str]:
    """The statements of a clause that has no punctuation where one ends and the next begins."""
    begin = 0
    for match in ENGLISH.RUN_ON.finditer(clause):
        # A clause that ends so is not over: "I'm not sure I like it", "maybe I'm late", "tell him I'm here".
        if not ENGLISH.WAITING.search(clause, max(begin, match.start() - 20), match.start()):
            yield clause[begin : match.start()]
            begin = match.end()
    yield clause[begin:]
