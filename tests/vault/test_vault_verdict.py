"""The rule: no text that somebody has not seen is ever written over or deleted."""

import itertools

import pytest

from octavo.service.vault.settling import Verdict, decide

TEXTS = (None, "a", "b", "c")
KNOWN = (None, {"a"}, {"a", "b"})
EVERY = list(itertools.product(TEXTS, TEXTS, KNOWN, *[(False, True)] * 3))


@pytest.mark.parametrize(("file", "store", "known", "unconfirmed", "buried", "asked"), EVERY)
def test_nothing_unseen_gives_way_unkept(file, store, known, unconfirmed, buried, asked):
    verdict = decide(file, store, known, unconfirmed=unconfirmed, buried=buried, asked=asked)
    seen = known or set()
    if verdict is Verdict.PULL:
        assert store is not None
        assert not asked  # what a caller wants is done
        assert file is None or (file in seen and not unconfirmed)  # an edit is never pulled over
    if verdict is Verdict.REMOVE:
        assert file is None
        assert asked or store in seen
    if verdict is Verdict.UNLINK:
        assert file in seen
        assert store is None
        assert buried  # a record that is merely missing deletes no file
    if verdict is Verdict.CONFLICT:
        assert None not in (file, store)
        assert store not in seen
    if verdict in (Verdict.PUSH, Verdict.CONFLICT):
        assert file is not None
    assert (verdict is Verdict.SAME) == (file == store and file is not None)
    assert (verdict is Verdict.FORGET) == (file is None and store is None)


@pytest.mark.parametrize(
    ("file", "store", "known", "verdict"),
    [
        ("a", "a", {"a"}, Verdict.SAME),
        ("b", "a", {"a"}, Verdict.PUSH),  # edited
        ("a", "b", {"a"}, Verdict.PULL),  # changed elsewhere
        ("b", "c", {"a"}, Verdict.CONFLICT),
        (None, "a", {"a"}, Verdict.REMOVE),  # the file was deleted
        (None, "b", {"a"}, Verdict.PULL),  # but somebody had changed it
        (None, "b", None, Verdict.PULL),  # new in the store
        ("a", None, None, Verdict.PUSH),  # new file
        ("a", None, {"a"}, Verdict.PUSH),  # another, empty database
        ("a", "b", None, Verdict.CONFLICT),  # metadata.json is gone
        (None, None, {"a"}, Verdict.FORGET),
    ],
)
def test_the_rule(file, store, known, verdict):
    assert decide(file, store, known) is verdict
