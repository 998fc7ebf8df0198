"""Stores around stores: each adds one thing and hands everything else on."""

from octavo.wraps.indexed import Indexed
from octavo.wraps.wrap import Wrap

__all__ = ["Indexed", "Wrap"]
