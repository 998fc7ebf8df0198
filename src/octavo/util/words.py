"""Numbers in sentences."""


def pluralize(count: int, noun: str) -> str:
    """A number and its noun: `1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
