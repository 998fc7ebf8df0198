"""What was said, line by line, before anything is made of it."""

from typing import NamedTuple


class Line(NamedTuple):
    """One thing said; a `whole` one is not to be taken apart into sentences."""

    speaker: str
    role: str
    text: str
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.speaker}: {self.text}"
