"""Front matter: what is one, what is not, and that no letter of a file is ever lost."""

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo import ConfigError, InvalidRecord
from octavo.service.vault.documents import Content, compose, parse

BOMB = "---\na: &a [x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
) + "---\nbody"  # fmt: skip

NOT_FRONT = [
    "", "plain", "---", "---\n", "---\na: 1\n", "---\na: 1\nno end", "--- \nbody", "----\na: 1\n----\n", " ---\na: 1\n---\n",
    "---\n- a\n- list\n---\nbody", "---\njust words\n---\nbody", "---\na: [\n---\nbody", "---\na: b: c\n---\n", "---\n\tx: 1\n---\n",
    "---\na: !!python/object:os.system x\n---\n", "---\n? [a]\n: b\n---\n", "---\na: !!bool x\n---\n", "---\na: !!int ''\n---\n",
    "---\na: !!timestamp x\n---\n", "---\na: .nan\n---\n", "---\na: 99999999999999999999999\n---\n", "---\na: !!binary aGk=\n---\n",
    '---\na: "\\0"\n---\n', '---\na: "\\ud800"\n---\n', "---\na: &x [*x]\n---\n", "---\na: " + "[" * 3000 + "\n---\n",
    BOMB,
    "---\n" + "a: 1\n" * 20000 + "---\n", "---\na: 1\n--- x\nbody", "text\n---\na: 1\n---\n",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_FRONT)
def test_what_is_no_front_matter_is_body_as_it_stands(text):
    assert parse(text) == Content("", text, {})


HOSTILE = {
    "open lists": "a: " + "[" * 2000,
    "open dicts": "a: " + "{" * 2000,
    "lists to the end": "a: " + "[" * 60_000,
    "quoted ends": "a: " + "[ ']', " * 8000,
    "dashes": "- " * 30_000,
    "many values": "a: [" + "1," * 30_000 + "1]",
    "many keys": "".join(f"k{n}: v\n" for n in range(8000)),
    "merged dicts": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n + 1}: &a{n + 1}\n  <<: [*a{n}, *a{n}]\n" for n in range(40)),
    "tagged merges": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n + 1}: &a{n + 1}\n  !!merge <<: [*a{n}, *a{n}]\n" for n in range(40)),
    "long number": "a: " + "1" * 60_000,
}


@pytest.mark.parametrize("yaml", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_head_costs_little_and_no_letter(yaml):
    """Whatever stands between the dashes is read or taken for body within a bounded time, at every put and get."""
    text = f"---\n{yaml}\n---\nbody"
    started = time.process_time()
    found = parse(text)
    again = compose(found.body, found.front, found)
    assert (
        time.process_time() - started < 1.5
    )  # it is a fifth of that; the lists took 7 s, and the dicts for ever
    assert found.raw == again.raw == text.encode()
    assert parse(text) == found


def test_a_merge_key_is_a_key():
    """`<<` says nothing but itself, and what has aliases is no front matter: a few can stand for billions of values."""
    assert parse("---\na: 1\nb:\n  <<: {x: 1}\n---\n").front == {"a": 1, "b": {"<<": {"x": 1}}}
    assert parse("---\n=: 1\na: =\n---\n").front == {"=": 1, "a": "="}
    aliased = "---\na: &a {x: 1}\nb: *a\n---\n"
    assert parse(aliased) == Content("", aliased, {})


FRONT = [
    ("---\na: 1\n---\nbody\n", {"a": 1}, "body\n"),
    ("---\r\na: 1\r\n---\r\nbody\r\n", {"a": 1}, "body\r\n"),
    ("\ufeff---\na: 1\n---\nbody", {"a": 1}, "body"),
    ("---\na: 1\n---", {"a": 1}, ""),
    ("---\na: 1\n...\nbody", {"a": 1}, "body"),
    ("---  \na: 1\n---\t\n\n\nbody", {"a": 1}, "\n\nbody"),
    ("---\n---\nbody", {}, "body"),
    ("---\n# only a comment\n---\nbody", {}, "body"),
    ("---\na: 1\n---\nbody\n---\nmore\n---\n", {"a": 1}, "body\n---\nmore\n---\n"),
    ("---\nday: 2024-01-01\nname: 李\nno: null\n1: one\n---\n", {"day": "2024-01-01", "name": "李", "no": None, "1": "one"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "front", "body"), FRONT)
def test_front_matter(text, front, body):
    """A date stays as it was typed; line ends and the mark of UTF-8 stay where they are."""
    found = parse(text)
    assert (found.front, found.body) == (front, body)
    assert found.raw == text.encode()


def test_a_mark_of_utf8_is_no_part_of_the_body():
    assert parse("\ufeffhello") == Content("\ufeff", "hello", {})


lines = st.lists(
    st.sampled_from(["---", "...", "a: 1", "b: x", "- x", "", "# t", "\ufeff", "---x", "a: [", "词: 😀", " ---"]), max_size=8
)  # fmt: skip
texts = st.builds(lambda found, end, tail: end.join(found) + tail, lines, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n"]))  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text("aé李:#-'\"\n|> ~2024", max_size=9)
)
fronts = st.dictionaries(st.text("aé李: -#?", min_size=1, max_size=6), scalars | st.lists(scalars, max_size=3), max_size=4)  # fmt: skip


@given(texts)
def test_no_letter_is_lost(text):
    found = parse(text)
    assert found.head + found.body == text


@given(texts, fronts | st.none(), texts | st.none())
def test_a_body_comes_back_as_it_was_put(body, front, before):
    """Whatever it looks like, and whatever stood there before; a head that still holds is not retyped."""
    old = None if before is None else parse(before)
    made = compose(body, front, old)
    again = parse(made.raw.decode())
    assert again == made
    assert again.body == body
    assert again.front == (front if front is not None else old.front if old else {})
    if old is not None and front is None and old.head.endswith("\n"):
        assert made.head == old.head


def test_comments_and_order_survive_a_put():
    old = parse("---\nb: 1  # why\na: 2\n---\nold")
    assert compose("new", None, old).raw == b"---\nb: 1  # why\na: 2\n---\nnew"
    assert compose("new", {"b": 1, "a": 2}, old).raw == b"---\nb: 1  # why\na: 2\n---\nnew"
    assert compose("new", {"b": 2}, old).raw == b"---\nb: 2\n---\nnew"
    assert compose("new", {}, old).raw == b"new"


@pytest.mark.parametrize("front", [{"a": float("nan")}, {"a": object()}, ["a"], {"a": "\0"}, {"a": "\ud800"}, {"a": 2**70}])  # fmt: skip
def test_a_front_matter_that_cannot_be_kept_is_refused(front):
    with pytest.raises(InvalidRecord, match="front matter"):
        compose("body", front)


def test_without_pyyaml_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert parse("plain").body == "plain"
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[service\]'"):
        parse("---\na: 1\n---\n")
