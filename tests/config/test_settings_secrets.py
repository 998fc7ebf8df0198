"""No password or key is shown: not by settings, not by an error about them, not by its traceback."""

import logging
import traceback

import msgspec
import pytest

from octavo import ConfigError
from octavo.assemble import assemble
from octavo.config import Database, Rerank, Settings, Vector, load_settings, shown_settings
from octavo.config.settings import every_setting

SECRET = "sesame"
SETTINGS = Settings(
    database=Database(dsn=f"postgresql://bob:{SECRET}@db/app?sslpassword={SECRET}"),
    vector=Vector(
        enabled=True,
        embedder=f"openai:small?api_key={SECRET}",
        previous_embedder=f"openai:old?api_key={SECRET}&base_url=http://bob:{SECRET}@host/v1",
        api_key=SECRET,
        base_url=f"https://bob:{SECRET}@host/v1",
        url=f"qdrant+https://host:6333?api_key={SECRET}",
    ),
    rerank=Rerank(model="openai:judge", base_url=f"https://bob:{SECRET}@host/v1", api_key=SECRET),
)


def test_settings_are_shown_without_secrets(caplog):
    """In repr, str, a format, a log line, a rich display, a part of them, and the dictionary that is meant to be shown."""
    logging.getLogger("octavo.test").warning("with %s and %r", SETTINGS, SETTINGS.vector)
    faces = [
        repr(SETTINGS),
        str(SETTINGS),
        f"{SETTINGS} {SETTINGS.database}",
        f"{SETTINGS!r:>10}",
        repr([SETTINGS]),
        caplog.text,
        repr(list(SETTINGS.vector.__rich_repr__())),
        repr(shown_settings(SETTINGS)),
        repr(msgspec.structs.replace(SETTINGS.vector, enabled=False)),
    ]
    for face in faces:
        assert SECRET not in face
        assert "…" in face
    assert SETTINGS.database.dsn.count(SECRET) == 2


def test_shown_settings_are_all_settings():
    """With values that JSON can carry, secrets as …, and nothing where no secret is set."""
    shown = shown_settings(SETTINGS)
    assert [f"{section}.{name}" for section, held in shown.items() for name in held] == [
        setting.key for setting in every_setting()
    ]
    assert shown["database"]["dsn"] == "postgresql://bob:…@db/app?sslpassword=…"
    assert shown["vector"]["api_key"] == "…"
    assert shown_settings(Settings())["vector"]["api_key"] == ""
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown


def test_the_assembled_memory_shows_none():
    plain = Settings(database=Database(dsn=f"postgresql://bob:{SECRET}@db/app"))
    assembled = assemble(plain)
    assert SECRET not in repr(assembled)
    assert "postgresql://bob:…@db/app" in repr(assembled)


@pytest.mark.parametrize(
    ("content", "environ"),
    [
        ("database:\n  dsn: mysql://bob:sesame@db/app\n bad: indent", {}),
        ("database: {dsn: 'mysql://bob:sesame@db/app", {}),
        ("database:\n\tdsn: mysql://bob:sesame@db/app", {}),
        ("database: mysql://bob:sesame@db/app", {}),
        ("mysql://bob:sesame@db/app", {}),
        ("- mysql://bob:sesame@db/app", {}),
        ("mysql://bob:sesame@db/app: x", {}),
        ("database: {'mysql://bob:sesame@db/app': x}", {}),
        ("database: {'mysql://bob:sesame@db/app': x, 'mysql://bob:sesame@db/app': x}", {}),
        ("database: {dsn: [mysql://bob:sesame@db/app]}", {}),
        ("database: {dsn: {mysql://bob:sesame@db/app: x}}", {}),
        ("database: {dsn: ['mysql://bob:sesame@db/app']}", {}),
        ("database: {pool_size: mysql://bob:sesame@db/app}", {}),
        ("database: {pool_size: <PASSWORD>}", {"PASSWORD": SECRET}),
        ("vault: {enabled: 'x<PASSWORD>'}", {"PASSWORD": SECRET}),
        ("vector: {api_key: *sesame}", {}),
        ("vector: {api_key: !sesame}", {}),
        ("vector: {api_key: !sesame x}", {}),
        ("vector: {api_key: !a!sesame x}", {}),
        ("vector: {api_key: &sesame a, base_url: &sesame b, url: &sesame}", {}),
        ("%sesame\nvector: {}", {}),
        ("vector: {api_key: @sesame}", {}),
        ("vector: {api_key: `sesame`}", {}),
        ('vector: {api_key: "sesame\\q"}', {}),
        ("", {"OCTAVO__DATABASE__POOL_SIZE": "mysql://bob:sesame@db/app"}),
        ("", {"OCTAVO__DATABASE__DNS": "mysql://bob:sesame@db/app"}),
        ("", {"OCTAVO__DATABASE__DSN": "mysql://bob:sesame@db/app\0"}),
    ],
)
def test_an_error_and_its_traceback_show_none(tmp_path, content, environ):
    """A parser quotes the line that it cannot read, and a refusal the value: there may be a password in either."""
    file = tmp_path / "memory.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_settings(file, environ=environ)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    error = caught.value
    while error is not None:  # what tools that collect errors look through
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "settings",
    [
        Settings(database=Database(dsn="bob:sesame@db")),
        Settings(database=Database(dsn="mysq://bob:sesame@db/app")),
        Settings(database=Database(dsn="mysql://bob:sesame@db:port/app")),
        Settings(database=Database(dsn="mysql://bob@db/app?passwort=sesame")),
        Settings(database=Database(dsn="sqlite://bob:sesame@db/app")),
        Settings(database=Database(dsn="redis://bob:sesame@db/x")),
        Settings(database=Database(dsn="memory://"), vector=Vector(enabled=True, embedder="openai:m?api_kei=sesame")),
        Settings(database=Database(dsn="memory://"), vector=Vector(enabled=True, embedder="hash-for-tests", url="qdrant://h?api_kei=sesame")),
        Settings(database=Database(dsn="memory://"), vector=Vector(enabled=True, embedder="hash-for-tests", url="bob:sesame@h")),
    ],
    ids=lambda settings: settings.database.dsn[:8] + settings.vector.url[:8],
)  # fmt: skip
def test_a_setting_that_cannot_be_opened_is_named_without_its_secret(settings):
    """`assemble` names the setting, whose name the opener cannot know."""
    with pytest.raises(ConfigError, match=r"^(database\.dsn|vector\.url|vector\.embedder): ") as caught:
        assemble(settings)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
