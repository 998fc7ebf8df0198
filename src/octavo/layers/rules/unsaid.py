"""What an English sentence says of its writer without saying "I am": fragments, and what is taken for granted."""

import re
from collections.abc import Iterator

from octavo.layers.rules.facts import ENGLISH, OF_SELF, is_personal
from octavo.layers.rules.sentences import clauses_en

LONGEST_FRAGMENT = 100  # characters
#: What somebody is or has, and the words that are left out before it.
_FRAGMENTS = ((ENGLISH.IS_ONE, "I am a "), (ENGLISH.IS_SO, "I am "), (ENGLISH.AILS, "I have "), (ENGLISH.STUDIED, "I studied "), (ENGLISH.YEARS_AT, "I have done "), (ENGLISH.SPOKEN, "I speak "))  # fmt: skip
#: "Is a coeliac like me ok with spelt?" asks about spelt; that the writer is one, it takes for granted. The first is a word
#: that such a sentence must hold: most hold none of them.
_GRANTED = (
    ("like me", ENGLISH.LIKE_ME, r"I am \g<what>"),
    ("such as m", ENGLISH.LIKE_ME, r"I am \g<what>"),
    ("like me", ENGLISH.ONE_OF_US, r"I am a \g<what>"),
    ("such as m", ENGLISH.ONE_OF_US, r"I am a \g<what>"),
    (" us ", ENGLISH.US_ALL, r"I am a \g<what>"),
    ("like mine", ENGLISH.LIKE_MINE, r"I have \g<what>"),
    ("my ", ENGLISH.MY_AILMENT, r"I have \g<what>"),
    ("my ", ENGLISH.MY_MODEL, r"I have a \g<what>"),
    (" as a", ENGLISH.MY_JOB_AS, r"I work as \g<what>"),
    (" where ", ENGLISH.WHERE_I, r"\g<who> \g<does> at \g<where>"),
    (" i ", ENGLISH.PLACE_OF_MINE, r"I \g<does> \g<where>"),
    ("where ", ENGLISH.WHERE_LIVE, r"\g<who> \g<does> in \g<where>"),
    ("my ", ENGLISH.MY_NAMED, r"\g<own> is called \g<name>"),
    ("our ", ENGLISH.MY_NAMED, r"\g<own> is called \g<name>"),
    (", my ", ENGLISH.NAME_AND_OWN, r"\g<own> is called \g<name>"),
    (", our ", ENGLISH.NAME_AND_OWN, r"\g<own> is called \g<name>"),
    ("@", ENGLISH.CONTACT, r"my contact is \g<what>"),
    ("0", ENGLISH.CONTACT, r"my contact is \g<what>"),
    (" (", ENGLISH.ASIDE_OWN, r"\g<own> is called \g<name>"),
)
_ARTICLE = re.compile(r"\ba (?=(?!one|eu|u[nst]i)[aeiou])", re.IGNORECASE)


def completed(clause: str, *, first: bool = False) -> list[str]:
    """The statements of a clause that has neither subject nor verb, as long as it names what people are or have.

    Any ailment counts only where a sentence begins: what follows may be a list of anything.
    """
    if len(clause) > LONGEST_FRAGMENT or not ENGLISH.MAY_BE_FRAGMENT.match(clause):
        return []
    if ENGLISH.NAMED_DOES.match(clause):  # "Anna has asthma"
        return []
    parts = clause.split(", ")
    told: list[str] = []
    if len(parts) > 1 and ENGLISH.NAMES.fullmatch(parts[0]) and _with_verb(parts[1]):
        told.append(f"my name is {parts.pop(0)}")  # "Ngozi Eze, potter, Bristol"
    for part in parts:
        if statement := _with_verb(part) or (_ailing(part) if first else ""):
            told.append(statement)
        elif (told or not first) and part.isdigit() and len(part) == 2:
            told.append(f"I am {part}")
        elif told[-1:] and told[-1].startswith("I am") and ENGLISH.NAMES.fullmatch(part):
            told.append(f"I live in {part}")
        else:
            break
    return told


def _with_verb(part: str) -> str:
    for pattern, verb in _FRAGMENTS:
        if pattern.match(part):
            return _ARTICLE.sub("an ", verb + _uncapitalised(part))
    return ""


def _uncapitalised(part: str) -> str:
    return part if ENGLISH.PROPER.match(part) or part[1:2].isupper() else part[:1].lower() + part[1:]


def _ailing(part: str) -> str:
    match = ENGLISH.VERBLESS.match(part)
    if match is None or not is_personal(match["head"], OF_SELF):
        return ""
    first, _, last = match["head"].rpartition(" ")
    # "Heart attack", "bad knee"; but rehab exercises are no ailment.
    ails = is_personal(last, OF_SELF) or not is_personal(first, OF_SELF)
    return f"I have {_uncapitalised(part)}" if ails else ""


def granted(sentence: str) -> Iterator[tuple[str, str]]:
    """What a sentence takes for granted about its writer, whatever else it says or asks: the words, and the statement."""
    low = sentence.lower()
    for hint, pattern, statement in _GRANTED:
        for match in pattern.finditer(sentence) if hint in low else ():
            key = "name" if "name" in pattern.groupindex else match.lastgroup or 0
            yield match[key], _ARTICLE.sub("an ", match.expand(statement))
    for match in ENGLISH.BRACKETED.finditer(sentence):
        for clause in clauses_en(match["what"]):
            for statement in completed(clause) or (clause,):
                yield clause, statement
