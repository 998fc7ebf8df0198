"""Keys and file names: every id has a safe name of its own, and the name leads back to the id."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octavo import InvalidRecord
from octavo.service.vault.folder import Folder
from octavo.service.vault.names import add_sum, address_of, key_of

ODD = [
    "alice", "Alice", "a.b", "a b", " lead", "trail ", "trail.", ".hidden", "~$lock", "~", "%", "%41", "100%", "a%2Fb", "con", "CON",
    "nul.txt", "com1", "lpt9.x", "a:b", 'q"?*<>|', "back\\slash", "C:\\x", "..\\..\\x", "tab\there", "line\nbreak", "bell\x07",
    "😀", "李小龙", "\u00e9", "e\u0301", "ß", "x.md", "x.MD", "name~12345678", add_sum("name"), "a@example.com", "-rf", "#emacs#", "\u202ertl",
    "李" * 83, "😀" * 62, "." * 100, "a" * 179 + "." + "b" * 60, "a" * 180 + ".con",
]  # fmt: skip

ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=62
).filter(lambda id_: id_ not in (".", "..") and len(id_.encode()) <= 240)


def path(key):
    return address_of(key).path


@pytest.mark.parametrize("id_", ODD)
@pytest.mark.parametrize("folder", ["users", "facts"])
def test_every_odd_id_has_a_name_and_the_name_leads_back(id_, folder):
    key = f"{folder}/{id_}"
    assert key_of(path(key)) == key
    assert_safe(path(key))


@given(ids)
@example("a" * 178 + "%%")
@example("a" * 180 + ". ")
def test_names_lead_back(id_):
    for key in (f"users/{id_}", id_, f"experiences/{id_}/{id_}"[:60].rstrip("/")):
        try:
            spelled = path(key)
        except InvalidRecord as error:
            odd = any(part in ("", ".", "..") for part in key.split("/"))
            assert odd or "too long for a file name" in str(error)
            continue
        assert key_of(spelled) == key
        assert_safe(spelled)


def assert_safe(spelled):
    for name in spelled.split("/"):
        assert 0 < len(name.encode()) <= 255
        assert not set(name) & set('<>:"\\|?*\0\n')
        assert name[0] not in ".~ "
        assert name[-1] not in ". "
        assert name.split(".")[0].lower() not in {"con", "nul", "aux", "prn", "com1", "lpt9"}


def test_plain_ids_have_plain_names():
    assert path("system") == "md/system.md"
    assert path("world") == "md/world.md"
    assert path("users/Alice") == "md/users/Alice.md"
    assert path("users/李小龙") == "md/users/李小龙.md"
    assert path("experiences/first trip") == "knowledge/experiences/first trip.md"
    assert path("facts/physics/gravity") == "knowledge/facts/physics/gravity.md"
    assert path("users/a:b") == "md/users/a%3Ab.md"
    assert (address_of("users/a").collection, address_of("users/a").kind) == ("configs", "user")
    assert (address_of("facts/a").collection, address_of("facts/a").kind) == ("knowledge", "fact")
    assert (address_of("tone").collection, address_of("tone").kind) == ("configs", "config")


@pytest.mark.parametrize(
    "key",
    ["", "..", "../x", "users/..", "users/../../etc/passwd", "/etc/passwd", "users//x", "users/", "./x", "users/a\0b",
     "users/\ud800", "users/" + "x" * 250, "users/" + "?" * 90, None, 7],
)  # fmt: skip
def test_keys_that_lead_out_or_nowhere_are_refused(key):
    with pytest.raises(InvalidRecord, match="key"):
        address_of(key)


@pytest.mark.parametrize(
    "spelled", ["md/%2E%2E.md", "md/users/%2E%2E/x.md", "md/facts/x.md", "knowledge/x.md", "md/users/a%00.md"]
)
def test_names_that_would_be_such_keys_are_no_documents(spelled):
    assert key_of(spelled) is None


def test_what_a_person_named_otherwise_is_read_as_it_stands():
    assert key_of("knowledge/facts/100%.md") == "facts/100%"
    assert key_of("knowledge/facts/what?.md") == "facts/what?"
    assert key_of("md/users/name~00000000.md") == "users/name~00000000"
    assert key_of("md/users/%FF.md") == "users/%FF"


def test_ids_where_case_is_not_told_apart(tmp_path, monkeypatch):
    """On a Mac, Alice.md also answers to alice.md: each id has a file of its own all the same."""

    def answers(where):
        folder = Path(where).parent
        names = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
        return Path(where).name.casefold() in names

    folder = Folder(tmp_path)
    folder.make()
    (tmp_path / "MD").mkdir()  # there, this is the folder md
    names = {}
    for id_ in ("alice", "Alice", "ALICE", "Team/x", "team/x", "team/X"):
        with monkeypatch.context() as patched:
            patched.setattr(os.path, "lexists", answers)
            names[id_] = folder.locate(address_of(f"users/{id_}"))
        folder.replace(names[id_], folder.stage(names[id_], id_.encode()), None)
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert names["alice"] == "md/users/alice.md"
    monkeypatch.setattr(os.path, "lexists", answers)
    for id_, name in names.items():
        assert key_of(name) == f"users/{id_}"
        assert folder.locate(address_of(f"users/{id_}")) == name
