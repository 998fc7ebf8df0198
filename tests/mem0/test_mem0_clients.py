"""Each method of mem0's own clients against a running server, on SQLite and PostgreSQL."""

import pytest

pytestmark = pytest.mark.timeout(900)
FIELDS = {
    "id", "memory", "user_id", "agent_id", "app_id", "run_id", "metadata", "categories", "created_at", "updated_at",
    "expiration_date",
}  # fmt: skip


@pytest.fixture(params=["sync", "async"])
def methods(told, request):
    """What the methods of `MemoryClient`, then of `AsyncMemoryClient`, answered."""
    return told[request.param]


def texts(answer):
    return [memory["memory"] for memory in answer["results"]]


def test_add(methods):
    made = methods["add"]
    assert {each["event"] for each in made["results"]} == {"ADD"}
    assert [each["memory"] for each in made["results"]] == [
        "The user lives in Berlin",
        "The user is allergic to peanuts",
    ]
    assert methods["add again"]["results"] == []  # both are known
    assert [(each["memory"], each["event"]) for each in methods["add as it is"]["results"]] == [
        ("Ann is her sister", "ADD")
    ]
    assert texts(methods["add without a fact"]) == ["The quarterly figures go to Ann before noon"]
    assert texts(methods["add for an agent"]) == ["Answers briefly"]


def test_search(methods):
    found = methods["search"]["results"]
    assert found[0]["memory"] == "The user lives in Berlin"
    assert {*found[0]} == FIELDS | {"score"}
    assert 0 < found[0]["score"] <= 1
    [only] = methods["search options"]["results"]
    assert {*only} == {"id", "memory"}
    assert texts(methods["search in a run"])[0] == "The user lives in Berlin"
    assert texts(methods["search in another run"]) == []
    assert {"The user lives in Berlin", "The user is allergic to peanuts"} == {
        *texts(methods["search by metadata"])
    }


def test_get_and_get_all(methods):
    listed = methods["get_all"]
    assert (listed["count"], listed["next"], listed["previous"]) == (4, None, None)
    assert len(listed["results"]) == 4
    second = methods["get_all second page"]
    assert second["results"] == listed["results"][2:]
    assert (second["count"], second["next"]) == (4, None)
    assert second["previous"].endswith("page_size=2&page=1")
    assert texts(methods["get_all of an app"]) == ["Ann is her sister"]
    one = methods["get"]
    assert {*one} == FIELDS
    assert one in listed["results"]
    assert (one["user_id"], one["run_id"], one["agent_id"]) == ("lin", "monday", None)
    assert one["metadata"] == {"topic": "home"}
    [cold] = [each for each in listed["results"] if each["memory"] == "Has a cold"]
    assert cold["expiration_date"].startswith("2099-01-01")


def test_update_and_history(methods):
    changed = methods["update"]
    assert (changed["memory"], changed["text"]) == ("Lives in Potsdam", "Lives in Potsdam")
    assert (changed["metadata"], changed["run_id"]) == ({"sure": True}, "monday")
    assert methods["update the end"]["expiration_date"].startswith("2099-12-31")
    assert methods["update no end"]["expiration_date"] is None
    first, second, *_ = methods["history"]
    assert (first["event"], first["old_memory"], first["new_memory"]) == (
        "ADD",
        None,
        "The user lives in Berlin",
    )
    assert (second["event"], second["old_memory"], second["new_memory"]) == (
        "UPDATE",
        "The user lives in Berlin",
        "Lives in Potsdam",
    )
    last = methods["history after"][-1]
    assert (last["event"], last["is_deleted"], last["new_memory"]) == ("DELETE", True, None)
    assert methods["delete"] == {"message": "Memory deleted successfully!"}


def test_users_and_deleting(methods):
    users = methods["users"]
    assert [(each["type"], each["name"], each["total_memories"]) for each in users["results"]] == [
        ("user", "bob", 1),
        ("user", "lin", 4),
        ("agent", "planner", 1),
    ]
    assert methods["after delete_all"]["count"] == methods["after delete_all options"]["count"] == 0
    assert "deleted" in methods["delete_all"]["message"]
    assert methods["delete_users"] == {"message": "Entity deleted successfully."}
    assert "reset" in methods["reset"]["message"]
    assert methods["users after reset"]["results"] == []


def test_batches(methods):
    count, answered = methods["batch_update"]
    assert answered == {"message": f"Successfully updated {count} memories"}
    assert sorted(texts(methods["after batch_update"])) == [f"number {n}" for n in range(count)]
    assert methods["batch_delete"] == {"message": "Successfully deleted 1 memories"}
    assert methods["after batch_delete"]["count"] == count - 1


def test_errors_are_those_of_the_client(told):
    errors = told["errors"]
    assert errors["wrong key"][0] == "ValueError"
    assert "API key" in errors["wrong key"][1]
    assert errors["unknown id"][0::2] == ["MemoryNotFoundError", "not_found"]
    for asked in ("nobody", "nobody added"):
        assert errors[asked][0::2] == ["ValidationError", "invalid"]
        assert "user_id: whose memory? give user_id, agent_id or run_id" in errors[asked][1]
    hosted = {*errors} - {"wrong key", "unknown id", "nobody", "nobody added"}
    for asked in hosted:
        assert errors[asked][2] == "unsupported", asked
        assert "not supported by this server" in errors[asked][1]
    assert "custom_instructions" in errors["instructions"][1]
    assert "filters.OR" in errors["or"][1]
