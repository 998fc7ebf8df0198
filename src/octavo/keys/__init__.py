"""Who may call the server: API keys of which only a hash is kept, and how often each may call."""

from octavo.keys.keys import ACCESS, Access, Created, KeyInfo, Keys
from octavo.keys.rate import RateLimit

__all__ = ["ACCESS", "Access", "Created", "KeyInfo", "Keys", "RateLimit"]
