"""Numbers in sentences, and names of folders."""

import hashlib
import re


def pluralize(count: int, noun: str) -> str:
    """A number and its noun: `1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def folder_name(words: str, identity: str) -> str:
    """A name that a person recognises, with enough of a digest to be nobody else's."""
    readable = re.sub(r"[^\w.-]+", "-", words).strip("-.")[:60]
    return f"{readable}-{hashlib.blake2b(identity.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
