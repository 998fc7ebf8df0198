"""The facts of an English sentence: clause by clause, each with the subject it speaks of."""

import re

from octavo.layers.rules import lexicon_en as en
from octavo.layers.rules.events_en import around_owner, denied, happening, moved_to, of_kin
from octavo.layers.rules.facts import YES, Fact, Said, plain, words
from octavo.layers.rules.facts import denied as denied_fact
from octavo.layers.rules.facts_en import POINTING, profile_facts, regardless_of_subject
from octavo.layers.rules.splitting import Sentence, clauses_en
from octavo.layers.rules.subjects_en import ADVERB, Subject, fillers, skipped
from octavo.layers.rules.subjects_en import subject as find_subject
from octavo.layers.rules.telling import DEEPEST, Telling
from octavo.layers.rules.times import times, without_times

_I = re.IGNORECASE
_CONTRACTED = tuple(
    (re.compile(rf"\b{short}" + ("" if short.endswith(")") else r"(?![\w'])"), _I), full)
    for short, full in (
        ("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("shan't", "shall not"), ("i'm", "I am"), (r"(\w+)n't", r"\1 not"), (r"(\w+)'ve", r"\1 have"),
        (r"(\w+)'re", r"\1 are"), (r"(\w+)'ll", r"\1 will"), ("gonna", "going to"), ("wanna", "want to"), (r"(i|we|they|you)'d (?=(?:\w+ )?(?:rather|prefer|like|love|be|say|never|always|hate))", r"\1 would "),
        (r"(i|he|she|we|they|you)'d", r"\1 had"), (r"(he|she|it|that|there|who|user)'s (?=(?:been|had|got|just|already|recently|\w+ed)\b)", r"\1 has "),
        (r"(he|she|it|that|there|who|what|how|where|my (?:\w+ )?(?:name|job|title|birthday|age|hobby|major|email|address|favou?rite \w+))'s", r"\1 is"), ("im", "I am"), ("ive", "I have"), ("dont", "do not"), ("doesnt", "does not"),
    )
)  # fmt: skip
_SUPPOSED = re.compile(
    r"^(?:if|suppose|supposing|imagine|unless|assuming|assume|what if|let's say|had i|were i|in case)\b", _I
)
_IFFY = re.compile(
    r"\b(?:if i|if we|i wish|would (?!rather|prefer|love|like|never|always|say i|describe)|might|maybe|perhaps|not sure|unsure|could have|should have|as if|may be)\b",
    _I,
)
_ASKING = re.compile(
    r"^(?:what|where|when|who|whose|why|how|which|do|does|did|is|are|am|can|could|would|should|shall|will|have|has|was|were|any)\s+"
    r"(?:i|you|he|she|it|we|they|the|there|my|your|this|that|is|are|do|does|did|much|many|about|to|would|should|can|was|were|a|an|old|long|idea|chance)\b|\b(?:right|correct|isn't it|don't you think)$",
    _I,
)
_STANDING = re.compile(
    r"^(?:please\s+)?(?:always|never|from now on|in (?:the )?future|going forward|by default|call me|refer to me as|address me as|do not ever)\b|\bfrom now on\b|\bin (?:the )?future,? (?:please|use|do)\b|^(?:i want|i would like|i need) you to (?:always|never)\b|\bin (?:all )?(?:your|all|every) (?:replies|answers|responses|messages|reply|answer|response)\b|^(?:please )?(?:do not|stop) call(?:ing)? me\b",
    _I,
)
_REPORT = re.compile(
    r"(?:have |has |had |just |also |once |all |always |often |recently )*(?:said|says|say|told (?:me|us|you|everyone|the agent|the assistant)|tells me|tell me|mentioned|mentions|mention|explained|noted|notes|claims|claimed|shared|added|confirmed|confirms|stated|states|reported|revealed|admits|admitted|"
    r"describe myself as|informed me|pointed out)(?: to me)?(?: again)?(?:,? that)? (?=(?:i|he|she|they|we|his|her|their|my|the user|it|\w+ (?:is|works|likes|knows|has|was))\b)", _I
)  # fmt: skip
_OPINION = re.compile(r"(?:think|guess|feel like|feel|believe|know|would say|suppose|realized|realised|admit|must say|have to say|should mention|should add|forgot to mention|am told)(?: that)? (?=(?:i|we|he|she|they|my)\b)", _I)  # fmt: skip
_SPEAKER = re.compile(r"(?:the |a |an )?[\w' -]{1,60}? (?=(?:say|says|said|told me|thinks?)\b)", _I)
_OURS = re.compile(r"\b(?:i|we|my|our|me|us)\b", _I)
#: What somebody does without saying when is what they do.
_HABITS = en.PRESENT - frozenset(["want", "need", "think", "have", "know", "get", "see", "feel", "hope", "keep", "try", "go", "put", "make", "do", "help", "consider", "plan", "start", "belong", "believe", "run", "take", "intend"])  # fmt: skip
_THIRD = {"is": "be", "am": "be", "are": "be", "has": "have", "does": "do", "goes": "go"}
_DONE_TALKING = re.compile(
    r"(?:i |we )?(?:am |are |have |just )*(?:(?:got|get) (?:it|you|that|this)|makes sense|made sense|sounds good|understood|noted|agreed|never mind|forgot|kidding|joking|serious|not serious|good|fine|great|okay|ok|alright|doing (?:well|good|fine|great)|(?:good|fine|great) now)(?:,? (?:thanks|thank you))?$",
    _I,
)
_AS_ONE = re.compile(r"(?:speaking )?as (?P<role>an? [\w -]{2,60}?),? (?P<i>i (?P<verb>[\w']+))\b", _I)
_GERUND = re.compile(r"\w+ing\b.* (?:is|are|was|be)\b", _I)  # "working as a nurse is hard": nobody's work
_FRAGMENT = re.compile(r"(?:love|prefer|hate|enjoy|allergic|born|working|living|based|fluent|graduated|studied|can not stand|do not like|live|work)\b", _I)  # fmt: skip


def read_en(sentence: Sentence, telling: Telling) -> list[Fact]:
    """The facts about the owner in one sentence, in order."""
    found: list[Fact] = []
    telling.when = None
    clauses = clauses_en(_as_one(expanded(sentence.text)))
    for at, clause in enumerate(clauses):
        if _SUPPOSED.match(clause):
            break  # what follows a condition holds only if it does
        asks = (sentence.asks and at == len(clauses) - 1) or _ASKING.search(clause) is not None
        if not asks and not _IFFY.search(clause):
            found += _clause(clause, telling, first=at == 0)
    return found


def _as_one(text: str) -> str:
    """As a nurse, I …: who says so is a nurse, unless it is told of another time."""
    match = _AS_ONE.match(text)
    if match is None or match["verb"].lower() in en.PAST or match["verb"].lower().endswith("ed"):
        return text
    return f"I am {match['role']}, {text[match.start('i') :]}"


def expanded(text: str) -> str:
    """The text without contractions: I'm is I am."""
    for pattern, full in _CONTRACTED:
        text = pattern.sub(full, text)
    return text


def _based(said: str) -> str:
    """The words after a subject with the verb in its base form."""
    head, _, tail = said.partition(" ")
    low = head.lower()
    if low in _THIRD:
        low = _THIRD[low]
    elif low.endswith("s") and low[:-1] in en.PRESENT:
        low = low[:-1]
    elif low.endswith("es") and low[:-2] in en.PRESENT:
        low = low[:-2]
    elif low.endswith("ies") and low[:-3] + "y" in en.PRESENT:
        low = low[:-3] + "y"
    else:
        return said
    return f"{low} {tail}" if tail else low


def _clause(clause: str, telling: Telling, *, first: bool = False, depth: int = 0) -> list[Fact]:
    if depth > DEEPEST:
        return []
    bare = clause[fillers(clause) :]
    if _DONE_TALKING.match(bare):
        return []
    if telling.owner_type == "user" and _STANDING.search(bare):
        wish = re.sub(r"(?i)^please\s+|^(?:i want|i would like|i need) you to ", "", bare)
        key = re.sub(r"(?i)\b(?:the user wants the agent to|me|them|please)\b", "", wish)
        return [Fact("profile", "preference", f"The user wants: {wish}", {f"wish:{plain(key)}": YES})]
    if bare.lower().startswith("the user wants: "):
        return _clause(bare[len("the user wants: ") :], telling, first=first, depth=depth + 1)
    if (said := regardless_of_subject(clause)) is not None:
        return [Fact("profile", said.category, _rest(bare, telling), said.slots[0])]
    subject = find_subject(clause, telling)
    after = clause[subject.end :].lstrip()
    if subject.possessive:
        return _possessive(clause, subject, after, telling, depth)
    adverbs = skipped(after, 0, telling)
    said_text = after[adverbs:]
    if subject.owner is not None and (match := _REPORT.match(said_text)):
        telling.focus = bool(subject.owner)
        telling.moment(clause[: len(clause) - len(said_text) + match.end()])
        return _clause(said_text[match.end() :], telling, depth=depth + 1)
    if subject.owner and (match := _OPINION.match(_based(said_text))):
        return _clause(_based(said_text)[match.end() :], telling, depth=depth + 1)
    if subject.owner is False:
        return _other(clause, telling)
    if subject.owner is None:
        starts_so = happening(said_text, timed=False) == "action" or (
            _FRAGMENT.match(said_text) and not _GERUND.match(said_text)
        )
        if (
            first
            and not starts_so
            and not re.match(
                r"(?:had|went|met|talked|discussed|spoke|decided|attended|got|felt)\b", said_text, _I
            )
        ):
            return _named(clause, telling, depth)
        if not telling.focus:
            return []
        if (
            not first
            and not starts_so
            and re.match(r"[A-Z][a-z]+ (?:is|was|has|likes|works|lives|\w+ed)\b", said_text)
        ):
            return _named(clause, telling, depth)
    telling.focus = True
    return _said(clause, subject, _based(said_text), telling, habit=after[:adverbs])


def _named(clause: str, telling: Telling, depth: int) -> list[Fact]:
    """A clause about somebody or something with a name, or one without a subject: an order."""
    at = skipped(clause, 0, telling, leading=True)
    match = _SPEAKER.match(clause, at)
    if match and (report := _REPORT.match(clause, match.end())):
        telling.focus = False
        return _clause(clause[report.end() :], telling, depth=depth + 1)
    return _other(clause, telling)


def _other(clause: str, telling: Telling) -> list[Fact]:
    if not re.match(r"(?:it|this|that|there|the|you)\b", clause, _I):
        telling.focus = False
    if (
        clause.lower().startswith("there ")
        and en.MEETINGS.search(clause)
        and times(clause, telling.at)
        and _OURS.search(clause)
    ):
        return [_event("meeting", clause, None, clause, telling)]
    if around_owner(clause) and times(clause, telling.at):
        return [_event("other", clause, None, clause, telling)]
    return []


def _possessive(clause: str, subject: Subject, after: str, telling: Telling, depth: int) -> list[Fact]:
    """My job is …: of the owner; my mother is …: of somebody else, unless it is what happened to her."""
    based = re.sub(r"\b(?:is|are|was|were|am)\b", "be", after, count=1, flags=_I)
    if (
        not re.match(rf"(?:\w+ ){{0,2}}(?:{en.RELATIONS})\b", after, _I)
        and (said := profile_facts(based)) is not None
        and not based.lower().startswith(("be ", "like ", "love "))
    ):
        telling.focus = True
        return _facts(said, clause, subject, telling)
    if report := re.compile(rf"[\w' -]{{1,60}}? (?={_REPORT.pattern})", _I).match(after):
        inner = _REPORT.match(after, report.end())
        telling.focus = False
        return _clause(after[inner.end() :], telling, depth=depth + 1) if inner else []
    telling.focus = False
    kin = re.match(rf"(?:\w+ ){{0,2}}(?:{en.KIN})\b", after, _I)
    if kin and of_kin(after[kin.end() :]):
        return [_event("event", clause, subject, after, telling)]
    if around_owner(clause):
        return [_event("other", clause, subject, after, telling)]
    return []


def _said(clause: str, subject: Subject, said: str, telling: Telling, *, habit: str) -> list[Fact]:
    timed = bool(times(clause, telling.at))
    never = re.search(r"\b(?:never|no longer|rarely|seldom|hardly ever)\b", habit, _I)
    telling_past = happening(said, timed=timed)
    lasting = profile_facts(said)
    if never:  # as the rules read it; or else it is not what they read without it
        lasting = profile_facts(f"never {said}") or denied_fact(lasting)
    if lasting is not None and not (telling_past and _passing(said, lasting, timed)):
        return _facts(lasting, clause, subject, telling)
    if telling_past == "other" and re.search(r"\balways\b", clause, _I) and not timed:
        return [
            Fact("profile", "personality", _content(clause, subject, telling), {f"trait:{plain(said)}": YES})
        ]
    if (
        telling_past is None
        and subject.owner
        and " " in said
        and said.partition(" ")[0].lower() in _HABITS
        and not POINTING.search(said)
    ):
        return [
            Fact("profile", "preference", _content(clause, subject, telling), {f"habit:{plain(said)}": YES})
        ]
    if (
        telling_past is None
        and re.search(
            r"\b(?:usually|always|often|never|every (?:day|morning|night|week|evening|sunday|weekend)|most (?:weekends|days|evenings|mornings|nights)|on (?:weekends|\w+days)|sometimes|normally|rarely)\b",
            clause,
            _I,
        )
        and re.match(r"\w+", said)
    ):
        return [
            Fact("profile", "preference", _content(clause, subject, telling), {f"habit:{plain(said)}": YES})
        ]
    return [_event(telling_past, clause, subject, said, telling)] if telling_past else []


def _passing(said: str, lasting: Said, timed: bool) -> bool:
    """Whether what could last is only a happening: "I got a raise", "I started a new job"."""
    if lasting.category in ("education", "career") and not re.match(
        r"be (?:\w+ )?(?:meeting|flying|going)", said
    ):
        return (
            en.LIFE.match(said) is not None
            and not re.match(r"(?:have )?graduated", said, _I)
            and lasting.category != "education"
        )
    return timed and not re.match(
        r"(?:be|like|love|enjoy|prefer|hate|can|know|speak|do not|was born|grew)\b", said, _I
    )


def _facts(said: Said, clause: str, subject: Subject, telling: Telling) -> list[Fact]:
    if len(said.items) < 2:
        return [
            Fact("profile", said.category, _content(clause, subject, telling), slots) for slots in said.slots
        ]
    begin = clause.find(said.items[0], subject.end)
    head = clause[:begin] if begin > 0 else clause[: subject.end] + " "
    return [
        Fact("profile", said.category, _content(head + item, subject, telling), slots)
        for slots, item in zip(said.slots, said.items, strict=True)
    ]


def _event(category: str, clause: str, subject: Subject | None, said: str, telling: Telling) -> Fact:
    when = telling.moment(clause)
    left = without_times(clause[fillers(clause) :], telling.at)
    own = subject is not None and subject.owner and not subject.possessive
    return Fact(
        "event", category, _content(clause, subject, telling), {}, words(left), negated=denied(said),
        happened_at=when.at if when else None, time_text=when.words if when else "",
        implied=_implied(clause, telling) if own else None,
    )  # fmt: skip


def _implied(clause: str, telling: Telling) -> Fact | None:
    """What is so since it happened."""
    if moved := moved_to(clause):
        return Fact(
            "profile", "preference", f"{telling.name_en} lives in {moved}", {"residence": plain(moved)}
        )
    if match := re.search(r"\bgot (married|engaged|divorced)\b", clause, _I):
        return Fact(
            "profile",
            "preference",
            f"{telling.name_en} is {match[1].lower()}",
            {"civil status": match[1].lower()},
        )
    return None


_OWN = (
    (re.compile(r"\b(?:my|our)\b", _I), "their"), (re.compile(r"\b(?:me|us)\b", _I), "them"), (re.compile(r"\b(?:myself|ourselves)\b", _I), "themselves"),
    (re.compile(r"\bmine\b", _I), "theirs"), (re.compile(r"\b(?:I am|we are)\b"), "they are"), (re.compile(r"\b(?:I|we)\b"), "they"),
)  # fmt: skip


def _rest(text: str, telling: Telling) -> str:
    """The words after the subject, with the owner in the third person."""
    if telling.narrated:
        return text
    for pattern, other in _OWN:
        text = pattern.sub(other, text)
    return text


def _content(clause: str, subject: Subject | None, telling: Telling) -> str:
    """The clause as a statement of its own."""
    start = fillers(clause)
    if subject is None:
        return _rest(clause[start:], telling)
    before, after = clause[start : subject.start].strip(" ,"), clause[subject.end :].strip()
    if subject.possessive:
        told = f"{telling.name_en}'s {_rest(after, telling)}"
    else:
        if subject.owner is None:
            after = (
                after[:1].lower() + after[1:]
            )  # "Had lunch with Sarah": the verb no longer begins the sentence
        told = f"{telling.name_en} {_rest(_third(after.removeprefix('both ')), telling)}"
    # The time or the adverb that stood before the subject goes to the end: it is part of what is told.
    return f"{told}, {before[0].lower() + before[1:]}" if before and times(before, telling.at) else told


def _third(after: str) -> str:
    """The verb as it is said of one person: I like is the user likes."""
    at = 0
    while match := ADVERB.match(after, at):
        at = match.end()
    head, _, tail = after[at:].partition(" ")
    low = head.lower()
    if low in ("am", "are"):
        new = "is"
    elif low == "were":
        new = "was"
    elif low in ("have", "do", "go"):
        new = {"have": "has", "do": "does", "go": "goes"}[low]
    elif low in en.PRESENT and low != "put":
        new = low[:-1] + "ies" if low.endswith("y") and low[-2] not in "aeiou" else low + ("es" if low.endswith(("s", "sh", "ch", "x")) else "s")  # fmt: skip
    else:
        return after
    return f"{after[:at]}{new} {tail}".strip()
