"""Settings made in Python are held to the same rules as those from a file, and nothing a file holds can break the reading."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octavo import ConfigError
from octavo.config import Database, FailureQueue, Service, Settings, Vault, Vector, load_settings
from octavo.config.settings import every_setting
from sampled import examples

FILE = (Path(__file__).parents[2] / "config" / "memory.example.yaml").read_bytes()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Database(dsn=None), "database.dsn is text, not empty; got nothing"),
        (lambda: Database(dsn=b"memory://"), "database.dsn is text, not empty; got a bytes"),
        (lambda: Database(pool_size=0), "database.pool_size is a whole number from 1 to 10,000; got 0"),
        (lambda: Database(pool_size=True), "got True"),
        (lambda: Database(pool_size=2.0), "got 2.0"),
        (
            lambda: Database(max_overflow=-1),
            "database.max_overflow is a whole number from 0 to 10,000; got -1",
        ),
        (lambda: Vault(enabled=1), "vault.enabled is true or false; got 1"),
        (lambda: Vault(root_path=""), "vault.root_path is text, not empty; got ''"),
        (lambda: Vector(collections="knowledge"), "vector.collections is a list of names"),
        (lambda: Vector(collections=["knowledge", 1]), "vector.collections is a list of names"),
        (lambda: Vector(collections=["pending"]), "vector.collections names 'pending'; known: "),
        (lambda: Vector(enabled=True, embedder=" None "), "vector.embedder names no model"),
        (lambda: FailureQueue(durability="sync"), "is one of fsync, flush, memory; got 'sync'"),
        (lambda: FailureQueue(durability=[]), "is one of fsync, flush, memory; got []"),
        (lambda: FailureQueue(max_age_hours=0), "is a number above 0 and at most 876,000, or null; got 0"),
        (lambda: FailureQueue(max_age_hours=float("nan")), "got nan"),
        (lambda: Service(timeout_seconds=float("inf")), "got inf"),
        (lambda: Service(tenant="x" * 65), "service.tenant is longer than 64 bytes"),
        (lambda: Service(tenant="\ud800"), "service.tenant is not text that can be stored"),
        (lambda: msgspec.structs.replace(Service(), timeout_seconds=-1), "got -1"),
    ],
)
def test_a_wrong_value_is_refused_wherever_it_comes_from(wrong, sentence):
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert sentence in str(caught.value)


def test_an_unknown_name_is_refused():
    with pytest.raises(TypeError):
        Database(dns="memory://")


def test_settings_are_values_that_msgspec_knows():
    """From a dictionary and back, by the same rules."""
    given = {"database": {"dsn": "memory://"}, "failure_queue": {"max_age_hours": None}}
    settings = msgspec.convert(given, Settings)
    assert settings == Settings(
        database=Database(dsn="memory://"), failure_queue=FailureQueue(max_age_hours=None)
    )
    assert msgspec.convert(msgspec.to_builtins(settings), Settings) == settings
    for wrong in ({"databse": {}}, {"vault": {"root": "x"}}, {"failure_queue": {"max_age_hours": 0}}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Settings)


def test_paths_and_lists_are_taken_as_people_have_them(tmp_path):
    """And kept as values that nobody can change behind the settings' back."""
    assert Vault(root_path=tmp_path).root_path == str(tmp_path)
    assert Vault(root_path="~/memory").root_path == str(Path.home() / "memory")
    assert FailureQueue(directory="./a//b").directory == "./a//b"
    assert Database(dsn="sqlite:///~/a.db").dsn == "sqlite:///~/a.db"
    assert FailureQueue(directory=tmp_path).directory == str(tmp_path)
    assert Vector(collections=["knowledge"]).collections == ("knowledge",)
    assert hash(Settings()) == hash(Settings())
    with pytest.raises(AttributeError):
        Settings().database.dsn = "memory://"


def test_every_setting_is_declared_whole():
    """Its reason is a sentence, its default is one that it takes, every number has an end, and no variable names two."""
    settings = every_setting()
    for setting in settings:
        assert setting.why[0].isupper(), setting.key
        assert len(setting.why) <= 110, setting.key
        setting.check(setting.default, setting.key)
        if "number" in setting.expected:
            assert setting.kind.le is not None
            assert (setting.kind.ge is None) != (setting.kind.gt is None)
    assert len({setting.variable for setting in settings}) == len(settings)


def test_the_seed_s_keys_are_there():
    """As its section 5 and the contract list them."""
    keys = {setting.key for setting in every_setting()}
    queue = (
        "max_in_memory",
        "spill_batch_size",
        "max_dump_file_size_mb",
        "max_dump_backups",
        "max_retries",
    )
    assert keys >= {"database.dsn", "database.pool_size", "database.max_overflow", "vault.root_path"}
    assert keys >= {f"failure_queue.{name}" for name in queue}
    assert keys >= {"vector.enabled"}


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
@example(b"!!omap [a: 1]")
@example(b"? ? ?")
@example(b"\x00")
@example(b"&a [*a]")
@example(b"database: &a {dsn: *a}")
@example(b"= : 1")
@example(b"'': ''")
def test_no_file_breaks_the_reading(tmp_path_factory, content):
    """It is settings, or a ConfigError."""
    refuse_or_read(tmp_path_factory.getbasetemp() / "any.yaml", content)


@given(
    st.integers(0, len(FILE) - 1),
    st.integers(0, 40),
    st.binary(max_size=12) | st.sampled_from(b"*&!|>{[\t:#"),
)
@settings(max_examples=examples(40, 100))
def test_no_damage_breaks_the_reading(tmp_path_factory, at, gone, put):
    """The file that is shipped, with some of it replaced."""
    put = bytes([put]) if isinstance(put, int) else put
    refuse_or_read(tmp_path_factory.getbasetemp() / "damaged.yaml", FILE[:at] + put + FILE[at + gone :])


def refuse_or_read(path, content):
    path.write_bytes(content)
    try:
        settings = load_settings(path, environ={})
    except ConfigError:
        return
    assert type(settings) is Settings
    assert load_settings(path, environ={}) == settings


def test_nothing_is_loaded_that_may_not_be_installed():
    """Settings and assembly need only the core until a file, a driver or a model is asked for."""
    program = "import sys, octavo.assemble; print(sorted({'yaml', 'numpy', 'asyncpg', 'asyncmy', 'redis', 'openai'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
