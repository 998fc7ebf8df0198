"""The facts of an English sentence: clause by clause, each with the subject it speaks of."""

import re
from collections.abc import Iterable

from octavo.kernel.terms.english import STOP_WORDS
from octavo.layers.rules.clauses import (
    DEEPEST,
    ClauseSubject,
    ReadingContext,
)
from octavo.layers.rules.english_telling import DETAILS, EnglishTeller
from octavo.layers.rules.english_verbs import PRESENT, base_form, event_category, is_past
from octavo.layers.rules.facts import (
    ENGLISH,
    NO,
    YES,
    ProfileStatement,
    StatedFact,
    category_of,
    denied,
    is_personal,
    lasting_category,
    plain,
)
from octavo.layers.rules.moments import times
from octavo.layers.rules.profile import ENGLISH_PROFILE
from octavo.layers.rules.sentences import Sentence, clauses_en
from octavo.layers.rules.unsaid import completed, granted

_I = re.IGNORECASE
_WISH = "the user wants: "
#: What somebody does without saying when is what they do.
_HABITS = PRESENT.difference(ENGLISH.words["NO_HABITS"])


def read_english(sentence: Sentence, context: ReadingContext) -> None:
    """Add the facts about the owner in one sentence, in order, to what the context has found."""
    if context.asked:
        sentence = sentence._replace(
            text=re.sub(r"\b(?:it|them|one)\b", context.asked, sentence.text, count=1)
        )
    context.asked = sentence.text if sentence.asks and ENGLISH.ASKED_OF.fullmatch(sentence.text) else ""
    context.begin(sentence.text)
    reader = EnglishReader(context)
    clauses = clauses_en(sentence.text)
    if sentence.asks and (told := ENGLISH.TOLD_FIRST.match(clauses[-1] if clauses else "")):
        clauses[-1:] = [told["told"], clauses[-1][told.end() :]]  # "…, present ideas?"
    supposed = False
    for at, clause in enumerate(clauses):
        # What follows a condition holds only if it does; what follows "but" holds anyway.
        supposed = (supposed and not ENGLISH.ANYWAY.match(clause)) or bool(ENGLISH.SUPPOSED.match(clause))
        if ENGLISH.PLAYED.match(clause):
            break
        if supposed:
            context.open = False
            continue
        asks = (
            sentence.asks and at == len(clauses) - 1 and not ENGLISH.RHETORICAL.match(sentence.text)
        ) or ENGLISH.ASKING.search(clause) is not None
        iffy = asks or ENGLISH.IFFY.search(clause)
        facts = [] if iffy else reader.read_clause(reader.with_thing_named(clause), first=at == 0)
        if not facts and not asks and context.open and (match := ENGLISH.DETAIL.match(clause)):
            context.add_detail(reader.in_third_person(clause[match.end("it") :].strip()), DETAILS)
        else:
            context.add(facts)
            # "Nia is my best mate", "a cake for my son, he turns 6"
            said = facts[0].content if facts else clause
            if mentioned := (ENGLISH.IS_OWNERS if facts else ENGLISH.MENTIONED).search(said):
                context.other = mentioned["who"]
            context.people |= people_in(fact.content for fact in facts)
    reader.add_granted(sentence.text)


def people_in(contents: Iterable[str]) -> dict[str, str]:
    """Which of the owner's people each name means, as memories tell: Funmi is the wife."""
    return {
        name.casefold(): re.sub("(?<!s)s$|ren$", "", match["kin"].lower())  # of the kids, one
        for content in contents
        for match in ENGLISH.INTRODUCED.finditer(content)
        for name in ENGLISH.NAME.findall(match["names"])
    }


class EnglishReader(EnglishTeller):
    """Reads English clauses; their verbs are looked at in the base form."""

    def read_clause(self, clause: str, *, first: bool) -> list[StatedFact]:
        """What one clause says of the owner, or, where it is no clause, names of them."""
        if (match := ENGLISH.INTRO.match(clause)) and (
            rest := completed(match["rest"])
        ):  # "I'm Kim, 79, retired"
            return [fact for part in (match["one"], *rest) for fact in self.clause_facts(part, first=first)]
        found = self.clause_facts(clause, first=first)
        if found or self.context.narrated or self.context.owner_type == "agent":
            return found
        named = completed(clause[self.after_fillers(clause) :], first=first)
        return [
            fact for statement in named for fact in self.clause_facts(statement) or self._as_said(statement)
        ]

    def _as_said(self, statement: str) -> list[StatedFact]:
        """A statement that begins with "I", kept whatever it says."""
        subject = self._subject(statement)
        return self.stated(category_of(statement), statement, subject, f"says:{plain(statement)}")

    def add_granted(self, sentence: str) -> None:
        """Add what a sentence takes for granted of the owner and does not tell."""
        if self.context.narrated or self.context.owner_type == "agent":
            return
        for words, statement in granted(sentence):
            if not any(words.casefold() in fact.content.casefold() for fact in self.context.found):
                self.context.add(self.clause_facts(statement))

    def clause_facts(self, clause: str, *, first: bool = False, depth: int = 0) -> list[StatedFact]:
        """What one clause says of the owner; `depth` is how often somebody told that somebody told."""
        if depth > DEEPEST:
            return []
        bare = clause[self.after_fillers(clause) :]
        if ENGLISH.DONE_TALKING.match(bare):
            return []
        if not self.context.narrated and (match := ENGLISH.BARE_KIN.match(bare)):  # "Mum is a postie"
            whom = bare[match.start(match.lastgroup or "kin") :]
            clause = bare = f"my {whom[0].lower()}{whom[1:]}"
        name = re.split(r"'s |\s", bare, maxsplit=1)[0].casefold()
        if name not in STOP_WORDS and (kin := self.context.people.get(name)):  # "Funmi hates coriander"
            said = ENGLISH.NAME_IS.sub(" is ", ENGLISH.NAME_HAS.sub(" has ", bare[len(name) :]))
            clause = bare = f"{self._mine} {kin} {bare[: len(name)]}{said}"
        goes_on = self.context.open and not first and re.match(r"(?i)(?:always|never) ", bare)
        if self.context.owner_type == "user" and not goes_on and ENGLISH.STANDING.search(bare):
            wish = re.sub(r"(?i)^please\s+|^(?:i want|i would like|i need) you to ", "", bare)
            key = re.sub(r"(?i)\b(?:the user wants the agent to|me|them|please)\b", "", wish)
            slots = {f"wish:{plain(key)}": YES}
            return [StatedFact("profile", "preference", f"The user wants: {wish}", slots)]
        if bare.lower().startswith(_WISH):
            return self.clause_facts(bare[len(_WISH) :], first=first, depth=depth + 1)
        if (statement := ENGLISH_PROFILE.about_owner(clause)) is not None:
            return [StatedFact("profile", statement.category, self.in_third_person(bare), statement.slots[0])]
        subject = self._subject(clause)
        after = clause[subject.end :].lstrip()
        if subject.possessive:
            return self._possessive(clause, subject, after, depth)
        adverbs = self.skipped(after, 0, ENGLISH.ADVERB, gap=self.gap)
        predicate = after[adverbs:]
        if subject.owner is not None and (match := ENGLISH.REPORT.match(predicate)):
            self.context.about_owner = bool(subject.owner)
            self.context.moment(clause[: len(clause) - len(predicate) + match.end()])
            told = self.clause_facts(predicate[match.end() :], depth=depth + 1)
            return told if subject.owner else self._hearsay(told, clause)
        if subject.owner and (match := ENGLISH.OPINION.match(base_form(predicate))):
            inner = self.clause_facts(base_form(predicate)[match.end() :], depth=depth + 1)
            if inner or ENGLISH_PROFILE.statement(base_form(predicate)) is None:
                return inner
        # "My landlord raised the rent, it is 1450 now": that is not the landlord.
        who, other = clause[subject.start :].partition(" ")[0], self.context.other
        of_other = ENGLISH.OF_OTHER.match(clause, subject.start) and not ENGLISH.NOT_MEANT.match(
            f"{who} {other}"
        )
        if other and not depth and of_other:
            # "My sister lives in Leeds and is expecting": she is whom it was about.
            said = re.sub(r"(?i)^(?:he|she|they|who|it) ", "", clause[subject.start :])
            return self.clause_facts(f"{self._mine} {self.context.other} {said}")
        if subject.owner is False:
            return self._around_owner(clause) or self._mentioning(clause, depth)
        if subject.owner is None:
            # "Chuffed to bits"; "Set a timer" is no past; "a kitten, called Rivet"
            if ENGLISH.FELT.match(predicate) or (ENGLISH.ORDERED if first else ENGLISH.NAMED_SO).match(bare):
                return []
            starts_so = event_category(predicate, timed=False) in ("action", "decision", "event") or (
                ENGLISH.FRAGMENT.match(predicate) and not ENGLISH.GERUND.match(predicate)
            )
            another = re.match(r"[A-Z][a-z]+ (?:is|was|has|likes|works|lives|\w+ed)\b", predicate)
            another = another or ENGLISH.NOUN_FIRST.match(predicate)  # it was the bike that got nicked
            starts_so = starts_so and not (another and another[0].endswith("s"))  # Mohammed is no verb
            if first and not starts_so and not ENGLISH.TELLS_OF_DAY.match(predicate):
                return self._about_another(clause, depth) or self._mentioning(clause, depth)
            if not self.context.about_owner:
                return self._mentioning(clause, depth)
            if another and not first and not starts_so:
                return self._about_another(clause, depth) or self._mentioning(clause, depth)
        self.context.about_owner = True
        said = base_form(predicate)
        found = self._owner_facts(clause, subject, said, adverbs=after[:adverbs])
        found = found or self._stated(clause, subject, said, depth)
        if found:
            self.context.other = ""
        return found

    def with_thing_named(self, clause: str) -> str:
        """ "Sold the kayak in May" of "sold it in May", where the last fact is that a kayak was bought.

        "Barry's asleep. He has gout": he is whoever was named last, if it is nobody of the owner's.
        """
        context = self.context
        if not (context.other or context.narrated or (context.open and ENGLISH.DETAIL.match(clause))):
            clause = re.sub("^(?:he|she)(?= )", context.named or r"\g<0>", clause, flags=_I)
        if match := ENGLISH.NAMED_SUBJECT.match(clause):
            context.named = match[0]
        named = self.context.last and ENGLISH.NAMED_THING.match(self.context.last.content)
        if named is None:
            return clause
        article = (
            ""
            if named["thing"].startswith(("the ", "their ", "some ")) or named["thing"].endswith("ing")
            else "the "
        )
        return ENGLISH.MEANS_THING.sub(rf"\g<did> {article}{named['thing']}", clause, count=1)

    def _about_another(self, clause: str, depth: int) -> list[StatedFact]:
        """A clause about somebody or something with a name, or one without a subject: an order."""
        match = ENGLISH.SPEAKER.match(clause, self.after_leading(clause))
        if match and (report := ENGLISH.REPORT.match(clause, match.end())):
            self.context.about_owner = False
            return self._hearsay(self.clause_facts(clause[report.end() :], depth=depth + 1), clause)
        return self._around_owner(clause)

    def _around_owner(self, clause: str) -> list[StatedFact]:
        """What happened about the owner, of which something else is the subject."""
        if not re.match(r"(?:it|this|that|there|the(?! user)|you)\b", clause, _I):
            self.context.about_owner = False
        # "They made me head of sales"
        if self.context.owner_type == "user" and ENGLISH.DONE_TO.match(clause):
            return self.event("event", clause, None, clause, implies=False)
        if not times(clause, self.context.at):
            return []
        if (
            clause.lower().startswith("there ")
            and ENGLISH.MEETINGS.search(clause)
            and (ENGLISH.OURS.search(clause) or not ENGLISH.AT_HAND.search(clause))
        ):
            return self.event("meeting", clause, None, clause, implies=False)
        return self.event("other", clause, None, clause, implies=False) if _is_around_owner(clause) else []

    @property
    def _mine(self) -> str:
        return "the user's" if self.context.narrated else "my"

    def _stated(self, clause: str, subject: ClauseSubject, said: str, depth: int) -> list[StatedFact]:
        """What the owner says of themselves in a shape that no rule knows, kept as it was said; small talk is not."""
        stated = ENGLISH.STATED.match(said) or (said.startswith("be ") and is_personal(said))
        passing = ENGLISH.AT_HAND.search(said) or ENGLISH.VAGUE.search(said)
        own = subject.owner or said.startswith(("can not ", "do not "))  # …, can't snap my fingers either
        if self.context.owner_type == "agent" or not own or depth or not stated or passing:
            return []
        works = ENGLISH.WORKS_SO.match(said) or ENGLISH.AT_WORK.match(clause)
        left = self.context.open and ENGLISH.LEFT_WORK.search(self.context.found[-1].content)
        category = "career" if works or left else category_of(said.partition(",")[0])
        return self.stated(category, clause, subject, f"says:{plain(said)}")

    def _mentioning(self, clause: str, depth: int) -> list[StatedFact]:
        """What is said of something else that concerns the owner: "Shellfish makes my throat swell", a date that is fixed."""
        bare = clause[self.after_fillers(clause) :]
        if (
            self.context.owner_type == "agent"
            or depth
            or ENGLISH.AT_HAND.search(clause)
            or not ENGLISH.TOLD.match(bare)
        ):
            return []
        if ENGLISH.FIXED.match(bare) and any(when.at for when in times(bare, self.context.at)):
            return self.event("event", clause, None, clause, implies=False)
        said = base_form(bare.partition(" ")[2])
        if (
            ENGLISH.NAME_FIRST.match(bare)  # "Jonas is allergic to cats"
            and (statement := ENGLISH_PROFILE.statement(said))
            and statement.category == "preference"
            and (is_personal(said) or any(key.startswith("health:") for key in statement.slots[0]))
        ):
            return self.of_owners(plain(bare.split()[0]), statement.slots, said, bare)
        if not ENGLISH.OWNERS_OWN.search(bare) or ENGLISH.THINKS_SO.search(bare):
            return []
        return [StatedFact("profile", "preference", self._name_owner(bare), {f"says:{plain(bare)}": YES})]

    def _of_owners(self, clause: str, subject: ClauseSubject, after: str) -> list[StatedFact]:
        """My X …: what is said of the owner's people and things."""
        match = ENGLISH.OWN_RELATION_NAMED.match(after)
        who, said = (match[0].strip(" ,"), after[match.end() :].strip(" ,")) if match else ("", after)
        self.context.other = "" if who.endswith("'s") else who  # whose husband he is, is not whom it is about
        if (
            self.context.owner_type == "agent"
            or not ENGLISH.OF_OWNERS.match(after)
            or ENGLISH.AT_HAND.search(after)
            or re.match(r"(?:phoned|rang|called|texted)\b", said)
            or re.search(r"\b(?:every|some|any|no)thing$", said)
            or not said
        ):
            return []
        content, kind = self.content(clause, subject), plain(match["kin"] if match else "thing")
        if theirs := ENGLISH.THEIRS.match(after):  # mum's birthday is on the 4th of March: one of hers
            match, said, kind = theirs, theirs["said"], plain(theirs["who"])
        fixed = (
            not theirs
            and ENGLISH.FIXED.match(f"my {after}")
            and any(when.at for when in times(after, self.context.at))
        )
        if fixed or (times(clause, self.context.at) and is_past(said)):
            return self.event("event", clause, subject, after, implies=False)
        statement = ENGLISH_PROFILE.statement(base_form(said)) if match else None
        return self.of_owners(kind, statement.slots if statement else [], said, content)

    def _possessive(self, clause: str, subject: ClauseSubject, after: str, depth: int) -> list[StatedFact]:
        """My job is …: of the owner; my mother is …: of somebody else, unless it is what happened to her."""
        based = re.sub(r"\b(?:is|are|was|were|am)\b", "be", after, count=1, flags=_I)
        if (
            not ENGLISH.OWN_RELATION.match(after)
            and (statement := ENGLISH_PROFILE.statement(based)) is not None
            and not based.lower().startswith(("be ", "like ", "love "))
        ):
            self.context.about_owner = True
            return self.lasting(statement, clause, subject)
        self.context.about_owner = False
        if reporter := ENGLISH.REPORTER.match(after):
            report = ENGLISH.REPORT.match(after, reporter.end())
            told = self.clause_facts(after[report.end() :], depth=depth + 1) if report else []
            return self._hearsay(told, clause)
        stated = [] if depth else self._of_owners(clause, subject, after)
        kin = ENGLISH.OWN_KIN.match(after)
        if kin and ENGLISH.LIFE.search(after[kin.end() :]):
            return self.event("event", clause, subject, after, implies=False)
        if _is_around_owner(clause):
            return self.event("other", clause, subject, after, implies=False)
        return [] if ENGLISH.THINKS_SO.search(after.partition(",")[0]) else stated

    def _owner_facts(
        self, clause: str, subject: ClauseSubject, said: str, *, adverbs: str
    ) -> list[StatedFact]:
        """What the words after the owner say: something that lasts, a habit, or something that happened."""
        timed = bool(times(clause, self.context.at))
        category = event_category(said, timed=timed)
        lasting = ENGLISH_PROFILE.statement(said)
        rarely = ENGLISH.RARELY.search(adverbs)
        if rarely:  # as the rules read it, or not what they read without it
            lasting = ENGLISH_PROFILE.statement(f"never {said}") or denied(lasting)
        if lasting is not None and not (category and _is_passing(said, lasting, timed)):
            if lasting.category == "career" and ENGLISH.LEISURE.search(clause):
                lasting = lasting._replace(category="preference")
            return self.lasting(lasting, clause, subject)
        lasts = (subject.owner or said.startswith("was ")) and ENGLISH.LASTS.match(said)
        if lasts and not ENGLISH.POINTING.search(said):
            return self.stated(category_of(said), clause, subject, f"says:{plain(said)}")
        if category == "other" and not timed and re.search(r"\balways\b", clause, _I):
            return self.stated("personality", clause, subject, f"trait:{plain(said)}")
        verb, _, rest = said.partition(" ")
        habit = (
            subject.owner
            and (rest or rarely)
            and verb.lower() in _HABITS
            and not ENGLISH.POINTING.search(said)
        )
        often = re.match(
            r"(?!(?:me|us)\b|(?:have|do|did|will)$|\w+ (?:it|them|this)\b)\w", said
        ) and ENGLISH.HABITUAL.search(clause)
        if category is None and (habit or (often and (subject.owner or verb.lower() in PRESENT))):
            works = ENGLISH.WORKS_SO.match(said) or ENGLISH.AT_WORK.match(clause)
            kind = "career" if habit and works else "preference"
            no = rarely or said.startswith("do not ")  # I no longer run every morning
            return self.stated(kind, clause, subject, f"habit:{plain(said)}", NO if no else YES)
        unnamed = not self.context.found and re.match(
            r"(?:have )?\w+ (?:it|them)\b", said
        )  # "Took it up in May"
        if category is None or unnamed or (not timed and ENGLISH.VAGUE.search(said)):
            return []
        done = category == "action" and not timed and subject.owner and not re.match("be |got the job", said)
        if done and not self.implied(clause) and (kind := lasting_category(said)):
            return self.stated(kind, clause, subject, f"says:{plain(said)}")
        return self.event(category, clause, subject, said, implies=True)


def _is_passing(said: str, lasting: ProfileStatement, timed: bool) -> bool:
    """Whether what could last is only a happening: "I got a raise", "I started a new job"."""
    if lasting.category in ("education", "career") and not re.match(
        r"be (?:\w+ )?(?:meeting|flying|going)", said
    ):
        graduated = re.match(r"(?:have )?graduated", said, _I)
        return ENGLISH.LIFE.match(said) is not None and not graduated and lasting.category != "education"
    if re.match(r"be (?:\w+ )?(?:staying|crashing|lodging)\b", said):
        return timed  # "I'm staying at the Hilton tonight" is no home
    return timed and not re.match(
        r"(?:be|like|love|enjoy|prefer|hate|can|know|speak|do not|was born|grew)\b", said, _I
    )


def _is_around_owner(clause: str) -> bool:
    around = ENGLISH.AROUND.search(clause) and not ENGLISH.AT_HAND.search(clause)
    return bool(around and ENGLISH.OWNERS_OWN.search(clause))
