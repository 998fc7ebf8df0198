"""Anthropic's memory tool over Octavo's documents: driven by the SDK's own runner, answered as by the SDK's own tool."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError
from sampled import FULL

RUN = Path(__file__).with_name("anthropic_run.py")
PAGE = "anthropic.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    alone = framework_url == "memory://"
    seeds = (16 if alone else 4) if FULL else 4
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if alone else [["first"], ["second"]]:
        told |= json.loads(
            ran_warm(frameworks, RUN, framework_url, seeds, *parts, cwd=folder).splitlines()[-1]
        )
    return told


def test_the_answers_are_those_of_the_sdk(told):
    """Generated commands, sent to the SDK's tool for files on disk and to ours, blocking and awaited: the same words."""
    assert told["first"]["differing"] == []


def test_paths_that_lead_elsewhere(told):
    """They are refused in the same words, by every command, and nothing is reached."""
    differing, reached = told["first"]["attacks"]
    assert differing == []
    assert reached == []


def test_a_file_is_there_in_another_process(told):
    """One run of the SDK's runner makes a file, the next, blocking and in another process, reads it."""
    tool = {"type": "memory_20250818", "name": "memory"}
    assert told["first"]["real"] == [True, tool]
    assert told["first"]["created"] == [
        [tool],
        "File created successfully at: /memories/trips/plan.md",
        False,
    ]
    assert told["second"]["real_sync"]
    seen, refused, _ = told["second"]["viewed"]
    head = "Here's the content of /memories/trips/plan.md with line numbers:"
    assert seen == [f"{head}\n     1\tLin flies to 上海.\n     2\t", False]
    assert refused == ["Path /memories/../secrets would escape /memories directory", True]


def test_memory_finds_what_is_in_a_file(told):
    """By the front door, for this user and for nobody else."""
    assert told["second"]["found"] == [["documents", "memories/trips/plan.md", "Lin flies to 上海.\n"]]
    assert told["second"]["others"] == 0


def test_edits_at_once(told):
    """Ten insertions into one file side by side: none is lost, and each text before stays as a version."""
    assert told["second"]["lines"] == 12  # the head, ten new ones, the old one and what is behind the last
    assert told["second"]["versions"] == 10


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_the_sdk():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install anthropic"):
        importlib.import_module("octavo.integrations.anthropic")
