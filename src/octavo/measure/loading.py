"""A file of questions, read by whichever format it is in."""

from pathlib import Path
from types import MappingProxyType

import msgspec

from octavo.errors import ConfigError
from octavo.measure import locomo, memdaily
from octavo.measure.data import BadData, Data

FORMATS = MappingProxyType({"locomo": locomo, "memdaily": memdaily})


def load(path: Path | str, format: str | None = None, seed: int = 0) -> Data:  # noqa: A002 - the option's name
    """The talks and questions of a file; its format is recognised unless named."""
    if format is not None and format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    try:
        parsed = msgspec.json.decode(Path(path).read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    recognised = [name for name, each in FORMATS.items() if each.recognises(parsed)]
    if not (wanted := [format] if format else recognised):
        raise ConfigError(
            f"{path} holds neither LoCoMo conversations ('conversation' and 'qa') nor MemDaily trajectories "
            "('message_list' and 'question_list')"
        )
    if wanted[0] not in recognised:
        raise ConfigError(f"{path} is not in the format {wanted[0]}")
    try:
        data: Data = FORMATS[wanted[0]].load(parsed, seed)
    except BadData as error:
        raise ConfigError(f"{path}: {error}") from None
    if not data.questions:
        raise ConfigError(f"{path} has no question whose evidence exists")
    return data
