import sys
sys.path.insert(0, "/work/main/tests")
from octavo.testing import StoreContract
import pytest
class TestRedis(StoreContract):
    @pytest.fixture(autouse=True)
    def _u(self, fresh_redis):
        self.url = fresh_redis
class TestRedisTtl(StoreContract):
    @pytest.fixture(autouse=True)
    def _u(self, fresh_redis):
        self.url = fresh_redis + "?ttl=1000"
