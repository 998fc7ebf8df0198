"""Traditional Chinese: read as simplified characters, kept as it was written."""

from datetime import UTC, datetime

import pytest

from octavo import Memory
from octavo.kernel.terms.terms import restore, simplify, terms
from octavo.kernel.terms.topics import topics
from octavo.layers.rules.extractor import decide
from octavo.search.question import Question, only_asks

NOW = datetime(2026, 3, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "simplified"),
    [
        ("我養著兩隻貓", "我养着两只猫"),
        ("頭髮發白", "头发发白"),
        ("著名作家的著作", "著名作家的著作"),  # nothing in it is traditional
        ("這位著名作家", "这位著名作家"),
        ("乾隆年间的茶杯", "乾隆年间的茶杯"),
        ("衣服還沒乾", "衣服还没干"),
        ("表姊住臺北", "表姐住台北"),
        ("I live in Taipei 台北", "I live in Taipei 台北"),
        ("", ""),
    ],
)
def test_each_character_is_simplified_in_its_place(written: str, simplified: str) -> None:
    assert simplify(written) == simplified
    assert len(simplify(written)) == len(written)


def test_either_writing_has_the_same_terms_and_topics() -> None:
    written, simplified = "我養了兩隻貓，還有機車", "我养了两只猫，还有机车"
    assert terms(written) == terms(simplified)
    assert topics(written, terms(written)) == topics(simplified, terms(simplified)) != []


def test_what_was_made_of_a_text_gets_its_writing_back() -> None:
    told = "我頭髮白了，發現要染髮"
    assert restore("用户头发白了", simplify(told), told) == "用户頭髮白了"
    assert restore("用户发现要染发（新增）", simplify(told), told) == "用户發現要染髮（新增）"
    assert restore("用户户口在高雄", simplify("我戶口在高雄"), "我戶口在高雄") == "用户戶口在高雄"


@pytest.mark.parametrize(
    ("told", "category", "content"),
    [
        ("我是個護理師", "career", "用户是個護理師"),
        ("我養了兩隻貓，叫阿福和豆花", "preference", "用户養了兩隻貓（叫阿福和豆花）"),
        ("我會說閩南語", "ability", "用户會說閩南語"),
        ("我媽媽是老師", "preference", "用户的媽媽是老師"),
    ],
)
def test_facts_are_read_and_kept_as_written(told: str, category: str, content: str) -> None:
    (found,) = decide(told, [], owner_type="user", at=NOW)
    assert (found.category, found.content, found.quote) == (category, content, told)


def test_a_time_is_kept_as_written() -> None:
    (found,) = decide("下週三要去看牙醫", [], owner_type="user", at=NOW)
    assert found.time_text == "下週三"
    assert found.happened_at is not None
    assert found.happened_at.date().isoformat() == "2026-03-18"


def test_questions_are_read_in_either_writing() -> None:
    written, simplified = Question.of("使用者對什麼過敏？", NOW), Question.of("用户对什么过敏？", NOW)
    assert written.terms == simplified.terms
    assert written.text == "使用者對什麼過敏？"
    assert only_asks("最近有什麼好看的電影嗎")


def test_a_fact_told_again_in_the_other_writing_is_the_same() -> None:
    with Memory("memory://") as memory:
        memory.add("我對蝦子過敏", user_id="lin")
        assert "對蝦子過敏" in memory.search("我对什么过敏", user_id="lin")[0].text
        memory.add("我对虾子过敏", user_id="lin")
        assert [one.text for one in memory.get_all(user_id="lin")] == ["用户對蝦子過敏"]
        memory.add("我住在板橋", user_id="lin")
        memory.add("我现在住在新竹", user_id="lin")
        homes = [one.text for one in memory.get_all(user_id="lin") if "住" in one.text]
        assert homes == ["用户现在住在新竹"]
