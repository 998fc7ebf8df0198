"""Whose a Chinese clause is: what is said of others, of animals, things and places never becomes the user's."""

from datetime import UTC, datetime

import pytest
import whose

from octavo.layers.rules.extractor import decide
from octavo.layers.values import Decision, Known

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)
#: Statements of which something false is still kept, or something that should be is not.
OPEN = {
    "豆包要绝育了，医生约的下周二",
    "鱼塘翻塘了，死了三千斤鲫鱼，人都麻了",
    "村口的小卖部改成快递站了，老板姓万",
}


def found(text: str, known: list[Known] | None = None) -> list[Decision]:
    return decide(text, known or [], owner_type="user", at=NOW)


def contents(text: str) -> list[str]:
    return [one.content for one in found(text)]


@pytest.mark.parametrize(("text", "wanted", "may"), whose.STATEMENTS, ids=lambda _: "")
def test_nobody_elses_is_the_users(text: str, wanted: tuple[str, ...], may: tuple[str, ...]) -> None:
    kept = [one.removeprefix("用户：") for one in contents(text)]  # 用户：焙茶房失火 is as it was said
    right = all(one.startswith(wanted + may) for one in kept)
    right = right and all(any(one.startswith(start) for one in kept) for start in wanted)
    assert right == (text not in OPEN), kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("离婚三年了，他从没来看过孩子", ["用户离婚三年了（他从没来看过孩子）"]),
        ("我搬了新家，叫望江苑", ["用户搬了新家（叫望江苑）"]),
        ("快递站道歉了，还赔了十块", ["用户：快递站道歉了（还赔了十块）"]),
        ("来了个跑长途的，嗓门真大", []),
        ("茶房失火，烧了三百斤", ["用户：茶房失火（烧了三百斤）"]),
    ],
)
def test_what_goes_on_without_a_subject_goes_on_about_the_same(text: str, kept: list[str]) -> None:
    assert contents(text) == kept


def test_how_a_finger_was_mended_ends_no_job() -> None:
    (job,) = found("我是木工")
    known = [Known(id="job", layer=job.layer, category=job.category, content=job.content)]
    for text in ("右手小指去年冲床压断了，缝上去的", "师傅骂我，活没干好", "我转专业了，转到会计"):
        assert all(one.action == "insert" for one in found(text, known)), text


def test_what_is_kept_as_it_was_said_is_known_again_and_may_be_over() -> None:
    (told,) = found("电动车骑了三年")
    assert told.content == "用户：电动车骑了三年"
    known = [Known(id="bike", layer=told.layer, category=told.category, content=told.content)]
    assert [one.action for one in found("电动车骑了三年", known)] == ["ignore"]
    (stolen,) = found("电动车被偷了", known)
    assert (stolen.action, stolen.content) == ("update", "用户：电动车被偷了（此前：电动车骑了三年）")
