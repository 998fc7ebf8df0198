"""The one way in which a server can fail to be there."""


class Unavailable(Exception):  # noqa: N818 - it is a fact about this machine, not a mistake
    """No server of this kind can be had here, and why."""
