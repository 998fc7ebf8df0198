"""What MySQL's and MariaDB's error numbers mean, whichever client library reports them."""

from octavo.errors import StoreError, StoreUnavailable
from octavo.stores.sql.drivers.port import ConnectionLost
from octavo.stores.sql.statements import Contended, Duplicate

TAKEN = {1062}  # a unique key
BUSY = {1205, 1213}  # lock wait time-out, deadlock
LOST = {1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 2000, 2002, 2003, 2006, 2013, 2014, 2055, 4031}
UNABLE = {
    1021,
    1037,
    1040,
    1041,
    1114,
    1203,
    1226,
    1290,
    1792,
    1836,
    3024,
}  # disk or memory full, too many, read-only


def judged(number: int, message: str) -> StoreError:
    """The error that a number stands for."""
    if number in TAKEN:
        return Duplicate(message)
    if number in BUSY:
        return Contended(message)
    if number in LOST:
        return ConnectionLost(message)
    return StoreUnavailable(message) if number in UNABLE else StoreError(message)
