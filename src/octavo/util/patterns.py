"""Regular expressions that are compiled when they are first used: together they take longer than most commands."""

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a pattern; each of its methods becomes an attribute of this once it has been asked for."""

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        found = self.__dict__[name] = getattr(self._compiled, name)
        return found


def lazy_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """What `re.compile` gives, but for mistakes in it, which are raised at first use; for `re.sub(it, …)` it is none."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
