"""The rule of the vault: what is done when the file, the store and what was last in both do not agree."""

from collections.abc import Collection
from enum import Enum


class Verdict(Enum):
    """What is done about one document."""

    FORGET = "forget"  # it is nowhere: nothing to remember
    SAME = "same"
    PUSH = "push"  # the file's text goes to the store
    PULL = "pull"  # the store's text goes to the file
    CONFLICT = "conflict"  # both changed: the file's text wins, the store's is kept as a version
    REMOVE = "remove"  # the file was deleted: so is the record
    UNLINK = "unlink"  # the document was deleted elsewhere: so is the file


def decide(
    file: str | None,
    store: str | None,
    known: Collection[str] | None,
    *,
    unconfirmed: bool = False,
    buried: bool = False,
) -> Verdict:
    """What to do, given the md5 of the file's text and of the store's, None where there is none.

    `known` are the texts this vault has had in both, None when it never had the document. `unconfirmed` says that the
    newest of them is not known to have reached the store, `buried` that the store remembers deleting the file's text.
    A record that is merely missing was lost with its database, and comes back from the file.
    """
    if file == store:
        return Verdict.FORGET if file is None else Verdict.SAME
    if store is None:
        gone = known is not None and file in known and not unconfirmed and buried
        return Verdict.UNLINK if gone else Verdict.PUSH
    if file is None:
        # Somebody changed what somebody else deleted: a text that nobody here has seen is not deleted unseen.
        return Verdict.REMOVE if known is not None and store in known else Verdict.PULL
    if known is None:
        return Verdict.CONFLICT
    if store in known:
        return Verdict.PUSH
    return Verdict.PULL if file in known and not unconfirmed else Verdict.CONFLICT
