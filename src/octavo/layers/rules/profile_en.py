"""What an English clause says that lasts. Its verb stands in the base form: "I'm", "he is" and "we are" are all "be"."""

import re

from octavo.layers.rules.facts import NO, YES, Statement, plain
from octavo.layers.rules.profile import ProfileRules, is_denied
from octavo.layers.rules.tables import Table

ENGLISH = Table("english", re.IGNORECASE)
_ANTONYMS, _SAME_TRAITS = ENGLISH.pairs("ANTONYMS"), ENGLISH.pairs("SAME_TRAITS")
_STAYS_WHOLE = (" than ", " over ", " to ", " between ")
_AFTER_PLACE = re.compile(r" (?:with|for|since|and|but|near|now)\b")
_BORN_ON = re.compile(rf"(?:the )?(?:\d|(?:{ENGLISH.MONTHS.pattern})\b)", re.IGNORECASE)


class EnglishProfile(ProfileRules):
    """The kinds of statements that English has of its own."""

    def statement(self, said: str) -> Statement | None:
        """What the words after a subject say; of what is at hand ("I love it") no memory can name anything."""
        if ENGLISH.POINTING.search(said):
            return None
        return super().statement(ENGLISH.LASTING.sub(_lasting_verb, said))

    def cleaned(self, value: str) -> str:
        """A value without "a lot", "these days", ", not Munich" at its end."""
        before = ""
        while before != value:
            before, value = value, ENGLISH.TAIL.sub("", value)
        return ENGLISH.NOT_THAT.sub("", value)

    def listed_items(self, value: str) -> list[tuple[str, str]]:
        value = self.cleaned(value)
        items = [item.strip() for item in ENGLISH.LIST.split(value) if item and item.strip()]
        whole = ENGLISH.TOGETHER.match(value) or any(word in value for word in _STAYS_WHOLE)
        if whole or not items or any(len(item.split()) > 4 for item in items):
            items = [value]  # a long item is a sentence
        return [(item, plain(ENGLISH.OBJECT_VERB.sub("", item))) for item in items]

    def job(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """A role, whom it is held for, and where."""
        groups = match.groupdict()
        role, slots = self.cleaned(groups.get("v") or ""), {}
        if role:
            role, _, place = _role_and_place(role)
            # "I'm seeing the dentist", "I'm married to a doctor": somebody else's job.
            if "strict" in groups and (not ENGLISH.OCCUPATION.search(role) or ENGLISH.NO_JOB.search(role)):
                return None
            slots["occupation"] = plain(role)
            if place.startswith(("at ", "for ")):
                slots["employer"] = plain(place.split(" ", 1)[1])
        if groups.get("e"):
            slots["employer"] = plain(self.cleaned(groups["e"]))
        if groups.get("p"):
            slots["workplace"] = plain(self.cleaned(groups["p"]))
        if is_denied(match):
            slots = {f"not {key}": value for key, value in slots.items()}
        return Statement(category, [slots])

    def trait(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """What somebody is like; of two opposites one is the other denied."""
        word, yes = match["v"].lower(), not is_denied(match)
        if word in _ANTONYMS:
            word, yes = _ANTONYMS[word], not yes
        return Statement(category, [{f"trait:{plain(_SAME_TRAITS.get(word, word))}": YES if yes else NO}])

    def residence(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """Where somebody lives."""
        where = plain(_AFTER_PLACE.split(self.cleaned(match["v"]))[0])
        return Statement(category, [{"not residence" if is_denied(match) else "residence": where}])

    def origin(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """Where somebody comes from; "born in 1990" is when."""
        where = match["v"] or match["w"]
        return Statement(category, [{"birthday" if _BORN_ON.match(where) else "home town": plain(where)}])

    def named(self, match: "re.Match[str]", _slot: str, category: str) -> Statement | None:
        """I'm Tom; but I'm British."""
        slot = "nationality" if match["v"].endswith(("ish", "an", "ese", "ch")) else "name"
        return Statement(category, [{slot: plain(match["v"])}])


_PROFILE = EnglishProfile(ENGLISH)


def profile_statement(said: str) -> Statement | None:
    """What the words after a subject say that lasts; None when they say nothing of the kind."""
    return _PROFILE.statement(said)


def statement_about_owner(clause: str) -> Statement | None:
    """What is said of the owner though something else is the subject: "family comes first for me"."""
    if match := ENGLISH.FAVOURITE.match(clause):
        return _PROFILE.favourite(match, "", "preference")
    if not ENGLISH.TO_OWNER.search(clause):
        return None
    value = plain(re.sub(r"(?i)the user|me|my|them|him|her", "", clause))
    return Statement("value", [{f"value:{value}": YES}])


def _lasting_verb(match: "re.Match[str]") -> str:
    """Have always loved is love, have been vegan is be vegan."""
    if match["verb"] is None:
        return "be "
    return f"{'never ' if match['often'].lower() == 'never' else ''}{match['verb']} "


def _role_and_place(role: str) -> tuple[str, str, str]:
    """A role, and where it is held: "a nurse at Mercy" apart."""
    match = ENGLISH.AFTER_ROLE.search(role)
    return (role[: match.start()], " ", role[match.end() :]) if match else (role, "", "")
