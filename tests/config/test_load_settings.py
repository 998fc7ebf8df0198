"""Settings come from a file and the environment; whatever is wrong is refused by file, line, key, value and cure."""

import os
import sys
from pathlib import Path

import pytest

from octavo import ConfigError
from octavo.config import Settings, load_settings
from octavo.config.settings import every_setting


@pytest.fixture
def load(tmp_path, monkeypatch):
    """`load(text, **environ)` reads a file memory.yaml with this content."""
    monkeypatch.chdir(tmp_path)

    def loaded(content, **environ):
        Path("memory.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_settings("memory.yaml", environ=environ)

    return loaded


@pytest.fixture
def refused(load):
    """`refused(text, **environ)` is the sentence with which it is refused."""

    def sentence(content, **environ):
        with pytest.raises(ConfigError) as caught:
            load(content, **environ)
        return str(caught.value)

    return sentence


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n# nothing but a comment\n",
        b"---\n",
        b"null\n",
        b"{}",
        b"\xef\xbb\xbf",
        b"database:\n",
        b"vault: {}\nvector: ~\n",
    ],
)
def test_nothing_said_means_every_default(load, content):
    """An empty file is valid, and so is a section with all its lines commented out."""
    assert load(content) == Settings()


def test_no_path_means_no_file():
    """The defaults and the environment alone."""
    assert load_settings(environ={}) == Settings()
    assert load_settings(environ={"OCTAVO__DATABASE__POOL_SIZE": "7"}).database.pool_size == 7


def test_the_environment_at_hand_is_the_process_own(monkeypatch):
    """Without `environ`, variables set before the call count."""
    monkeypatch.setenv("OCTAVO__SERVICE__TENANT", "acme")
    assert load_settings().service.tenant == "acme"


def test_what_is_said_is_taken_and_the_rest_is_default(load):
    settings = load(
        """
database: {dsn: "mysql+pymysql://bob:sesame@db/app", pool_size: 3}
vault:
  root_path: /srv/vault
failure_queue:
  max_age_hours: null
  max_dump_file_size_mb: 0.5
vector:
  collections:
    - knowledge
    - messages
"""
    )
    assert settings.database.dsn == "mysql+pymysql://bob:sesame@db/app"
    assert settings.database.pool_size == 3
    assert settings.database.max_overflow == 10
    assert settings.vault.root_path == "/srv/vault"
    assert settings.failure_queue.max_age_hours is None
    assert settings.failure_queue.max_dump_file_size_mb == 0.5
    assert settings.vector.collections == ("knowledge", "messages")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_part_of_the_first_key(load, encoding):
    """As editors on other systems write it."""
    text = "service:\n  tenant: 记忆\n"
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    assert load(mark + text.encode(encoding)).service.tenant == "记忆"


@pytest.mark.parametrize(
    ("written", "read"),
    [("no", "no"), ("on", "on"), ("123", "123"), ("1e3", "1e3"), ("2026-01-02", "2026-01-02"), ("0x1F", "0x1F"), ("12:30", "12:30"), ("'null'", "null"), ('""', "")],
)  # fmt: skip
def test_a_text_is_taken_as_it_is_written(load, written, read):
    """YAML's guesses (no is false, 12:30 is 750) do not touch a setting that is text."""
    assert load(f"service:\n  tenant: {written}\n").service.tenant == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((text, True) for text in ("true", "yes", "on", "ON", "1", '"true"')),
        *((text, False) for text in ("false", "no", "off", "False", "0")),
    ],
)
def test_a_switch_has_the_usual_spellings(load, written, read):
    assert load(f"vault:\n  enabled: {written}\n").vault.enabled is read
    assert load("", OCTAVO__VAULT__ENABLED=written.strip('"')).vault.enabled is read


@pytest.mark.parametrize(("written", "read"), [("7", 7), ('"7"', 7), ("007", 7), ("1_000", 1000)])
def test_a_number_is_decimal_with_or_without_quotes(load, written, read):
    """YAML 1.1 would read 010 as 8."""
    assert load(f"database:\n  pool_size: {written}\n").database.pool_size == read


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("many", "'many'"),
        ("0", "0"),
        ("-1", "-1"),
        ("5.5", "'5.5'"),
        ("1e3", "'1e3'"),
        ("true", "'true'"),
        ("9" * 5000, "'999"),
        ("99999999999999999999", "99999999999999999999"),
        ("[5]", "a list"),
        ("", "nothing: give a value or leave the line out"),
        ("~", "nothing: give a value or leave the line out"),
        ('""', "''"),
    ],
)
def test_a_wrong_number_is_named_with_its_place(refused, written, named):
    said = refused(f"database:\n\n  pool_size: {written}\n")
    assert said.startswith(
        f"memory.yaml, line 3: database.pool_size is a whole number from 1 to 10,000; got {named}"
    )
    assert len(said) < 400


@pytest.mark.parametrize("written", [".nan", "nan", ".inf", "inf", "-1", "0", "1e400", "soon", "86401"])
def test_a_time_that_is_none_is_refused(refused, written):
    said = refused(f"service:\n  timeout_seconds: {written}\n")
    assert "memory.yaml, line 2: service.timeout_seconds is a number above 0 and at most 86,400; got" in said


def test_other_kinds_of_wrong_values(refused):
    assert "is true or false; got 'maybe'" in refused("vault: {enabled: maybe}")
    assert "is one of fsync, flush, memory; got 'always'" in refused("failure_queue: {durability: always}")
    assert "database.dsn is text, not empty; got ''" in refused("database: {dsn: ''}")
    assert "vault.root_path is text, not empty; got '  '" in refused("vault: {root_path: '  '}")
    assert "is a list of names, not an empty one; got []" in refused("vector: {collections: []}")
    assert "vector.collections names 'memos'; known: events," in refused("vector: {collections: [memos]}")
    assert "one of them is none" in refused("vector: {collections: [knowledge, [a]]}")
    assert "text with a NUL in it" in refused('vault: {root_path: "a\\0b"}')
    assert "is a number above 0 and at most 876,000, or null; got 'x'" in refused(
        "failure_queue: {max_age_hours: x}"
    )
    assert "more than backoff_max_seconds, which is 2.0" in refused(
        "failure_queue: {backoff_min_seconds: 3, backoff_max_seconds: 2}"
    )
    assert "longer than 64 bytes" in refused(f"service: {{tenant: {'记' * 22}}}")


def test_vectors_need_a_model(refused):
    """Said when it is configured, not when the first record is embedded."""
    said = refused("vector: {enabled: true}")
    assert said.startswith("memory.yaml, line 1: vector.enabled is true, but vector.embedder names no model")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("databse: {}", "memory.yaml, line 1: unknown key 'databse'; did you mean database?"),
        ("database:\n  dns: x", "memory.yaml, line 2: unknown key 'dns' in database; did you mean dsn?"),
        ("dsn: x", "memory.yaml, line 1: unknown key 'dsn'; did you mean dsn in database?"),
        ("database.dsn: x", "memory.yaml, line 1: unknown key 'database.dsn'; did you mean dsn in database?"),
        ("vault: {directory: x}", "unknown key 'directory' in vault; did you mean directory in failure_queue?"),
        (
            "zzz: 1",
            "unknown key 'zzz'; known: database, vault, vector, rerank, failure_queue, service",
        ),
        ("service: {enabled: 1}", "unknown key 'enabled' in service; known: tenant, timeout_seconds"),
        ("database: {zzz: 1}", "unknown key 'zzz' in database; known: dsn, pool_size, max_overflow"),
        ("database: sqlite:///x.db", "memory.yaml, line 1: database must hold keys with values"),
        ("database: [a]", "database must hold keys with values, one to a line; it has dsn, pool_size"),
        ("- database", "memory.yaml, line 1: the file must hold keys with values"),
        ("just a sentence", "the file must hold keys with values, such as `database:`; got a single value"),
        ("database: {dsn: {url: x}}", "dsn takes a value, not keys of its own"),
        ("? [a, b]\n: c", "a key in the file is a list or a map; it must be a name"),
        ("vault: {}\nvault: {}", "line 2: 'vault' stands in the file twice, first in line 1; keep one"),
        ("vault:\n  root_path: a\n  root_path: a", "line 3: 'root_path' stands in vault twice, first in line 2"),
        ("database:\n\tdsn: x", "memory.yaml, line 2, column 1: not a settings file that can be read"),
        ("database:\n\tdsn: x", "indent with spaces, not tabs"),
        ("database: {", "memory.yaml, line 1, column 12: not a settings file that can be read"),
        ("a: 1\n--- \nb: 2", "expected a single document"),
        (b"vault:\n  root_path: \xff\xfe", "not a settings file that can be read"),
        (b"vault:\n  root_path: a\x07", "not a settings file that can be read"),
        ("vault: {root_path: !!python/object:os.system x}", "settings take plain values"),
        ("vault: {<<: 1}", "expected a mapping or list of mappings for merging"),
        ("vault: {<<: [1]}", "expected a mapping for merging"),
        ("[" * 5000, "not a settings file|nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_settings(refused, content, sentence):
    said = refused(content)
    assert any(part in said for part in sentence.split("|")), said


def test_anchors_and_merges_are_yaml_like_any_other(load):
    """What a map says itself wins over what it merges, and the first merged over the second."""
    settings = load(
        """
vault: &paths
  root_path: &root /srv/memory
  watch_seconds: 9
failure_queue:
  directory: *root
vector: {}
"""
    )
    assert settings.failure_queue.directory == "/srv/memory"
    merged = load(
        "vault: &a\n  <<: [{root_path: b, watch_seconds: 1}, {watch_seconds: 2, enabled: no}]\n  root_path: own\n"
    )
    assert (merged.vault.root_path, merged.vault.watch_seconds, merged.vault.enabled) == ("own", 1.0, False)


def test_a_missing_file(tmp_path, monkeypatch):
    """It is named with the folder it was looked for in, and never taken for an empty one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no settings file at config/memory\.yaml") as caught:
        load_settings("config/memory.yaml")
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_settings(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        load_settings(Path(__file__) / "memory.yaml")


def test_a_missing_package(load, monkeypatch):
    """PyYAML is an extra, and its absence is one sentence with the cure; without a file nobody needs it."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[service\]'"):
        load("")
    assert load_settings(environ={}) == Settings()


@pytest.mark.parametrize("setting", every_setting(), ids=lambda setting: setting.key)
def test_every_setting_is_overridden_by_its_variable(load, setting):
    """OCTAVO__SECTION__KEY wins over the file, also over a value there that would be refused."""
    text, value = {
        "vector.collections": ("messages, knowledge", ("messages", "knowledge")),
        "failure_queue.durability": ("flush", "flush"),
        "vault.enabled": ("off", False),
        "vector.keep_previous": ("on", True),
        "vector.enabled": ("1", True),
        "failure_queue.enabled": ("no", False),
        "extraction.attempts": ("3", 3),
        "server.auth": ("on", "on"),
        "server.console": ("false", False),
        "server.cors_origins": (
            "https://a.example, http://b.example:81",
            ("https://a.example", "http://b.example:81"),
        ),
        "server.max_content_bytes": ("2000", 2000),
        "server.max_body_bytes": ("2000", 2000),
        "server.max_page_bytes": ("3000", 3000),
        "mcp.toolset": ("graph", "graph"),
        "mcp.max_tokens": ("300", 300),
        "files.group_access": ("yes", True),
        "telemetry.metrics": ("off", False),
        "telemetry.traces": ("on", True),
        "telemetry.trace_share": ("0.5", 0.5),
        "telemetry.trace_contents": ("yes", True),
    }.get(setting.key, ("20", 20 if "number" in setting.expected else "20"))
    embedder = {} if setting.key == "vector.embedder" else {"OCTAVO__VECTOR__EMBEDDER": "openai:x"}
    settings = load(
        f"{setting.section}:\n  {setting.name}: <NO_SUCH_VARIABLE>\n", **embedder, **{setting.variable: text}
    )
    assert getattr(getattr(settings, setting.section), setting.name) == value


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("OCTAVO__DATABASE__DNS", "x", "OCTAVO__DATABASE__DNS names no setting; did you mean OCTAVO__DATABASE__DSN?"),
        ("OCTAVO__DSN", "x", "OCTAVO__DSN names no setting; "),
        ("OCTAVO__", "x", "it is OCTAVO__SECTION__KEY"),
        ("OCTAVO__DATABASE__POOL_SIZE", "many", "the environment variable OCTAVO__DATABASE__POOL_SIZE is a whole number from 1 to 10,000; got 'many'"),
        ("OCTAVO__DATABASE__POOL_SIZE", "", "got ''"),
        ("OCTAVO__VAULT__ENABLED", "", "OCTAVO__VAULT__ENABLED is true or false; got ''"),
        ("OCTAVO__VECTOR__COLLECTIONS", " , ", "a list of names, not an empty one"),
    ],
)  # fmt: skip
def test_a_variable_that_is_wrong(refused, variable, text, sentence):
    """A misspelt variable must not be ignored, and a wrong one is named."""
    assert sentence in refused("", **{variable: text})


def test_variables_in_either_case_and_others_of_octavo(load, refused):
    """Lower case is the same setting; OCTAVO_DEBUG is the command's, and none."""
    assert load("", OCTAVO__database__pool_size="4", OCTAVO_DEBUG="1").database.pool_size == 4
    said = refused("", OCTAVO__database__pool_size="4", OCTAVO__DATABASE__POOL_SIZE="5")
    assert "database.pool_size is set twice in the environment" in said


def test_octavo_url_is_the_store_wherever_settings_are_read(load, refused):
    """Before a file, and together with OCTAVO__DATABASE__DSN only if both say the same."""
    file = "database:\n  dsn: sqlite:///file.db\n"
    assert load(file, OCTAVO_URL="sqlite:///url.db").database.dsn == "sqlite:///url.db"
    assert load(file, OCTAVO_URL="").database.dsn == "sqlite:///file.db"
    both = {"OCTAVO_URL": "sqlite:///url.db", "OCTAVO__DATABASE__DSN": "sqlite:///url.db"}
    assert load(file, **both).database.dsn == "sqlite:///url.db"
    said = refused(file, **both | {"OCTAVO_URL": "mysql://me:hunter2@h/d"})
    assert (
        "OCTAVO_URL and OCTAVO__DATABASE__DSN name different stores, mysql://me:…@h/d and sqlite:///url.db"
        in said
    )


@pytest.mark.parametrize("text", ["", "null", "None", "~"])
def test_a_variable_can_say_null(load, text):
    assert load("", OCTAVO__FAILURE_QUEUE__MAX_AGE_HOURS=text).failure_queue.max_age_hours is None


def test_a_name_in_angle_brackets_is_a_variable(load, refused):
    """For texts and numbers, quoted or not, in lists, alone or inside a longer text."""
    environ = {"MEMORY_DSN": "memory://", "POOL": "3", "HOME_": "/srv", "EMPTY": "", "KIND": "knowledge"}
    settings = load(
        """
database: {dsn: "<MEMORY_DSN>", pool_size: <POOL>}
vault: {root_path: <HOME_>/vault}
vector: {url: "<EMPTY>", collections: [<KIND>, messages]}
""",
        **environ,
    )
    assert settings.database.dsn == "memory://"
    assert settings.database.pool_size == 3
    assert settings.vault.root_path == "/srv/vault"
    assert settings.vector.url == ""
    assert settings.vector.collections == ("knowledge", "messages")
    said = refused('\ndatabase: {dsn: "<MEMORY_DSN>"}')
    assert said == (
        "memory.yaml, line 2: database.dsn is to come from the environment variable MEMORY_DSN, which is not set; "
        "set it, or OCTAVO__DATABASE__DSN"
    )


def test_a_password_in_a_url_is_spelled_as_urls_spell_it(load):
    """Whatever characters it has; what stands after the @ is taken as it is."""
    settings = load(
        "database: {dsn: 'mysql://<USER_>:<PASSWORD>@<HOST>/app'}",
        USER_="bob",
        PASSWORD="p@ss/w:rd?#<POOL>%",
        HOST="db:3306",
    )
    assert settings.database.dsn == "mysql://bob:p%40ss%2Fw%3Ard%3F%23%3CPOOL%3E%25@db:3306/app"


def test_what_comes_from_the_environment_is_not_looked_into(load):
    """A value with angle brackets in it is that value, in a variable and in an override."""
    assert load("service: {tenant: <NAME>}", NAME="<OTHER>").service.tenant == "<OTHER>"
    assert load("", OCTAVO__SERVICE__TENANT="<OTHER>").service.tenant == "<OTHER>"


def test_text_in_angle_brackets_that_is_no_name_stays(load):
    assert load("service: {tenant: '<a b> <1> <>'}").service.tenant == "<a b> <1> <>"


def test_the_default_environment_is_the_live_one():
    """A default bound to a copy would miss what is set after the import."""
    assert load_settings.__kwdefaults__["environ"] is os.environ


@pytest.mark.parametrize(
    ("content", "environ", "begins"),
    [
        ("server:\n  cors_origins: [http://a.b/x]", {}, "wrong.yaml, line 2: server.cors_origins names"),
        ("server:\n  host: 0.0.0.0\n  auth: off", {}, "wrong.yaml, line 3: server.auth is off"),
        (
            "server:\n  port: 1234",
            {"OCTAVO__SERVER__CORS_ORIGINS": "http://a.b/x"},
            "OCTAVO__SERVER__CORS_ORIGINS: server.cors_origins names",
        ),
    ],
)
def test_what_settings_say_together_is_refused_by_its_line(tmp_path, monkeypatch, content, environ, begins):
    """As what one says alone is: a section that is checked as a whole knows no lines."""
    monkeypatch.chdir(tmp_path)
    Path("wrong.yaml").write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_settings("wrong.yaml", environ=environ)
    assert str(refused.value).startswith(begins)
