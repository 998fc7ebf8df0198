"""Lengths of time as people spell them, and the moment that long ago."""

import re
from datetime import datetime, timedelta

from octavo.errors import ConfigError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", re.ASCII)


def parse_age(spelled: str | timedelta) -> timedelta:
    """A length of time as people spell it: `90s`, `30m`, `12h`, `7d` or `2w`."""
    if isinstance(spelled, timedelta):
        length = spelled
    elif isinstance(spelled, str) and (match := _AGE.fullmatch(spelled)):
        try:
            length = timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            raise ConfigError(f"{spelled!r} is longer than time can be counted") from None
    else:
        raise ConfigError(f"not a length of time: {spelled!r}; try 7d, 12h, 30m or 90s")
    if length <= timedelta():
        raise ConfigError(f"a length of time must be more than nothing; got {spelled!r}")
    return length


def subtract_age(length: timedelta, moment: datetime) -> datetime:
    """The moment that long ago; what would lie before the first year is the first moment there is."""
    try:
        return moment - length
    except OverflowError:
        return datetime.min.replace(tzinfo=moment.tzinfo)
