"""Times on the command line: as people give them, and as they are shown."""

from datetime import datetime

from octavo.errors import ConfigError
from octavo.events.retention import age, before
from octavo.kernel.ids import now
from octavo.kernel.model import utc


def moment(option: str, spelled: str | None, *, ago: bool = False) -> datetime | None:
    """The time that was given; with `ago`, also an age such as 2h. What is neither is a ConfigError that names the option."""
    if spelled is None:
        return None
    try:
        return utc(datetime.fromisoformat(spelled))
    except (ValueError, OverflowError):
        pass
    try:
        if ago:
            return before(age(spelled), now())
    except ConfigError:
        pass
    also = ", or 2h for two hours ago" if ago else ""
    raise ConfigError(f"{option} {spelled!r} is no time; try 2026-03-01, 2026-03-01T12:00:00+08:00{also}")


def told(at: datetime) -> str:
    """A time as it is shown."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
