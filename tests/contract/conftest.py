"""Which tests of the shipped contract are long at full length."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith("test_many_processes"):
            # The shipped class may not carry our marker: elsewhere it would be unknown, and an error.
            item.add_marker(pytest.mark.torture)
