"""`octavo bench recall`: what it prints, writes and refuses, and the page that describes it."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from octavo.cli.commands import import_commands
from octavo.measure import FORMATS
from octavo.measure.everyday import LANGUAGES, load_people
from questions import locomo, memdaily, written
from sampled import only_torture
from warm import programs

command = import_commands()

PAGE = Path(__file__).parents[2] / "docs" / "measuring-recall.md"
SCORES = {"Hit@1", "R@5", "R@10", "R_all@10", "NDCG@5", "turn any@10"}


@pytest.fixture
def talks(tmp_path):
    return written(tmp_path / "talks.json", locomo())


def document(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_figures_for_people(octavo, talks):
    """A table by category, what was left out, times, and how presence does."""
    told = octavo("bench", "recall", "--data", talks)
    assert told.exit_code == 0
    assert told.stderr == ""
    lines = told.stdout.splitlines()
    assert lines[0] == (
        "locomo: 2 talks, 7 messages, 5 questions (2 questions left out, whose evidence does not exist; "
        "2 evidence ids of no message; 1 time not understood)"
    )
    head, everything, *by_category = lines[2 : lines.index("", 2)]
    assert head.split() == ["questions", "Hit@1", "R@5", "R@10", "R_all@10", "NDCG@5", "turn", "any@10"]
    assert everything.split()[:2] == ["all", "5"]
    assert [line.split()[:2] for line in by_category] == [
        ["1", "multi-hop"], ["2", "temporal"], ["4", "single-hop"], ["5", "adversarial"],
    ]  # fmt: skip
    assert re.search(r"^recall: p50 [\d.]+ ms, p95 [\d.]+ ms, [\d,]+ questions/s$", told.stdout, re.MULTILINE)


def test_figures_for_programs(octavo, talks):
    told = document(octavo("bench", "recall", "--data", talks, "--json"))
    assert told["ok"] is True
    assert (told["format"], told["questions"], told["skipped_questions"]) == ("locomo", 5, 2)
    [store] = told["stores"]
    assert set(store["scores"]) == SCORES
    assert store["by_category"]["4 single-hop"]["questions"] == 2
    assert store["p95_ms"] >= store["p50_ms"] > 0
    assert 0 <= store["flagged"] <= 1
    assert store["compared"] is None


def test_memdaily(octavo, tmp_path):
    path = written(tmp_path / "m.json", memdaily())
    told = document(octavo("bench", "recall", "--data", path, "--json"))
    assert told["format"] == "memdaily"
    assert told["stores"][0]["scores"] == {"R@5": 1, "R@10": 1, "any@10": 1}
    assert "simple_roles" in octavo("bench", "recall", "--data", path, "--format", "memdaily").stdout


def test_every_answer_goes_to_a_file(octavo, talks):
    told = document(octavo("bench", "recall", "--data", talks, "--out", "answers.jsonl", "--json"))
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text().splitlines()]
    assert len(answers) == told["questions"]
    first = answers[0]
    assert first["store"] == "memory://"
    assert first["question"] == "What does Ines sell on Fridays?"
    assert (first["gold"], first["hit"]) == (["D1:3"], True)
    assert first["found"][first["ranks"][0] - 1] == "D1:3"
    assert first["best_score"] > 0
    assert first["ms"] > 0
    assert set(first["scores"]) == SCORES


def test_some_questions_only(octavo, talks):
    """The same seed asks the same ones."""
    asked = []
    for _ in range(2):
        octavo("bench", "recall", "--data", talks, "--limit", 2, "--seed", 9, "--out", "a.jsonl", "--quiet")
        asked.append([json.loads(line)["name"] for line in Path("a.jsonl").read_text().splitlines()])
    assert len(asked[0]) == 2
    assert asked[0] == asked[1]


def test_stores_are_compared(octavo, talks, fresh_url):
    """On every kind of store, the same questions find the same records in the same order."""
    urls = [
        "memory://", "sqlite:///a.db", f"file://{Path.cwd()}/files", fresh_url("postgres"), fresh_url("mysql"),
        fresh_url("redis"),
    ]  # fmt: skip
    stores = [word for url in urls for word in ("--store", url)]
    told = document(octavo("bench", "recall", "--data", talks, *stores, "--json"))
    assert len(told["stores"]) == 6
    for store in told["stores"][1:]:
        assert store["compared"] == {"same": 1, "same_sessions": 1, "differing": []}
        assert store["scores"] == told["stores"][0]["scores"]
        assert "octavo:octavo@" not in store["store"]
    lines = octavo("bench", "recall", "--data", talks, *stores).stdout.splitlines()
    assert lines[2].endswith("same top 10  same sessions")
    assert all(line.endswith("100.0%         100.0%") for line in lines[4:9])


def test_the_store_is_left_as_it_was(octavo, talks, url):
    assert octavo("bench", "recall", "--data", talks, "--store", url).exit_code == 0
    assert "copied 100 records" in octavo("copy", url, "memory://").stdout


def test_with_an_embedder(octavo, talks):
    """Vectors in memory, or beside the store; the run says nothing of failures, for there are none."""
    spec = ("--embedder", "hash-for-tests")
    for more in ((), ("--store", "sqlite:///a.db", "--vectors", "sqlite:///a.db")):
        told = document(octavo("bench", "recall", "--data", talks, *spec, *more, "--json"))
        assert told["embedder"] == "hash-for-tests"
        assert told["stores"][0]["notes"] == {}
        assert told["stores"][0]["scores"]["turn any@10"] == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--data", "nothing.json"), "'nothing.json' does not exist"),
        (("--data", "odd.json"), "odd.json holds neither LoCoMo conversations"),
        (("--data", "talks.json", "--format", "memdaily"), "talks.json is not in the format memdaily"),
        (("--data", "talks.json", "--store", "nosuch://"), "nosuch"),
        (("--data", "talks.json", "--vectors", "memory://"), "--vectors needs --embedder"),
        (("--data", "talks.json", "--embedder", "magic:8"), "unknown embedder 'magic'"),
        (("--data", "talks.json", "--embedder", "hash-for-tests", "--vectors", "nosuch://"), "nosuch"),
        (("--data", "talks.json", "--limit", "0"), "0 is not in the range"),
    ],
)
def test_mistakes_are_one_sentence(octavo, talks, args, sentence):
    Path("odd.json").write_text('{"hello": "world"}')
    told = octavo("bench", "recall", *args)
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert "Traceback" not in told.stderr


def test_a_failure_does_not_boast_of_what_is_kept(octavo, talks):
    """Its records are taken away again, so none of them is kept."""
    told = octavo("bench", "recall", "--data", talks, "--out", "no/such/folder/a.jsonl")
    assert told.exit_code == 1
    assert "kept" not in told.stderr
    assert "no/such/folder" in told.stderr


def test_every_option_helps_and_is_documented(octavo):
    told = octavo("bench", "recall", "--help")
    assert "Example: octavo bench recall" in told.stdout
    page = PAGE.read_text()
    assert all(f"--format {name}" in page for name in FORMATS)
    assert f"[{'|'.join(FORMATS)}]" in told.stdout
    for option in command.commands["bench"].commands["recall"].params:
        assert option.opts[-1] in page


def steady(printed: str) -> list[str]:
    """The lines with their times taken out."""
    timeless = re.sub(r"[\d.,]+(?= ms\b| s\b| questions/s)", "T", printed)
    lines = [re.sub(r" +\d+\.\d +\d+\.\d(?= |$)", " T T", line).split() for line in timeless.splitlines()]
    return [" ".join(words) for words in lines]


def test_the_page(tmp_path):
    """From top to bottom, in one folder, as a reader would."""
    text = PAGE.read_text()
    (shown,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    Path("talks.json").write_text(shown)
    env = {**os.environ, "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            done = subprocess.run(
                line, shell=True, env=env, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.stderr == ""
            assert steady(done.stdout) == steady(expected), line
            ran += 1
    assert ran == 6


# --- everyday questions


@only_torture
def test_everyday_figures_for_people(octavo):
    """Per language and path, with plain BM25 beside them, and what cannot be measured is said."""
    told = octavo("bench", "recall", "--everyday", "--lang", "en", "--path", "messages")
    assert told.exit_code == 0, told.stderr
    people, _, head, messages, plain = told.stdout.splitlines()
    assert people.startswith(f"English, dev: {len(load_people('en'))} people, ")
    assert head.split()[:2] == ["hit@1", "hit@3"]
    assert messages.split()[:2] == ["English", "messages"]
    assert plain.split()[:2] == ["English", "bm25"]
    assert plain.split()[-2:] == ["–", "–"]


def test_everyday_figures_for_programs(octavo):
    told = document(octavo("bench", "recall", "--everyday", "--path", "bm25", "--misses", "--json"))
    assert told["part"] == "dev"
    assert told["people"] == {language: len(load_people(language)) for language in LANGUAGES}
    assert [(each["language"], each["path"]) for each in told["figures"]] == [("en", "bm25"), ("zh", "bm25")]
    assert len(told["misses"]) == sum(sum(each["misses"].values()) for each in told["figures"])


def test_misses_of_the_held_out_half_are_only_counted(octavo):
    asked = ("bench", "recall", "--everyday", "--part", "held", "--lang", "zh", "--path", "bm25", "--misses")
    told = octavo(*asked)
    assert told.stdout.splitlines()[-1].startswith("Chinese bm25 misses: ")
    assert document(octavo(*asked, "--json"))["misses"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "Give --data FILE, or --everyday"),
        (("--everyday", "--limit", "3"), "and no data or store"),
        (("--everyday", "--store", "sqlite:///a.db"), "and no data or store"),
    ],
)
def test_what_does_not_go_with_everyday_questions_is_refused(octavo, given, said):
    told = octavo("bench", "recall", *given)
    assert told.exit_code != 0
    assert said in told.stderr


def test_everyday_options_need_everyday(octavo, talks):
    told = octavo("bench", "recall", "--data", talks, "--lang", "en")
    assert "belong to --everyday" in told.stderr
