"""The reader of pages itself: what a page shows wrongly is found."""

import pytest
from pages import agrees, blocks, reader

GOOD = """\
```python
print("2026-01-05 09:30:00 UTC", "took 0.42 s")
```

```output
2027-11-15 12:00:00 UTC took 1.5 s
```

```console
$ echo one; echo two
one
two
$ printf '%s' "{}" \\
  | cat
{}
```
"""


@pytest.fixture
def page(tmp_path):
    def written(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return path

    return written


def test_a_good_page(page, tmp_path):
    """Times differ from run to run; nothing else may."""
    with reader(tmp_path) as somebody:
        somebody.read(page(GOOD))
    assert somebody.ran == ["python", "output", "console"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("took 1.5 s\n", "took 1.5 ms\n"),
        ("took 1.5 s\n", "took 1.5 s\nand more\n"),
        ("echo two", "false"),
        ("echo two", "exit 3"),
        ("one\ntwo\n", "two\none\n"),
        ("print(", "raise SystemExit("),
        ("```console", "```sh"),
        ("```console", "```yaml"),
    ],
)
def test_a_bad_page(page, tmp_path, right, wrong):
    text = GOOD.replace(right, wrong)
    with pytest.raises(AssertionError), reader(tmp_path) as somebody:
        somebody.read(page(text))


def test_what_is_cut():
    assert agrees('{"a":1,"b":[2,3]}', '{"a":1,…}\n')
    assert agrees("a\nb\nc\n", "a\n…\nc\n")
    assert not agrees("a\nb\nc\n", "a\n…\nd\n")
    assert not agrees("a\n", "")


def test_a_fence_within_a_fence(page):
    found = blocks(page("````output\n```memory\nx\n```\n````\n\n```python\npass\n```\n"))
    assert [(block.kind, block.line) for block in found] == [("output", 1), ("python", 7)]
