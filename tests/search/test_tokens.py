"""The estimate of what a text costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.kernel.text import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 0),
        ("a", 1),
        ("hello", 1),
        ("hellos", 2),
        ("hello world", 2),
        ("hello, world!", 4),
        ("two  spaces", 4),
        ("\n", 1),
        ("a\nb", 3),
        ("a\n\n\nb", 6),
        ("123", 1),
        ("1234", 2),
        ("3.14", 3),
        ("你", 2),
        ("你好世界", 5),
        ("你好，世界", 7),
        ("🎉", 2),
        ("é", 2),
        ("…", 2),
        ("```", 3),
        ("hello 世界", 4),
    ],
)
def test_known_texts(text, tokens):
    """Words by five letters, digits by three, marks and line ends one, Chinese one and a quarter, other signs two."""
    assert estimate_tokens(text) == tokens


@given(st.text(), st.text())
def test_texts_put_together_cost_no_more_than_apart(one, two):
    """So that a budget kept part by part is kept as a whole; and a longer text never costs less."""
    whole = estimate_tokens(one + two)
    # A space at each side of the seam becomes a run of spaces, which costs one more than two single ones.
    assert whole <= estimate_tokens(one) + estimate_tokens(two) + 1
    assert whole >= estimate_tokens(one)


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_any_text_has_a_cost(text):
    """Also one with half surrogate pairs, NUL and whatever else a string can hold."""
    assert estimate_tokens(text) >= bool(text.strip())
