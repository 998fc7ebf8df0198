"""English words brought to one form: Porter's second stemmer, and the verbs and nouns that follow no rule."""

import re
from functools import lru_cache

_CARRIERS = (
    "a about above after again against all am an and any are aren't as at be because been before being "
    "below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't "
    "down during each few for from further had hadn't has hasn't have haven't having he he'd he'll he's "
    "her here here's hers herself him himself his how how's i i'd i'll i'm i've if in into is isn't it "
    "it's its itself just let's me more most mustn't my myself no nor not now of off on once only or "
    "other ought our ours ourselves out over own same shan't she she'd she'll she's should shouldn't so "
    "some such than that that's the their theirs them themselves then there there's these they they'd "
    "they'll they're they've this those through to too under until up very was wasn't we we'd we'll we're "
    "we've were weren't what what's when when's where where's which while who who's whom why why's will "
    "with won't would wouldn't you you'd you'll you're you've your yours yourself yourselves"
)
#: Words that carry a sentence rather than its matter: not asked for, unless a question has no others.
STOP_WORDS = frozenset(_CARRIERS.split())

_FAMILIES = (
    "go goes went gone|buy bought|bring brought|think thought|teach taught|catch caught|see saw seen|take took taken|"
    "give gave given|come came|become became|get got gotten|make made|find found|tell told|say said|feel felt|"
    "leave left|meet met|keep kept|sleep slept|win won|lose lost|begin began begun|write wrote written|"
    "speak spoke spoken|drive drove driven|ride rode ridden|eat ate eaten|drink drank drunk|sing sang sung|"
    "swim swam swum|run ran|grow grew grown|know knew known|fly flew flown|draw drew drawn|throw threw thrown|"
    "wear wore worn|choose chose chosen|break broke broken|fall fell fallen|forget forgot forgotten|hear heard|"
    "hold held|build built|send sent|spend spent|sell sold|pay paid|lead led|understand understood|stand stood|"
    "sit sat|fight fought|seek sought|show shown|shake shook shaken|hide hid hidden|bite bit bitten|"
    "wake woke woken|steal stole stolen|freeze froze frozen|rise rose risen|deal dealt|mean meant|shoot shot|"
    "stick stuck|strike struck|hang hung|dig dug|light lit|lend lent|bend bent|slide slid|feed fed|breed bred|"
    "child children|person people|man men|woman women|mouse mice|foot feet|tooth teeth|wife wives|"
    "knife knives|half halves|good better best|bad worse worst"
)
_IRREGULAR = {form: family.split()[0] for family in _FAMILIES.split("|") for form in family.split()[1:]}
_PREFIXED = re.compile("(re|out|over|under|un|mis|up|with|fore)(.{3,})")

_VOWELS = frozenset("aeiouy")
_DOUBLES = frozenset(("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"))
_BEFORE_LI = frozenset("cdeghkmnrt")
_KNOWN = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl", "gently": "gentl",
    "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl", "sky": "sky", "news": "news", "howe": "howe",
    "atlas": "atlas", "cosmos": "cosmos", "bias": "bias", "andes": "andes",
}  # fmt: skip
_WHOLE = frozenset(("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"))
_STEP_2 = (
    ("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"), ("entli", "ent"), ("ation", "ate"), ("alism", "al"),
    ("aliti", "al"), ("ousli", "ous"), ("iviti", "ive"), ("fulli", "ful"), ("enci", "ence"), ("anci", "ance"),
    ("abli", "able"), ("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"), ("ogi", "og"), ("li", ""),
)  # fmt: skip
_STEP_3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic"), ("ative", ""),
    ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip
_STEP_4 = tuple((ending, "") for ending in (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic",
))  # fmt: skip


def stem(word: str) -> str:
    """What the forms of one lower-case English word share: paints, painted and painting are one."""
    return _remembered(word) if len(word) <= _SHORT else _stem(word)


def stem_start(word: str) -> str:
    """The two letters that the stem of a word begins with, without what takes time: endings alone are cut."""
    return stem(word)[:2] if word in _IRREGULAR or word in _KNOWN else word[:2]


def _stem(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    if (prefixed := _PREFIXED.fullmatch(word)) and prefixed[2] in _IRREGULAR:  # rebuilt, overslept
        word = prefixed[1] + _IRREGULAR[prefixed[2]]
    if len(word) <= 2:
        return word
    if word in _KNOWN:
        return _KNOWN[word]
    word = _mark_consonant_y(word)
    first = next((len(p) for p in ("gener", "commun", "arsen") if word.startswith(p)), None)
    if first is None:
        first = _region(word, 0)
    second = _region(word, first)
    word = _strip_plural(word)
    if word in _WHOLE:
        return word
    word = _strip_past(word, first)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    word = _replace_ending(word, _STEP_2, first, second)
    word = _replace_ending(word, _STEP_3, first, second)
    word = _replace_ending(word, _STEP_4, second, second)
    return _strip_last_letter(word, first, second).lower()


_SHORT = 24  # letters; longer words seldom repeat, and would only fill memory
_remembered = lru_cache(maxsize=16_384)(_stem)


def _mark_consonant_y(word: str) -> str:
    if "y" not in word:
        return word
    letters = list(word)
    for at, letter in enumerate(letters):
        if letter == "y" and (at == 0 or letters[at - 1] in _VOWELS):
            letters[at] = "Y"
    return "".join(letters)


def _region(word: str, start: int) -> int:
    """Where the part after the first consonant that follows a vowel begins."""
    for at in range(start + 1, len(word)):
        if word[at] not in _VOWELS and word[at - 1] in _VOWELS:
            return at + 1
    return len(word)


def _ends_short(word: str) -> bool:
    """Whether the word ends in a short syllable."""
    if len(word) < 2 or word[-1] in _VOWELS or word[-2] not in _VOWELS:
        return False
    return len(word) == 2 or (word[-1] not in "wxY" and word[-3] not in _VOWELS)


def _strip_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and any(c in _VOWELS for c in word[:-2]):
        return word[:-1]
    return word


def _strip_past(word: str, first: int) -> str:
    if word.endswith("eedly"):
        return word[:-3] if len(word) - 5 >= first else word
    if word.endswith("eed"):
        return word[:-1] if len(word) - 3 >= first else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if not word.endswith(ending):
            continue
        short = word[: -len(ending)]
        if not any(c in _VOWELS for c in short):
            return word
        if short.endswith(("at", "bl", "iz")):
            return short + "e"
        if short[-2:] in _DOUBLES:
            return short[:-1]
        return short + "e" if first >= len(short) and _ends_short(short) else short
    return word


def _replace_ending(word: str, endings: tuple[tuple[str, str], ...], region: int, second: int) -> str:
    """The word with the first of the endings that it has in place of another, if that begins in its region."""
    for ending, other in endings:
        if word.endswith(ending):
            start = len(word) - len(ending)
            fits = {
                "li": word[start - 1] in _BEFORE_LI,
                "ogi": word[start - 1] == "l",
                "ion": word[start - 1] in "st",
                "ative": start >= second,
            }.get(ending, True)
            return word[:start] + other if fits and start >= region else word
    return word


def _strip_last_letter(word: str, first: int, second: int) -> str:
    short = word[:-1]
    if word.endswith("e") and (len(short) >= second or (len(short) >= first and not _ends_short(short))):
        return short
    if word.endswith("ll") and len(short) >= second:
        return short
    return word
