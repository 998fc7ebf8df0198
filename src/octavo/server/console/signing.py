"""What the console gives to a browser and takes back: a sign-in that ends with its API key, and the tokens of forms."""

import hmac
import secrets
from datetime import datetime, timedelta

from octavo.util.secrets import DigestKey

SIGN_IN = "octavo_console"
BROWSER = "octavo_browser"
LASTS = timedelta(hours=12)
_PURPOSE = "octavo-console"


class Signing:
    """Signs with the key of digests, which every worker of this machine has, and no store."""

    def __init__(self, key: DigestKey) -> None:
        self._key = key

    def sign_in(self, key_id: str, at: datetime) -> str:
        """A cookie that stands for an API key until half a day later, and says nothing of its secret."""
        until = f"{int((at + LASTS).timestamp())}"
        return f"{key_id}.{until}.{self._signature(key_id, until)}"

    def key_id(self, cookie: str, at: datetime) -> str | None:
        """The API key that a cookie stands for; whether that is still good is for the store to say."""
        key_id, _, rest = cookie.partition(".")
        until, _, signature = rest.partition(".")
        good = hmac.compare_digest(signature.encode(), self._signature(key_id, until).encode())
        return key_id if good and until.isdigit() and int(until) > at.timestamp() else None

    def token(self, browser: str, key_id: str | None) -> str:
        """What a form must carry: it is of this browser and of whoever is signed in there."""
        return self._key.digest(_PURPOSE, "form", browser, key_id or "")

    def fits(self, token: str, browser: str, key_id: str | None) -> bool:
        """Whether a form carries what it was given."""
        expected = self.token(browser, key_id)
        return bool(browser) and hmac.compare_digest(token.encode(), expected.encode())

    def _signature(self, key_id: str, until: str) -> str:
        return self._key.digest(_PURPOSE, "sign-in", key_id, until)


def new_browser() -> str:
    """A name for a browser that nobody guesses."""
    return secrets.token_hex(16)


def cookies_in(header: str) -> dict[str, str]:
    """The cookies of a request by name; of two with one name the first counts."""
    found: dict[str, str] = {}
    for each in header.split(";"):
        name, _, value = each.strip().partition("=")
        found.setdefault(name, value)
    return found
