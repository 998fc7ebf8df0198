"""English words brought to one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.kernel.terms.english import STOP_WORDS, stem

CLASSIC = """
consign consign|consigned consign|consigning consign|consignment consign|consist consist|consisted consist
consistency consist|consistent consist|consistently consist|consolation consol|consolations consol
consolatory consolatori|console consol|consoling consol|conspicuous conspicu|conspirator conspir|constancy constanc
constitutional constitut|knack knack|knackered knacker|knaves knave|knightly knight|knock knock|knots knot
generate generat|generously generous|general general|communication communic|arsenal arsenal
caresses caress|flies fli|dies die|ties tie|cries cri|gas gas|this this|gaps gap|kiwis kiwi|sky sky|skies sky
agreed agre|feed feed|plastered plaster|bled bled|motoring motor|hopping hop|hoping hope|luxuriated luxuri
falling fall|hissing hiss|fizzed fizz|failing fail|filing file|happy happi|enjoy enjoy|by by|say say
relational relat|conditional condit|rational ration|valency valenc|digitizer digit|conformably conform
radically radic|differently differ|vilely vile|analogously analog|vietnamization vietnam|operator oper
feudalism feudal|decisiveness decis|hopefulness hope|callousness callous|formality formal|sensitivity sensit
triplicate triplic|formative format|formalize formal|electrical electr|hopeful hope|goodness good
revival reviv|allowance allow|inference infer|airliner airlin|adjustable adjust|defensible defens
irritant irrit|replacement replac|adjustment adjust|dependent depend|adoption adopt|homologous homolog
effective effect|bowdlerize bowdler|probate probat|rate rate|cease ceas|controlling control|roll roll
succeed succeed|outing outing|news news|early earli|gently gentl|dying die|singly singl
"""
FAMILIES = """
paint paints painted painting|go goes going went gone|buy buys bought buying|child child's children
see saw seen seeing sees|run ran running runs|write wrote written writing|take took taken taking|know knew known
person people persons|man men|woman women|mouse mice|tooth teeth|live lives lived living|good better best|bad worse worst
think thought thinking|teach taught teaches|fly flew flown flying|swim swam swum swimming|begin began begun
"""


@pytest.mark.parametrize("pair", CLASSIC.replace("\n", "|").strip("|").split("|"))
def test_the_classic_examples(pair):
    """The words Porter's second stemmer is shown with."""
    word, expected = pair.split()
    assert stem(word) == expected


@pytest.mark.parametrize("family", FAMILIES.replace("\n", "|").strip("|").split("|"))
def test_forms_of_one_word_meet(family):
    """Regular or not, the forms of a word have one stem."""
    assert len({stem(form.removesuffix("'s")) for form in family.split()}) == 1


def test_different_words_stay_apart():
    pairs = [
        ("new", "news"),
        ("universe", "univers1"),
        ("general", "generous"),
        ("hop", "hope"),
        ("man", "many"),
    ]
    assert [pair for pair in pairs if stem(pair[0]) == stem(pair[1])] == []


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", max_size=20) | st.text(max_size=20))
def test_any_word_has_a_stem(word):
    """A word is never stemmed away, and plain letters stay plain letters."""
    found = stem(word)
    assert bool(found) == bool(word)
    if word.isascii() and word.isalpha() and word.islower():
        assert found.isalpha()
        assert found.islower()


def test_stop_words_are_lower_case_words():
    assert {"the", "is", "don't", "what"} <= STOP_WORDS
    assert all(word == word.lower() for word in STOP_WORDS)
    assert not {"painted", "may", "will's"} & STOP_WORDS
