"""MySQL and MariaDB whichever client library is used: error numbers, and statements longer than a server takes at once."""

from typing import Any

from octavo.errors import InvalidQuery, StoreError, StoreUnavailable
from octavo.stores.sql.drivers.port import ConnectionLost
from octavo.stores.sql.statements import Ask, Contended, Do, Duplicate, Script

TAKEN = {1062}  # a unique key
BUSY = {
    1205,
    1213,
}  # lock wait time-out; deadlock, which is also what Galera calls a conflict with another node's commit
#: A connection that is gone, or a node of Galera that the others have left (1047).
LOST = {
    1047,
    1053,
    1152,
    1153,
    1158,
    1159,
    1160,
    1161,
    1184,
    2000,
    2002,
    2003,
    2006,
    2013,
    2014,
    2055,
    1927,
    4031,
}
#: Disk or memory full, too many connections, read-only, a commit of which nobody knows (1180).
UNABLE = {1021, 1037, 1040, 1041, 1114, 1180, 1203, 1226, 1290, 1792, 1836, 3024}


def error_of(number: int, message: str) -> StoreError:
    """The error that a number stands for."""
    if number in TAKEN:
        return Duplicate(message)
    if number in BUSY:
        return Contended(message)
    if number in LOST:
        return ConnectionLost(message)
    return StoreUnavailable(message) if number in UNABLE else StoreError(message)


def in_parts(statement: Ask, most: int) -> Script[Any]:
    """Send the statement with its long values ahead of it, piece by piece, as variables of the session.

    See docs/decisions/017-large-records.md.
    """
    # In characters: each is four bytes at most, or two when it is escaped, so that half of the packet stays free.
    piece = most // 8
    texts = statement.sql.split("%s")
    sql, values, names = texts[0], [], []
    for number, (value, text) in enumerate(zip(statement.values, texts[1:], strict=True)):
        if not isinstance(value, str) or len(value) <= most // 256:
            values.append(value)
            sql += f"%s{text}"
            continue
        size = len(value.encode())
        # CONCAT would come to NULL. Records have been looked at before, so this is a text to look for.
        if size > most:
            raise InvalidQuery(_too_long("a text", size, most))
        name = f"@octavo_{number}"
        names.append(name)
        sql += name + text
        yield Do(f"SET {name} = %s", (value[:piece],))
        for start in range(piece, len(value), piece):
            yield Do(f"SET {name} = CONCAT({name}, %s)", (value[start : start + piece],))
    # Every byte may be escaped, and each value has quotes; a number or a NULL takes no more than that.
    rest = len(sql.encode()) + sum([2 * len(str(value).encode()) + 3 for value in values])
    if rest >= most:
        raise InvalidQuery(_too_long("a query", rest, most) + ", or ask for fewer ids at once")
    if not names:  # it was only thought to be too long
        return (yield statement)
    forget = Do(f"SET {', '.join([f'{name} = NULL' for name in names])}")
    try:
        answer = yield type(statement)(sql, values)
    except StoreError:
        yield forget
        raise
    # Not in `finally`: of a call that was cancelled nobody runs the rest; its connection goes, and they with it.
    yield forget
    return answer


def _too_long(what: str, size: int, most: int) -> str:
    return f"{what} of {size} bytes is more than this MySQL server takes; raise its max_allowed_packet of {most} bytes"
