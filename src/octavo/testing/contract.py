"""The whole contract in one class."""

from octavo.testing.agreement import Agreement
from octavo.testing.bodies import Bodies
from octavo.testing.crowds import Crowds
from octavo.testing.ending import Ending
from octavo.testing.hostile import Hostile
from octavo.testing.indexing import Indexing
from octavo.testing.life import Life
from octavo.testing.naming import Naming
from octavo.testing.races import Races
from octavo.testing.searching import Searching
from octavo.testing.texts import Texts
from octavo.testing.volume import Volume
from octavo.testing.writes import Writes


class StoreContract(
    Agreement,
    Texts,
    Bodies,
    Writes,
    Ending,
    Hostile,
    Races,
    Life,
    Volume,
    Crowds,
    Searching,
    Indexing,
    Naming,
):
    """Every promise a store makes, as tests; see docs/custom-store.md."""
