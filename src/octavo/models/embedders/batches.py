"""Texts of like length put together: a batch is padded to its longest text, and padding costs as much as text."""

from collections.abc import Iterator, Sequence


def batches(sizes: Sequence[int], most: int, most_size: int) -> Iterator[list[int]]:
    """The numbers of the texts, shortest first, in groups of at most `most` that stay under `most_size` when padded.

    A text larger than `most_size` is a group by itself.
    """
    group: list[int] = []
    for number in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and (len(group) >= most or sizes[number] * (len(group) + 1) > most_size):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def tokens_at_most(text: str) -> int:
    """How many tokens a text may have: few tokenizers make more than one of two bytes."""
    return len(text) // 2 + 1 if text.isascii() else len(text.encode()) // 2 + 1


def cut(text: str, tokens: int) -> str:
    """The beginning of a text that surely has no more than so many tokens."""
    if tokens_at_most(text) <= tokens:
        return text
    return text.encode()[: 2 * tokens].decode("utf-8", "ignore")
