"""URLs of vector indexes: what opens what, and what is said when one does not open."""

import sys

import pytest

from octavo import ConfigError
from octavo.kernel.ports import VectorIndex
from octavo.vectors import SCHEMES, ExactIndex, PgVectorIndex, QdrantIndex, SqliteVecIndex, open_vectors


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", ExactIndex),
        ("exact+sqlite:///a.db", ExactIndex),
        ("exact+postgresql://u:p@h/d", ExactIndex),
        ("sqlite:///a.db?prefix=mem_&durability=fast&timeout=5", SqliteVecIndex),
        ("sqlite:///:memory:", SqliteVecIndex),
        ("SQLite+aiosqlite:///a.db", SqliteVecIndex),
        ("postgresql://u:p@h:5433/d?prefix=mem_", PgVectorIndex),
        ("postgres+asyncpg://u@h/d", PgVectorIndex),
        ("qdrant://h:6333", QdrantIndex),
        ("qdrant+https://h?api_key=secret&prefix=mem_&timeout=5", QdrantIndex),
        ("qdrant://[::1]:6333", QdrantIndex),
        ("qdrant:///var/lib/octavo", QdrantIndex),
        ("qdrant://:memory:", QdrantIndex),
    ],
)
def test_every_spelling(url, kind):
    """Each spelling opens its index, and nothing is touched before the first use."""
    index = open_vectors(url)
    assert type(index) is kind
    assert isinstance(index, VectorIndex)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("octavo.db", "is not the URL of a vector index"),
        (
            "lost://",
            "unknown vector index scheme 'lost'; known: exact, memory, postgres, postgresql, qdrant, sqlite",
        ),
        ("sqlite://a.db", "three slashes"),
        ("sqlite:///a.db?prefix=a-b", "bad prefix"),
        ("sqlite:///a.db?colour=red", "unknown option colour"),
        ("postgresql://u:secret@h/d?prefix=a-b", "bad prefix"),
        ("postgresql://u:secret@h:port/d", "Port"),
        ("qdrant://h?colour=red&api_key=secret", "unknown option colour"),
        ("qdrant://h?timeout=soon&api_key=secret", "bad value 'soon' for timeout"),
        ("qdrant://h?prefix=a-b&api_key=secret", "bad prefix"),
        ("qdrant+gopher://h?api_key=secret", "no way to reach Qdrant"),
        ("qdrant://u:secret@h", "qdrant://host:6333"),
        ("qdrant://", "qdrant://host:6333"),
        ("qdrant://h:port?api_key=secret", "Port"),
        ("exact://secret", "exact\\+sqlite"),
        ("memory+sqlite:///a.db", "memory://"),
        ("u:secret@h/d", "is not the URL"),
        ("h/d?api_key=secret", "is not the URL"),
    ],
)
def test_every_refusal(url, said):
    """A URL that opens nothing is refused with the reason, without what may be a secret."""
    with pytest.raises(ConfigError, match=said) as refusal:
        open_vectors(url)
    assert "secret" not in str(refusal.value)


def test_the_table_is_sorted():
    assert list(SCHEMES) == sorted(SCHEMES)


@pytest.mark.parametrize(
    ("package", "module", "name", "extra"),
    [
        ("numpy", "exact", "ExactIndex", "vectors"),
        ("sqlite_vec", "sqlite_vec", "SqliteVecIndex", "vectors"),
        ("asyncpg", "pgvector", "PgVectorIndex", "postgres"),
        ("qdrant_client", "qdrant", "QdrantIndex", "qdrant"),
    ],
)
def test_a_missing_package(package, module, name, extra, monkeypatch):
    """An index whose package is not installed says how to install it, by URL and by name."""
    import octavo.vectors

    loaded = [
        known for known in sys.modules if known.startswith(("octavo.vectors.", "octavo.stores.sql.drivers."))
    ]
    for known in loaded:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, package, None)
    urls = {
        "exact": "memory://",
        "sqlite_vec": "sqlite:///:memory:",
        "pgvector": "postgresql://h/d",
        "qdrant": "qdrant://h",
    }
    with pytest.raises(ConfigError, match=rf"pip install 'octavo\[{extra}\]'"):
        open_vectors(urls[module])
    with pytest.raises(ConfigError, match=rf"pip install 'octavo\[{extra}\]'"):
        getattr(octavo.vectors, name)


def test_import_is_light():
    """Neither `octavo` nor `octavo.vectors` loads what not everybody has."""
    import subprocess

    code = (
        "import sys, octavo, octavo.vectors\n"
        "print([name for name in ('numpy', 'sqlite_vec', 'asyncpg', 'qdrant_client') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


async def test_a_scheme_of_your_own(tmp_path, monkeypatch):
    """A function registered under the entry-point group `octavo.vectors` opens its scheme."""
    installed = tmp_path / "own_vectors-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: own-vectors\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[octavo.vectors]\nown = own_vectors:open_own\n")
    (tmp_path / "own_vectors.py").write_text(
        "from octavo.vectors import open_vectors\n\ndef open_own(url):\n    return open_vectors('memory://')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    async with open_vectors("own+fast://") as index:
        assert await index.spaces() == []
    with pytest.raises(ConfigError, match=r"known: .*memory, own, postgres"):
        open_vectors("lost://")
