"""Every error Octavo raises.

OctavoError
 ├ ConfigError          unknown scheme, missing extra, bad setting: names the value and the cure
 ├ InvalidRecord        (ValueError) a record no store can keep
 ├ InvalidQuery         (ValueError) a question with no meaning, such as a negative limit
 ├ NotFound             (LookupError)
 ├ Conflict             somebody else changed the same thing, again and again
 ├ AccessDenied         no API key, a wrong one, or one that may not do this
 ├ StoreError           the driver's error is __cause__
 │  ├ StoreUnavailable  the backend cannot be reached or is too busy: the only one worth queueing
 │  └ StoreClosed       used after close()
 └ ModelError           a face degrades: keyword search, rules instead of a model
"""


class OctavoError(Exception):
    """The base of every error Octavo raises on purpose."""


class ConfigError(OctavoError):
    """A setting, URL or missing extra that only the user can mend."""


class InvalidRecord(OctavoError, ValueError):  # noqa: N818 - names say what is wrong, not that it is an error
    """A record that no store may keep; the verdict is the same on every backend."""


class InvalidQuery(OctavoError, ValueError):  # noqa: N818
    """A query that has no meaning; the verdict is the same on every backend."""


class NotFound(OctavoError, LookupError):  # noqa: N818
    """What was asked for by name does not exist."""


class Conflict(OctavoError):  # noqa: N818
    """A change lost too many races against other writers to be applied."""


class AccessDenied(OctavoError):  # noqa: N818
    """A server wants an API key, does not know this one, or does not let it do what was asked."""


class StoreError(OctavoError):
    """The backend refused or failed; its own error is the cause."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The backend cannot be reached now; the same call may succeed later."""


class StoreClosed(StoreError):  # noqa: N818
    """The store was used after it had been closed."""


class ModelError(OctavoError):
    """A language or embedding model failed or answered nonsense."""
