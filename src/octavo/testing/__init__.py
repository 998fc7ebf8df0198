"""The contract of a store as tests anybody can run: subclass StoreContract, say how to open yours."""

import pytest

# Without this, a failing assert in the modules below would say AssertionError and nothing else.
for _name in ("agreement", "bodies", "crowds", "ending", "hostile", "indexing", "life", "naming", "processes", "races", "searching", "subject", "texts", "vector_entries", "vector_lives", "vector_subject", "volume", "writes"):  # fmt: skip
    pytest.register_assert_rewrite(f"octavo.testing.{_name}")

from octavo.testing.contract import StoreContract  # noqa: E402 - only after the line above
from octavo.testing.strategies import Ask, Program, Seek, Write, programs, searching_programs  # noqa: E402

__all__ = ["Ask", "Program", "Seek", "StoreContract", "Write", "programs", "searching_programs"]
