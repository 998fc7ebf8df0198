"""docs/search.md and examples/recall.py: what they show is what happens."""

import ast
import inspect
import os
import re
import subprocess
from pathlib import Path

from octavo.kernel.terms.matches import MOST
from octavo.kernel.terms.terms import MOST_CHARACTERS, terms
from octavo.search import candidates, question
from octavo.search.question import COLLECTIONS, LAYERS, Filters
from octavo.search.recall import MOST_HITS, Recall
from warm import programs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "search.md").read_text()
BLOCK = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


async def test_every_block(tmp_path, capsys):
    """Each block runs, the first by itself and the others one after the other; what one prints stands under it."""
    printed, ran, names = "", [], {}
    for _, kind, block in BLOCK.findall(PAGE):
        if kind == "output":
            assert printed == block
            printed = ""
            continue
        assert kind == "python", f"a {kind} block that nothing runs: {block}"
        assert printed == "", f"not shown on the page: {printed}"
        ran.append(block)
        if "asyncio.run(" in block:
            printed = run(["-c", block], tmp_path)
            continue
        code = compile(block, "docs/search.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(running := eval(code, names)):
            await running
        printed = capsys.readouterr().out
    assert len(ran) == 11
    await names["store"].close()


def test_every_argument():
    """The table has every argument of `recall` and every filter, and no other; the collections shown are the default."""
    shown = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .* \| .*\|$", PAGE, re.MULTILINE)
    named = [name for row in shown for name in re.findall(r"\w+", row)]
    own = [
        p.name for p in inspect.signature(Recall.recall).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    assert sorted(named) == sorted([*own[1:], *Filters.__annotations__])
    assert ", ".join(f"`{name}`" for name in COLLECTIONS) in PAGE
    assert " or ".join(f'`"{layer}"`' for layer in LAYERS) in PAGE


def test_every_number():
    """The limits shown are the limits kept."""
    assert f"first {question.MOST_CHARACTERS:,} characters and {question.MOST_TERMS} terms" in PAGE
    assert f"first {MOST_CHARACTERS:,} characters" in PAGE
    assert f"more than {MOST:,} records" in PAGE
    assert f"The {candidates.NEAREST} nearest" in PAGE
    assert f"newest {candidates._READ:,} records" in PAGE
    assert f"up to {MOST_HITS:,}" in PAGE
    assert (
        f"({inspect.signature(Recall.context).parameters['limit'].default} unless you give a `limit`)" in PAGE
    )
    assert f"max_tokens={inspect.signature(Recall.context).parameters['max_tokens'].default}" in PAGE


FOUND_BY = {
    "painted, bought, children, Lena’s": "paints, buy, child, Lena",
    "软件合同": "软件, 合同, 件, 软件合同在哪里？",
    "café, Müller, ＡＢＣ": "cafe, muller, abc",
    "1,299 and 3.5": "1299 and 3.5",
}


def test_every_example_of_terms():
    """What the table says is found by what."""
    for text, question_ in FOUND_BY.items():
        assert f"| {text} | {question_} |" in PAGE
        for asked in question_.split(", "):
            assert set(terms(asked)) & set(terms(text)), asked
    days = "7 May 2023, 2023-05-07, 2023年5月7日"
    assert f"| {days} | each other |" in PAGE
    assert all("20230507" in terms(day) for day in days.split(", "))
    assert "| `parseConfig`, `parse_config` | each other, parse, config |" in PAGE
    assert set(terms("parseConfig")) == set(terms("parse_config")) >= {"pars", "config"}
    assert "| C++, C#, 🏆 | themselves |" in PAGE
    assert len({tuple(terms(sign)) for sign in ("C++", "C#", "C", "🏆")}) == 4


def test_every_link():
    """Every page linked to is there."""
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_the_example(tmp_path):
    """examples/recall.py finds each answer, says why, knows what is not there, and shows a block; it is short."""
    source = ROOT / "examples" / "recall.py"
    assert len(source.read_text().splitlines()) < 60
    said = run([str(source)], tmp_path)
    answers = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert [answer.partition("  (shares ")[0] for answer in answers] == [
        "I am allergic to peanuts.",
        "下周去北京出差，请提醒我带上软件合同。",
        "I can never find the spare tent pegs.",
        "Anna bought a blue bicycle for her daughter.",
    ]
    assert "probably not in memory" in said
    assert "it shares no term" in said
    assert "```memory\n[1] 2026-02-11 · messages: " in said
    assert said.endswith("```\n")
    assert list(tmp_path.iterdir()) == []


def run(arguments, folder):
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [f"{programs()}/python", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
