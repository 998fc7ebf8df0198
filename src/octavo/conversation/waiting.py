"""Where blocking calls are waited for: one thread for all conversations of the process."""

import os

from octavo.sync import Portal

_NAME = "octavo-conversation"
_shared = Portal(_NAME)  # its thread starts with the first call


def portal() -> Portal:
    """The thread on which blocking calls of all conversations run; it ends with the process."""
    return _shared


def _after_fork() -> None:
    global _shared  # noqa: PLW0603 - one for the process is the point
    _shared = Portal(_NAME)  # a thread does not outlive a fork


os.register_at_fork(after_in_child=_after_fork)
