"""Every vector index keeps the contract; a backend's whole test is how to open it."""

import pytest
from qdrant_client import QdrantClient

from octavo.stores.memory import MemoryStore
from octavo.testing import vectors
from octavo.testing.vectors import VectorIndexContract
from octavo.vectors import ExactIndex, PgVectorIndex, QdrantIndex, open_vectors
from once_more import InTurn
from sampled import FULL
from servers import fresh


class Fewer(VectorIndexContract):
    """What is compared one by one is asked among fewer, but at full length."""

    @pytest.fixture(autouse=True)
    def fewer(self, monkeypatch):
        if not FULL:
            monkeypatch.setattr(vectors, "MANY", 1000)


class TestExactInMemory(Fewer):
    """Over a store handed in, which stays open, so that a second index may stand over it."""

    store = None

    async def open(self):
        self.store = self.store or MemoryStore()
        return ExactIndex(self.store)

    async def again(self):
        return await self.open()


class TestExactWithoutRoom(TestExactInMemory):
    """Where hardly anything may be held in memory, every question is answered all the same."""

    async def open(self):
        self.store = self.store or MemoryStore()
        return ExactIndex(self.store, cache_bytes=1)


class TestExactOverFiles(InTurn, VectorIndexContract):
    test_recall = None  # over thousands of vectors: the same index shows it in memory

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"exact+file://{tmp_path}/records"


class TestExactOverSQLite(InTurn, VectorIndexContract):
    test_recall = None  # as over files

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"exact+sqlite:///{tmp_path}/records.db"


class OnServer(VectorIndexContract):
    """One database for all tests of a class: each keeps to its own space and tenant."""

    kind: str
    how = ""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, server_url):
        with fresh(cls.kind, server_url(cls.kind)) as url:
            cls.url = cls.how + url
            yield


class ExactOnServer(InTurn, OnServer):
    how = "exact+"
    test_recall = None  # as over files


class TestExactOverPostgres(ExactOnServer):
    kind = "postgres"


class TestExactOverMySQL(ExactOnServer):
    kind = "mysql"


class TestExactOverRedis(ExactOnServer):
    kind = "redis"


class TestSqliteVec(Fewer):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"


class TestSqliteVecInMemory(VectorIndexContract):
    test_recall = None  # as in a file

    async def open(self):
        return open_vectors("sqlite:///:memory:")


class TestPgVector(OnServer):
    kind = "pgvector"


class TestPgVectorByHnsw(OnServer):
    """Nothing is compared exactly and the planner may not sort, so that the HNSW index has to find everything."""

    kind = "pgvector"

    async def open(self):
        return PgVectorIndex(f"{self.url}?options=-c%20enable_sort%3Doff", exact_below=0)


class TestQdrantInFolder(VectorIndexContract):
    shared = False  # a folder serves one client at a time
    test_recall = None  # as in memory, where it takes half a minute less

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"qdrant://{tmp_path}/qdrant"


class TestQdrantInMemory(VectorIndexContract):
    """Over a client handed in, which stays open, so that a second index may stand over it."""

    client = None

    @pytest.fixture(autouse=True)
    def fewer(self, monkeypatch):
        monkeypatch.setattr(vectors, "MANY", 1000)  # each is compared, in Python

    async def open(self):
        self.client = self.client or QdrantClient(location=":memory:")
        return QdrantIndex(self.client)

    async def again(self):
        return await self.open()
