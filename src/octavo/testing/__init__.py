"""The contract of a store as tests anybody can run: subclass StoreContract, say how to open yours."""

import pytest

# Without this, a failing assert in the modules below would say AssertionError and nothing else.
for _name in ("agreement", "hostile", "life", "processes", "searching", "subject", "texts", "vectors"):  # fmt: skip
    pytest.register_assert_rewrite(f"octavo.testing.{_name}")

# ruff: noqa: E402 - only after the line above
from octavo.testing.agreement import Agreement, Naming, Writes
from octavo.testing.hostile import Hostile
from octavo.testing.life import Crowds, Life, Races
from octavo.testing.searching import Indexing, Searching
from octavo.testing.strategies import Ask, Program, Seek, Write, programs, searching_programs
from octavo.testing.texts import Bodies, Texts

__all__ = ["Ask", "Program", "Seek", "StoreContract", "Write", "programs", "searching_programs"]


class StoreContract(
    Agreement,
    Texts,
    Bodies,
    Writes,
    Hostile,
    Races,
    Life,
    Crowds,
    Searching,
    Indexing,
    Naming,
):
    """Every promise a store makes, as tests; see docs/custom-store.md."""
