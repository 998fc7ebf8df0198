"""What a URL says is done or refused: nothing of it is ignored, and nothing is kept in RAM that was not asked for."""

import pytest

from octavo import open_store
from octavo.conversation import RedisChatMessageHistory
from octavo.errors import ConfigError
from octavo.events import EventStore, SQLiteMemoryStore
from octavo.vectors import open_vectors

MISSPELT = {
    "memory://?a=b": ("a", "none"),
    "file:///tmp/x?fromat=json": ("fromat", "format"),
    "sqlite:///x.db?durabilty=fast": ("durabilty", "durability"),
    "postgresql://u:secret@h/d?pool_sise=3": ("pool_sise", "pool_size"),
    "postgresql+asyncpg://u:secret@h/d?timeuot=3&sslmode=require": ("timeuot", "timeout"),
    "mysql://u:secret@h/d?pool_sise=3": ("pool_sise", "pool_size"),
    "mariadb://u:secret@h/d?pool_sise=3": ("pool_sise", "pool_size"),
    "redis://:secret@h/0?prefx=a": ("prefx", "prefix"),
    "rediss://:secret@h/0?socket_timout=1": ("socket_timout", "socket_timeout"),
    "unix:///run/redis.sock?prefx=a": ("prefx", "prefix"),
}
MISSPELT_VECTORS = {
    "memory://?a=b": ("a", "none"),
    "exact+sqlite:///x.db?durabilty=fast": ("durabilty", "durability"),
    "sqlite:///x.db?durabilty=fast": ("durabilty", "durability"),
    "postgresql://u:secret@h/d?pool_sise=3": ("pool_sise", "pool_size"),
    "qdrant://h:6333?api_kee=secret": ("api_kee", "api_key"),
}


@pytest.mark.parametrize(("url", "named"), MISSPELT.items())
def test_an_option_that_nobody_knows_is_refused_and_the_known_ones_are_named(url, named):
    with pytest.raises(ConfigError) as refused:
        open_store(url)
    _names(str(refused.value), *named)


@pytest.mark.parametrize(("url", "named"), MISSPELT_VECTORS.items())
def test_so_is_one_of_a_vector_index(url, named):
    with pytest.raises(ConfigError) as refused:
        open_vectors(url)
    _names(str(refused.value), *named)


def test_so_is_one_of_a_history_in_redis():
    with pytest.raises(ConfigError) as refused:
        RedisChatMessageHistory("s", "redis://:secret@h/0?socket_timout=1")
    _names(str(refused.value), "socket_timout", "socket_timeout")


def _names(said, option, known):
    assert f"unknown option {option} in the" in said
    assert known in said.partition("known:")[2]
    assert "secret" not in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d?sslmode=require&application_name=octavo&search_path=memory&pool_size=3",
        "postgresql://h/d?options=-c%20work_mem%3D64MB&statement_timeout=1000&host=/run/postgresql",
        "redis://h/0?socket_timeout=3&health_check_interval=10&prefix=a&ttl=9&client_name=octavo",
        "rediss://h/0?ssl_ca_certs=/ca.pem&ssl_check_hostname=true",
        "unix:///run/redis.sock?db=2",
        "mysql://h/d?charset=utf8mb4&unix_socket=/run/mysql.sock",
        "sqlite:///x.db?check_same_thread=false",
    ],
)
def test_an_option_that_the_driver_or_the_server_knows_is_taken(url):
    open_store(url)


@pytest.mark.parametrize("url", ["sqlite:///notes#1.db", "postgresql://lin:se#same@host/db"])
def test_a_sign_that_ends_a_url_is_refused(url):
    """`notes#1.db` and `notes#2.db` would be one file, `notes`."""
    with pytest.raises(ConfigError, match="a # in it is written %23") as refused:
        open_store(url)
    assert "se#same" not in str(refused.value)


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite://", "sqlite+aiosqlite:///", "sqlite:///?timeout=3"])
@pytest.mark.parametrize("opened", [open_store, open_vectors, EventStore])
def test_a_sqlite_url_without_a_path_is_refused_and_not_kept_in_memory(opened, url):
    with pytest.raises(ConfigError, match=r"names no file.*sqlite:///:memory:.*sqlite:///octavo\.db"):
        opened(url)


@pytest.mark.parametrize("path", ["", ":memory:"])
async def test_the_sqlite_memory_store_takes_a_path_or_memory(path):
    """An empty path would be a temporary file that SQLite removes."""
    if not path:
        with pytest.raises(ConfigError, match="names no file"):
            SQLiteMemoryStore({"db_path": path})
        return
    async with SQLiteMemoryStore({"db_path": path}) as store:
        assert (await store.get_stats())["total_events"] == 0


def test_journaling_other_than_wal_is_refused():
    """`wal_mode=False` was accepted and changed nothing."""
    with pytest.raises(ConfigError, match=r"wal_mode=False.*leave it out"):
        SQLiteMemoryStore({"db_path": "x.db", "wal_mode": False})
