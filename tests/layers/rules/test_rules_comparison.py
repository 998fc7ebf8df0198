"""What is known already is ignored, what changed supersedes it, and anything else is new."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from octavo.layers.rules import RuleExtractor
from octavo.layers.values import Decision, Known, OwnerType

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)  # a Thursday

# (what was told first, what is told then, what happens to each fact of it)
PAIRS: tuple[tuple[str, str, str], ...] = (
    # the same fact, in other words
    ("我是一名软件工程师", "我是软件工程师", "ignore"),
    ("我是一名软件工程师", "我是个程序员", "ignore"),
    ("用户是软件工程师", "我现在是一名软件工程师", "ignore"),
    ("我的职业是律师", "我是律师", "ignore"),
    ("我喜欢喝咖啡", "我很喜欢咖啡", "ignore"),
    ("我毕业于北京大学", "我是北大毕业的", "ignore"),
    ("我住在上海", "我家在上海", "ignore"),
    ("我二十八岁", "我今年28岁", "ignore"),
    ("我会弹钢琴和吉他", "我会弹吉他", "ignore"),
    ("我不吃香菜", "我不喜欢吃香菜", "ignore"),
    ("以后请都用中文回答我", "以后都用中文回答我", "ignore"),
    ("我性格内向", "我是个内向的人", "ignore"),
    ("我住在上海浦东", "我住在上海", "ignore"),
    ("I'm a software engineer", "I work as a software engineer", "ignore"),
    ("I'm a software engineer", "I am a software developer", "ignore"),
    ("I love coffee", "I really like coffee", "ignore"),
    ("I live in Berlin", "I'm based in Berlin", "ignore"),
    ("I'm vegan", "I am a vegan", "ignore"),
    ("I'm 34", "I'm 34 years old", "ignore"),
    ("I speak French and German", "I'm fluent in German", "ignore"),
    ("I'm an introvert", "I'm quite introverted", "ignore"),
    ("I work at Google as a product manager", "I'm a product manager", "ignore"),
    ("Please always answer in English", "Always answer in English", "ignore"),
    ("I'm a senior software engineer", "I'm a software engineer", "ignore"),
    ("我是高级软件工程师", "I'm a software engineer", "ignore"),
    # one value that changed
    ("我是软件工程师", "我现在是高级软件工程师", "update"),
    ("我是软件工程师", "我转行了，现在是产品经理", "insert update"),
    ("我住在上海", "我现在住在杭州", "update"),
    ("我在腾讯工作", "我在字节跳动上班", "update"),
    ("我今年28岁", "我今年29岁", "update"),
    ("我最喜欢的颜色是蓝色", "我最喜欢的颜色是绿色", "update"),
    ("我是大三学生", "我是大四学生", "update"),
    ("我毕业于清华大学", "我毕业于清华大学计算机系", "update"),
    ("I'm a software engineer", "I'm a senior software engineer now", "update"),
    ("I work at Google", "I work at Meta", "update"),
    ("I live in Berlin", "I live in Oslo now", "update"),
    ("I'm 34 years old", "I'm 35 years old", "update"),
    ("My favorite color is green", "My favorite color is red", "update"),
    ("My name is Priya", "My name is Priya Shah", "update"),
    # denied
    ("我喜欢咖啡", "我不喜欢咖啡", "update"),
    ("我不会游泳", "我会游泳了", "update"),
    ("我性格内向", "我性格外向", "update"),
    ("我对花生过敏", "我对花生不过敏", "update"),
    ("I like coffee", "I don't like coffee", "update"),
    ("I don't eat meat", "I eat meat", "update"),
    ("I can't swim", "I can swim", "update"),
    ("I love cilantro", "I hate cilantro", "update"),
    ("I'm an introvert", "I'm an extrovert", "update"),
    ("我是老师", "我已经不是老师了", "update"),
    ("我住在北京", "我不住北京了", "update"),
    ("我不住北京了", "我住在成都", "update"),
    ("我在腾讯工作", "我不在腾讯工作了", "update"),
    ("我有两个孩子", "我没有孩子", "update"),
    ("我单身", "我结婚了", "insert update"),
    ("I work at Google", "I no longer work at Google", "update"),
    ("I work at Google", "I never worked at Google", "update"),
    ("I'm a nurse", "I'm not a nurse anymore", "update"),
    ("I'm not a nurse anymore", "I'm a teacher", "update"),
    ("I live in Paris", "I don't live in Paris anymore", "update"),
    ("I have two kids", "I don't have kids", "update"),
    ("I'm single", "I got married last week", "insert update"),
    ("I'm married", "I'm divorced", "update"),
    ("我喜欢咖啡", "我不再喜欢咖啡了", "update"),
    ("我不再喜欢咖啡了", "我喜欢咖啡", "update"),
    ("我会弹钢琴", "我不再会弹钢琴了", "update"),
    ("我不会开车", "我终于学会开车了", "update"),
    ("我每天早上跑步", "我不再每天早上跑步了", "update"),
    ("我喜欢跑步", "我不再每天跑步", "insert"),
    ("I run every morning", "I no longer run every morning", "update"),
    ("I don't run every morning", "I run every morning", "update"),
    ("I get up at six", "I no longer get up at six", "update"),
    ("我开朗外向", "我内向安静", "update"),
    ("我性格开朗外向", "我性格内向", "update"),
    # denied, but of something else
    ("我是老师", "我不是医生", "insert"),
    ("I live in Berlin", "I don't live in Paris", "insert"),
    ("I work at Google", "I don't work at Meta", "insert"),
    ("我以前喜欢吃辣", "我喜欢吃辣", "insert"),
    # the same in other words, or in the other language
    ("我生日是12月3日", "我生日是十二月三号", "ignore"),
    ("I live in Berlin", "I live in Berlin, not Munich", "ignore"),
    ("我住在北京朝阳区", "I live in Beijing", "ignore"),
    ("I work in Boston", "I work with Sarah", "insert"),
    ("I'm from Ohio", "I was born in 1990", "insert"),
    # others of many, and other things altogether
    ("我喜欢咖啡", "我喜欢茶", "insert"),
    ("我会Python", "我会Go", "insert"),
    ("我毕业于北京大学", "我毕业于清华大学", "insert"),
    ("我是软件工程师", "我喜欢软件工程", "insert"),
    ("我在深圳工作", "我在腾讯工作", "insert"),
    ("我以前是老师", "我是程序员", "insert"),
    ("我本科读的是物理", "我硕士学的是计算机", "insert"),
    ("我叫李明", "我的英文名是Tom", "insert"),
    ("我想去冰岛", "我不喜欢冰岛", "insert"),
    ("I studied history at Leeds", "I studied law at Oxford", "insert"),
    ("I like coffee", "I like tea", "insert"),
    ("I speak French", "I speak Spanish", "insert"),
    ("I'm a nurse", "I used to be a teacher", "insert"),
    ("I work in Boston", "I work at Meta", "insert"),
    # somebody else: the owner's own people, who never change what is known of the owner
    ("我是医生", "我妈妈是老师", "insert"),
    ("我住在上海", "我同事住在北京", "insert"),
    ("I'm a doctor", "My mother is a teacher", "insert"),
    ("I like coffee", "My boss doesn't like coffee", "insert"),
    ("My wife Sarah is a teacher", "My wife Sarah is a nurse", "update"),
    ("My wife Sarah is a teacher", "My sister is a nurse", "insert"),
    ("我老婆是老师", "我老婆现在是护士", "update"),
    ("我家猫叫芝麻", "我叫王芳", "insert"),
)


async def told(*texts: str, owner_type: OwnerType = "user") -> list[Decision]:
    """What is decided of the last text when the others were told before."""
    known: list[Known] = []
    found: list[Decision] = []
    for text in texts:
        found = await RuleExtractor().decide(text, known, owner_type=owner_type, at=NOW)
        for one in found:
            kept = {memory.id: memory for memory in known}
            if one.action == "insert":
                kept[f"m{len(kept)}"] = remembered(f"m{len(kept)}", one)
            elif one.action == "update":
                assert one.target is not None
                kept[one.target] = remembered(one.target, one)
            known = list(kept.values())
    return found


def remembered(name: str, one: Decision) -> Known:
    return Known(
        id=name, layer=one.layer, category=one.category, content=one.content, happened_at=one.happened_at
    )


@pytest.mark.parametrize(("before", "after", "actions"), PAIRS)
async def test_a_fact_is_the_same_or_changes_or_is_new(before: str, after: str, actions: str) -> None:
    found = await told(before, after)
    assert " ".join(one.action for one in found) == actions, found


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= 40


async def test_two_facts_of_one_memory_change() -> None:
    """What the text changes of a memory is not kept beside it; what it says nothing of is."""
    known = [Known(id="m", layer="profile", category="career", content="用户住在北京，是老师，喜欢茶")]
    found = await RuleExtractor().decide("我住在成都，是医生", known, owner_type="user", at=NOW)
    assert [(one.action, one.target, one.content) for one in found] == [
        ("update", "m", "用户住在成都，用户喜欢茶"),
        ("insert", None, "用户是医生"),
    ]


async def test_the_documented_sentence() -> None:
    """A career, an education and a meeting; again, nothing new; and the new title takes the old one's place."""
    said = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"
    first = await told(said)
    assert [(one.action, one.layer, one.category) for one in first] == [
        ("insert", "profile", "career"),
        ("insert", "profile", "education"),
        ("insert", "event", "meeting"),
    ]
    assert [one.content for one in first] == [
        "用户是一名软件工程师",
        "用户毕业于北京大学",
        "用户下午参加了技术分享会",
    ]
    assert (first[2].happened_at, first[2].time_text) == (NOW.replace(hour=15, minute=0), "下午")
    assert [one.action for one in await told(said, said)] == ["ignore"] * 3
    (title,) = await told(said, said, "他现在是高级软件工程师")
    assert (title.action, title.category, title.target) == ("update", "career", "m0")
    assert "用户是一名软件工程师" in title.reason


async def test_a_happening_is_the_same_only_on_the_same_day() -> None:
    for said in ("我参加了技术分享会", "I attended a workshop on vector databases"):
        day = {"我": ("今天", "昨天"), "I": (" today", " yesterday")}[said[0]]
        today, yesterday = ((said[0] + word + said[1:]) if said[0] == "我" else said + word for word in day)
        assert [one.action for one in await told(today, today)] == ["ignore"]
        assert [one.action for one in await told(today, yesterday)] == ["insert"]
        assert [one.action for one in await told(today, said)] == ["ignore"], "told again, without the day"


async def test_the_same_day_is_that_of_the_teller() -> None:
    """23:30 in UTC is the next morning in Shanghai: a stored time is compared in the zone of the new text."""
    stored = datetime(2026, 3, 12, 23, 30, tzinfo=UTC)
    known = [
        Known(id="m", layer="event", category="action", content="用户早上提交了代码", happened_at=stored)
    ]
    shanghai = datetime(2026, 3, 13, 9, 0, tzinfo=timezone(timedelta(hours=8)))
    (there,) = await RuleExtractor().decide("我今天提交了代码", known, owner_type="user", at=shanghai)
    (here,) = await RuleExtractor().decide(
        "我今天提交了代码", known, owner_type="user", at=stored + timedelta(days=1)
    )
    assert (there.action, here.action) == ("ignore", "insert")


async def test_a_happening_denied_supersedes_it() -> None:
    assert [one.action for one in await told("我昨天参加了公司年会", "我昨天没参加公司年会")] == ["update"]


async def test_numbers_make_another_happening() -> None:
    assert [one.action for one in await told("我今天早上跑了5公里", "我今天早上跑了10公里")] == ["insert"]


async def test_both_layers_are_compared() -> None:
    """A fact that somebody put into the event layer is known, and stays in its layer when it changes."""
    known = [Known(id="e", layer="event", category="other", content="用户是一名软件工程师，毕业于北京大学")]
    (same,) = await RuleExtractor().decide("我是软件工程师", known, owner_type="user", at=NOW)
    (changed,) = await RuleExtractor().decide("我现在是高级软件工程师", known, owner_type="user", at=NOW)
    assert (same.action, same.target, same.layer, same.category) == ("ignore", "e", "event", "other")
    assert (changed.action, changed.target, changed.layer, changed.category) == (
        "update",
        "e",
        "event",
        "other",
    )
    assert "毕业于北京大学" in changed.content, "what did not change is kept"


async def test_who_moved_lives_elsewhere() -> None:
    moved, home = await told("我住在上海", "我们上个月搬到了杭州")
    assert (moved.action, moved.category) == ("insert", "event")
    assert (home.action, home.target, home.content) == ("update", "m0", "用户住在杭州")
    moved, home = await told("I live in Berlin", "We moved to Lisbon last month")
    assert (home.action, home.target, home.content) == ("update", "m0", "The user lives in Lisbon")
    assert len(await told("我们上个月搬到了杭州")) == 1, "no home was known: nothing to change"


async def test_who_resigned_has_the_old_job_no_more() -> None:
    left, job = await told("I work at the library as an archivist", "I resigned from the library on Monday")
    assert (left.action, left.layer) == ("insert", "event")
    assert (job.action, job.target, job.content) == (
        "update",
        "m0",
        "The user no longer works at the library",
    )
    left, job = await told("I'm a welder", "I quit my job yesterday")
    assert (job.action, job.target) == ("update", "m0")
    left, job = await told("我在图书馆工作", "周一我从图书馆辞职了")
    assert (job.action, job.target, job.content) == ("update", "m0", "用户不再在图书馆工作")
    assert len(await told("I work at Bosch", "I left the library on Monday")) == 1, "another job"


async def test_moving_house_loses_no_cats() -> None:
    _, home = await told("I live in Berlin with my two cats", "We moved to Lisbon last month")
    assert (home.action, home.target, home.content) == ("update", "m0", "The user lives in Lisbon")


async def test_what_a_text_repeats_is_one_fact() -> None:
    found = await told("我喜欢咖啡。我真的很喜欢咖啡！我喜欢喝咖啡。")
    assert [one.content for one in found] == ["用户喜欢咖啡"]
    found = await told("I'm a nurse. I really am a nurse. I work as a nurse.")
    assert len(found) == 1


async def test_of_two_values_in_one_text_the_last_counts() -> None:
    found = await told("我住在上海。更正一下，我住在苏州。")
    assert [one.content for one in found] == ["用户住在苏州"]


async def test_one_text_supersedes_a_memory_once() -> None:
    known = [Known(id="m", layer="profile", category="preference", content="用户喜欢咖啡和茶")]
    found = await RuleExtractor().decide("我不喜欢咖啡。我也不喜欢茶。", known, owner_type="user", at=NOW)
    assert [one.action for one in found].count("update") == 1


async def test_an_agent_is_the_subject_of_its_own_memory() -> None:
    found = await told("我擅长写SQL。用户喜欢咖啡。", owner_type="agent")
    assert [(one.category, one.content) for one in found] == [("ability", "智能体擅长写SQL")]
    found = await told("I prefer short answers. The user lives in Oslo.", owner_type="agent")
    assert [(one.category, one.content) for one in found] == [
        ("preference", "The agent prefers short answers")
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。",
            ["用户今天告诉智能体他是一名软件工程师（毕业于北京大学, 他下午参加了技术分享会）"],
        ),
        ("用户今天决定使用新的技术栈，我很开心", ["智能体很开心"]),
        ("The user is tall and graduated from MIT. I like tea.", ["The agent likes tea"]),
    ],
)
async def test_what_the_user_is_the_agent_is_not(text: str, kept: list[str]) -> None:
    """Its memory said that the agent had graduated, where the sentence had begun with the user."""
    assert [one.content for one in await told(text, owner_type="agent")] == kept


async def test_reasons_name_what_was_compared_in_the_language_of_the_text() -> None:
    (zh,) = await told("我喜欢咖啡", "我不喜欢咖啡")
    assert "用户喜欢咖啡" in zh.reason
    assert zh.reason.endswith("。")
    (en,) = await told("I like coffee", "I don't like coffee")
    assert "The user likes coffee" in en.reason
    assert en.reason.endswith(".")
    (new,) = await told("I like tea")
    assert "The user likes tea" in new.reason
