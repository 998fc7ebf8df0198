"""The contract for what another class of tests holds to it already: the same store opened in another way, or with a wrap around it."""

from octavo.testing import StoreContract, programs, searching_programs
from octavo.testing.agreement import run_on_a_store
from sampled import FULL


class InTurn:
    """Of such classes in one file, `make test` runs each test by one in six, in turn, and generated programs by all."""


class OnceMore(InTurn, StoreContract):
    """A sixth of the programs, and none of the long tables of words and sizes, show what is different; `make torture` runs all."""

    largest_batch = 5_000
    if not FULL:
        test_more_than_a_search_looks_at = None
        test_long_texts_are_searched = None
        test_every_language_is_searched = None
        test_hostile_terms = None
        test_forty_thousand_at_once = None
        test_the_largest_record = None
        test_a_change_may_not_outgrow_the_limit = None

    def test_programs_agree(self):
        run_on_a_store(self, programs(), self.compare, share=6)

    def test_searches_agree(self):
        run_on_a_store(self, searching_programs(), self.compare_searches, share=18)
