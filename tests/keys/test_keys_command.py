"""`octavo keys`: what it prints, to whom, and how it ends."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from octavo import open_store
from octavo.keys import Keys

URL = "sqlite:///octavo.db"
KEY = re.compile(r"oct_([0-9a-f]{16})_[0-9a-f]{64}")


def checked(key, url=URL):
    async def check():
        async with open_store(url) as store:
            return await Keys(store).check(key)

    return asyncio.run(check())


def test_create_list_revoke(octavo):
    """The key is printed alone on stdout, once; everything else names its id."""
    made = octavo("keys", "create", "laptop", "--access", "write", "--tenant", "acme", "--store", URL)
    assert made.exit_code == 0
    key = made.stdout.removesuffix("\n")
    id_ = KEY.fullmatch(key)[1]
    assert id_ in made.stderr
    assert key not in made.stderr
    info = checked(key)
    assert (info.id, info.name, info.access, info.tenant) == (id_, "laptop", "write", "acme")
    listed = octavo("keys", "list", "--store", URL)
    at = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"
    assert re.fullmatch(rf"{id_}  write  {at}  laptop  tenant acme\n", listed.stdout)
    assert octavo("keys", "list", "--tenant", "", "--store", URL).stdout == "no keys\n"
    revoked = octavo("keys", "revoke", id_, "--store", URL)
    assert (revoked.exit_code, revoked.stdout) == (0, f"revoked {id_} (laptop)\n")
    assert checked(key) is None
    assert re.search(rf"  revoked {at}\n", octavo("keys", "list", "--store", URL).stdout)


def test_it_says_which_store_has_the_key(octavo):
    """A server of another folder or of other settings would refuse the key."""
    assert ", kept in sqlite:///octavo.db;" in octavo("keys", "create", "laptop").stderr


def test_the_whole_key_names_its_id(octavo):
    key = octavo("keys", "create", "leaked", "-q", "--store", URL).output.strip()  # nothing else with --quiet
    assert KEY.fullmatch(key)
    told = octavo("keys", "revoke", key, "--store", URL)
    assert told.exit_code == 0
    assert key not in told.output
    assert checked(key) is None


def test_json(octavo):
    made = json.loads(octavo("keys", "create", "board", "--expires", "90d", "--json", "--store", URL).stdout)
    assert KEY.fullmatch(made.pop("key"))
    assert made.pop("expires_at") > made["created_at"]
    wanted = {
        "ok": True,
        "command": "keys create",
        "name": "board",
        "access": "read",
        "tenant": "",
        "user": None,
    }
    assert made == {**wanted, "id": made["id"], "created_at": made["created_at"], "revoked_at": None}
    listed = json.loads(octavo("keys", "list", "--json", "--store", URL).stdout)
    assert [each["id"] for each in listed["keys"]] == [made["id"]]
    revoked = json.loads(octavo("keys", "revoke", made["id"], "--json", "--store", URL).stdout)
    assert revoked["revoked_at"] is not None


def test_for_one_user(octavo):
    made = octavo("keys", "create", "phone", "--access", "write", "--user", "lin", "--json", "--store", URL)
    assert json.loads(made.stdout)["user"] == "lin"
    assert "phone  user lin" in octavo("keys", "list", "--store", URL).stdout
    for more, sentence in (
        (["--access", "admin"], "admin access sees every user"),
        (["--user", ""], "a user's name"),
    ):
        refused = octavo("keys", "create", "x", "--user", "lin", *more, "--store", URL)
        assert (refused.exit_code, sentence in refused.stderr) == (2, True)
    assert octavo("keys", "list", "--store", URL).stdout.count("\n") == 1


def test_a_date_of_expiry(octavo):
    made = octavo(
        "keys", "create", "board", "--expires", "2199-03-01T00:00:00+00:00", "--json", "--store", URL
    )
    assert json.loads(made.stdout)["expires_at"] == "2199-03-01T00:00:00Z"
    assert "expires 2199-03-01 00:00:00+" in octavo("keys", "list", "--store", URL).stdout


def test_where_the_store_is_named(octavo, monkeypatch):
    """By --store, by a variable, by --config or config/memory.yaml; else where `octavo serve` would keep it."""
    assert octavo("keys", "create", "by default").exit_code == 0
    assert "by default" in octavo("keys", "list", "--store", URL).stdout
    Path("config").mkdir()
    for path, name in (("one.yaml", "one"), ("config/memory.yaml", "two")):
        Path(path).write_text(f"database:\n  dsn: sqlite:///{name}.db\n")
    assert octavo("keys", "create", "in one", "--config", "one.yaml").exit_code == 0
    assert octavo("keys", "create", "in two").exit_code == 0
    assert "in one" in octavo("keys", "list", "--store", "sqlite:///one.db").stdout
    assert "in two" in octavo("keys", "list", "--store", "sqlite:///two.db").stdout
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///one.db")
    assert "in one" in octavo("keys", "list").stdout  # a variable wins over a file
    monkeypatch.delenv("OCTAVO_URL")
    assert "in two" in octavo("keys", "list").stdout
    monkeypatch.setenv("OCTAVO__DATABASE__DSN", "sqlite:///one.db")
    assert "in one" in octavo("keys", "list").stdout


def test_a_key_opens_the_tenant_of_the_settings(octavo):
    """Whose memory a server without keys would show; else a key made for it would open another's."""
    Path("server.yaml").write_text("database:\n  dsn: sqlite:///octavo.db\nservice:\n  tenant: acme\n")
    for tenant, words in (("acme", ()), ("", ("--tenant", "")), ("other", ("--tenant", "other"))):
        made = octavo("keys", "create", "a", "--config", "server.yaml", "--json", *words)
        assert json.loads(made.stdout)["tenant"] == tenant


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["create", "a", "--access", "root"], 2, "root"),
        (["create", "a", "--expires", "soon"], 2, "90d"),
        (["create", "a", "--expires", "2001-01-01"], 2, "would never have worked"),
        (["create", ""], 2, "name"),
        (["revoke", "nobody"], 2, "no store at octavo.db"),
        (["list"], 2, "no store at octavo.db"),
    ],
)
def test_mistakes(octavo, args, status, said):
    told = octavo("keys", *args, "--store", URL)
    assert told.exit_code == status
    assert said in told.stderr


def test_a_key_nobody_has(octavo):
    octavo("keys", "create", "a", "--store", URL)
    told = octavo("keys", "revoke", "nobody", "--store", URL, "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["kind"] == "NotFound"


@pytest.mark.parametrize("more", ["\r", "x", "0"])
def test_a_whole_key_that_is_not_quite_one_is_never_told(octavo, more):
    """As read from a file of Windows, or mistyped: the secret in it would stand in a log. The id alone revokes it."""
    key = octavo("keys", "create", "a", "--store", URL, "--quiet").stdout.strip()
    secret = key.rpartition("_")[2]
    Path("other.db").touch()
    unknown = octavo("keys", "revoke", key + more, "--store", "sqlite:///other.db")
    assert (unknown.exit_code, secret in unknown.output + unknown.stderr) == (1, False)
    assert octavo("keys", "revoke", key + more, "--store", URL).exit_code == 0


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:"])
def test_a_store_that_forgets(octavo, url):
    told = octavo("keys", "create", "a", "--store", url)
    assert told.exit_code == 2
    assert "oct_" not in told.output


def test_a_store_that_is_down(octavo):
    """Nothing is printed that looks like a key, and no password either."""
    told = octavo("keys", "create", "a", "--store", "postgresql://octavo:s3cret-word@127.0.0.1:1/octavo")
    assert told.exit_code == 1
    assert "oct_" not in told.output
    assert "s3cret-word" not in told.output
