"""What files of questions become."""

from datetime import UTC, datetime

import msgspec
import pytest

from octavo.errors import ConfigError
from octavo.measure import load
from octavo.measure.formats import locomo_time, memdaily_time
from questions import locomo, memdaily, written


def test_locomo(tmp_path):
    """A conversation is a user, its turns are messages of a session, in an order that is real."""
    data = load(written(tmp_path / "a.json", locomo()))
    assert (data.format, data.sessions, data.messages, data.questions) == ("locomo", True, 7, 5)
    baker, glider = data.talks
    assert baker.user == "baker"
    assert [(said.id, said.scope.session) for said in baker.said] == [
        ("D1:1", "session_1"), ("D1:2", "session_1"), ("D1:3", "session_1"), ("D2:1", "session_2"), ("D2:2", "session_2"),
    ]  # fmt: skip
    assert baker.said[2].text == "Ines: Mostly rye bread, and saffron buns on Fridays."
    assert baker.said[4].text == "Ines: Look at my new oven. a photo of a copper oven"
    assert baker.said[4].kind == "Ines"
    assert [said.created_at for said in baker.said[:3]] == [
        datetime(2024, 3, 3, 0, 5, second, tzinfo=UTC) for second in range(3)
    ]
    assert baker.said[3].created_at == datetime(2024, 4, 4, 12, 30, tzinfo=UTC)
    assert [said.scope.session for said in glider.said] == ["session_1", "session_10"]


def test_locomo_questions_need_evidence_that_exists(tmp_path):
    """What names no turn is counted and left out: in part, or with the whole question."""
    data = load(written(tmp_path / "a.json", locomo()))
    violin, photo, both = data.talks[0].cases[1:]
    assert violin.gold == ("D2:1",)
    assert violin.category == "4 single-hop"
    assert photo.gold == ("D2:2",)
    assert both.sessions == ("session_1", "session_2")
    assert data.skipped_questions == 2
    assert data.skipped_evidence == 2
    assert data.unread_times == 1


@pytest.mark.parametrize(
    ("spelled", "at"),
    [
        ("1:56 pm on 8 May, 2023", (2023, 5, 8, 13, 56)),
        ("12:09 am on 13 September, 2023", (2023, 9, 13, 0, 9)),
        ("12:09 PM on 1 Sept 2023", (2023, 9, 1, 12, 9)),
    ],
)
def test_times_of_locomo(spelled, at):
    assert locomo_time(spelled) == datetime(*at, tzinfo=UTC)


@pytest.mark.parametrize(
    "spelled", ["", "8 May", "1:56 pm on 31 June, 2023", "1:56 pm on 8 Floreal, 2023", None, 5]
)
def test_other_spellings_are_no_times(spelled):
    assert locomo_time(spelled) is None
    assert memdaily_time(spelled) is None


def test_memdaily(tmp_path):
    """A trajectory is a user without sessions; its times are read, and gold ids count once."""
    data = load(written(tmp_path / "a.json", memdaily()))
    assert (data.format, data.sessions, data.messages, data.questions) == ("memdaily", False, 5, 2)
    roles, items = data.talks
    assert (roles.user, items.user) == ("simple_roles/7", "noisy_items/7")
    by_id = {said.id: said for said in roles.said}
    assert by_id["2"].created_at == datetime(2024, 4, 3, 17, 34, tzinfo=UTC)
    assert {said.scope.session for said in roles.said} == {None}
    assert roles.cases[0].gold == ("0", "1")
    assert (data.skipped_questions, data.skipped_evidence, data.unread_times) == (0, 1, 1)
    assert {said.id: said for said in items.said}["1"].created_at == datetime(2024, 4, 1, tzinfo=UTC)


def test_memdaily_is_written_in_an_order_drawn_from_the_seed(tmp_path):
    """The same seed gives the same order, another one another, and questions stay the same."""
    trajectory = memdaily()[0]
    trajectory["message_list"] = [
        {"mid": n, "message": f"消息{n}", "time": "2024年04月01日 周一 08:01"} for n in range(30)
    ]
    path = written(tmp_path / "a.json", [trajectory])

    def order(seed):
        return [int(said.id) for said in load(path, seed=seed).talks[0].said]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(30)) != order(1)


def test_memdaily_by_type(tmp_path):
    """Trajectories may also stand in objects, by type and topic, as they are published."""
    bare = [{k: v for k, v in each.items() if k != "type"} for each in memdaily()]
    data = load(written(tmp_path / "a.json", {"simple": {"roles": bare[:1]}, "noisy": {"items": bare[1:]}}))
    assert [talk.user for talk in data.talks] == ["simple/roles/7", "noisy/items/7"]
    assert data.talks[1].cases[0].category == "noisy/items"


def test_trajectories_of_one_name_stay_apart(tmp_path):
    data = load(written(tmp_path / "a.json", memdaily()[:1] * 2))
    assert len({talk.user for talk in data.talks}) == 2


def test_some_questions(tmp_path):
    """Drawn from all, the same ones for the same seed, in the file's order."""
    data = load(written(tmp_path / "a.json", locomo()))
    names = [case.name for talk in data.talks for case in talk.cases]
    some = data.some(3, seed=5)
    drawn = [case.name for talk in some.talks for case in talk.cases]
    assert len(drawn) == some.questions == 3
    assert drawn == [name for name in names if name in drawn]
    assert some == data.some(3, seed=5)
    assert any(data.some(3, seed=seed) != some for seed in range(10))
    assert data.some(99, seed=5) is data


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "holds neither LoCoMo conversations .* nor MemDaily trajectories"),
        ('{"a": [1, 2]}', "holds neither"),
        ('[{"conversation": {}, "qa": []}]', "has no question whose evidence exists"),
        ('[{"conversation": [], "qa": []}]', r"conversation 1: Expected `object`, got `array` - at `\$\.conversation`"),
        ('[{"conversation": {"session_1": [{"text": "hm"}]}, "qa": []}]', r"session_1: Object missing required field `dia_id` - at `\$\[0\]`"),
        ('[{"message_list": [{"mid": 0, "message": 5}], "question_list": []}]', r"trajectory 1: Expected `str`, got `int` - at `\$\.message_list\[0\]\.message`"),
        ('[{"message_list": [{"message": "x"}], "question_list": []}]', "missing required field `mid`"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=sentence) as error:
        load(path)
    assert "a.json" in str(error.value)


def test_a_format_named_wrongly_is_said(tmp_path):
    path = written(tmp_path / "a.json", locomo())
    assert load(path, "locomo") == load(path)
    with pytest.raises(ConfigError, match="not in the format memdaily"):
        load(path, "memdaily")
    with pytest.raises(ConfigError, match="unknown format 'lokomo'; known: locomo, memdaily"):
        load(path, "lokomo")


def test_ids_that_are_there_twice_are_refused(tmp_path):
    """Two messages of one id would be one record, and the figures wrong."""
    conversation = locomo()
    conversation[0]["conversation"]["session_2"][0]["dia_id"] = "D1:1"
    with pytest.raises(ConfigError, match="'D1:1' is there twice"):
        load(written(tmp_path / "a.json", conversation))
    trajectory = memdaily()
    trajectory[0]["message_list"][0]["mid"] = 1
    with pytest.raises(ConfigError, match="same 'mid'"):
        load(written(tmp_path / "a.json", trajectory))


def test_records_of_a_talk(tmp_path):
    """They are the user's, in the tenant asked for; a message without a session is in none."""
    [first, *_] = load(written(tmp_path / "a.json", memdaily())).talks[0].records("t")
    assert msgspec.to_builtins(first.scope) == {"tenant": "t", "user": "simple_roles/7"}
    [first, *_] = load(written(tmp_path / "b.json", locomo())).talks[0].records("t")
    assert (first.collection, first.kind, first.scope.session) == ("messages", "Ines", "session_1")
