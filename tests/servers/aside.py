"""Async drivers called from plain code."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_aside(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, from a thread: the caller's own may already be running an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
