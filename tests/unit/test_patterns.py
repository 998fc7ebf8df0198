"""Patterns that are compiled when they are first used."""

import re
import subprocess
import sys

import pytest

from octavo.kernel.text import lazy_pattern


def test_it_finds_what_a_pattern_finds():
    pattern = lazy_pattern(r"(?P<n>\d+) CATS", re.IGNORECASE)
    assert pattern.pattern == r"(?P<n>\d+) CATS"
    assert pattern.search("I have 3 cats")["n"] == "3"
    assert pattern.sub("dogs", "3 cats, 4 Cats") == "dogs, dogs"
    assert pattern.fullmatch("cats") is None
    assert pattern.flags & re.IGNORECASE


def test_a_mistake_is_raised_at_first_use():
    pattern = lazy_pattern("(")
    with pytest.raises(re.error):
        pattern.match("")


def test_importing_compiles_none():
    program = """
import gc
import octavo.layers.rules, octavo.memory.memory
from octavo.kernel.text import _LazyPattern

lazy = [each for each in gc.get_objects() if type(each) is _LazyPattern]
print(len(lazy) > 100, [each.pattern for each in lazy if each._compiled is not None])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True []\n"
