"""Tables: straight columns in every script, texts cut to the terminal and nowhere else, and no row but the table's own."""

import os
import pty
import subprocess

import pytest

from octavo.cli.tables import cut, quote, table_lines, width
from warm import programs

HEADER = ("SCORE", "TEXT", "ID")
LONG = "I went to the market and bought apples, pears, plums and a melon for the whole family"


def test_columns_are_straight():
    """A Chinese character is two columns wide, a mark on a letter none."""
    rows = [("0.91", "我住在柏林", "a1"), ("0.20", "cafe\u0301 is open", "b2"), ("0.10", "ＡＢＣ", "c3")]
    lines = table_lines(HEADER, rows, None)
    assert lines[0].split() == list(HEADER)
    assert {width(line[: line.rindex(line.split()[-1])]) for line in lines} == {21}


def test_a_text_is_cut_to_the_terminal_and_an_id_never():
    rows = [("0.91", LONG, "an-id-that-is-used-elsewhere"), ("0.20", "花生" * 40, "b2")]
    lines = table_lines(HEADER, rows, 80)
    assert max(map(width, lines)) <= 80
    assert lines[1].endswith("…  an-id-that-is-used-elsewhere")
    assert table_lines(HEADER, rows, 20)[1].endswith("…  an-id-that-is-used-elsewhere")  # in two lines of it
    whole = table_lines(HEADER, rows, None)
    assert LONG in whole[1]
    assert "花生" * 40 in whole[2]


def test_one_long_text_does_not_move_the_ids_of_the_others():
    lines = table_lines(HEADER, [("0.91", "x" * 5000, "a1"), ("0.20", "y", "b2")], None)
    assert len(lines[2]) < 100


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("花生过敏", 5, "花生…"), ("花生过敏", 4, "花…"), ("花生", 4, "花生"), ("ab", 1, "…")],
)  # fmt: skip
def test_cut(text, columns, shown):
    assert cut(text, columns) == shown
    assert width(shown) <= columns


def test_stored_text_makes_no_row_and_no_column_of_its_own():
    [_, line] = table_lines(HEADER, [("0.91", "a\x1b[2J\nb\t\u202e c", "x\ny")], None)
    assert line == r"0.91   a\x1b[2J b \u202e c  x y"
    assert quote("a\nb" + "c" * 100) == f"“a b{'c' * 56}…”"


@pytest.mark.parametrize(("terminal", "whole"), [(True, False), (False, True)])
def test_only_a_terminal_cuts(octavo, terminal, whole):
    """The command itself, its stdout a terminal of 140 columns or a pipe."""
    octavo("add", LONG, "--no-infer", "--category", "action", "--user", "lin")
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [f"{programs()}/octavo", "list", "--user", "lin"],
            stdout=theirs if terminal else subprocess.PIPE,
            env={**os.environ, "COLUMNS": "140"},
            timeout=60,
            check=True,
        )
        shown = os.read(ours, 65536) if terminal else done.stdout
    finally:
        os.close(ours)
        os.close(theirs)
    header, row = shown.decode().splitlines()
    assert header.startswith("TEXT")
    assert (LONG in row) is whole
    assert (len(row) == 140) is terminal
