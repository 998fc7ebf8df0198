"""What a user remembers is found again, on every store, in Chinese and in English."""

from datetime import UTC, datetime, timedelta

import pytest

from memories import NOON, Clock, Recall, ids, inside, keep, note, talk
from octavo import Scope

LIFE = {
    "painting": "I painted the kitchen yellow and hung new curtains",
    "bought": "We bought a second-hand piano from our neighbour",
    "taught": "My grandmother taught me how to bake rye bread",
    "dentist": "The dentist said Lena’s wisdom tooth has to come out",
    "colour": "Müller ordered a café crème in Zürich",
    "price": "The new fridge cost 1,299 euros and holds 3.5 cubic feet",
    "flight": "Flight LH2417 leaves gate B12 at 06:45",
    "birthday": "Tom turns forty on 7 May 2023, we should plan a party",
    "code": "parseConfigFile() in config_loader.py raises KeyError on empty input",
    "cplus": "The renderer is written in C++ and the tools in C#",
    "emoji": "Our team won the relay 🏆 what a race",
    "allergy": "我对花生过敏，海鲜没有问题",
    "contract": "下周去北京出差，请提醒我带上软件合同",
    "cat": "邻居家的猫又跑到我们院子里来了",
    "mixed": "用 Python 写的爬虫昨晚又崩溃了，日志在 server3 上",
    "concert": "2024年10月3日晚上和小雨一起看演唱会",
    "phone": "王医生的电话是13800138000",
    "japanese": "来週の会議は東京タワーの近くです",
    "russian": "Собака Маши любит гулять в парке",
}

QUESTIONS = {
    "who paints kitchens": "painting",
    "PAINTING THE KITCHEN": "painting",
    "Did we buy an instrument like a piano?": "bought",
    "what does grandma's sister teach about breads": "taught",
    "Lena's teeth": "dentist",
    "Lena’s tooth": "dentist",
    "cafe creme Zurich": "colour",
    "how much was it, 1299?": "price",
    "3.5": "price",
    "LH2417": "flight",
    "which gate, b12?": "flight",
    "2023-05-07": "birthday",
    "May 7th, 2023": "birthday",
    "2023年5月7日": "birthday",
    "parse_config_file": "code",
    "parseConfigFile": "code",
    "config loader": "code",
    "c++": "cplus",
    "C#": "cplus",
    "🏆": "emoji",
    "过敏": "allergy",
    "我能吃花生吗？": "allergy",
    "猫": "cat",
    "软件合同带了吗": "contract",
    "北京": "contract",
    "python爬虫": "mixed",
    "Python 崩溃": "mixed",
    "爬虫的 log 在 server3 吗": "mixed",
    "2024-10-03": "concert",
    "3 October 2024": "concert",
    "１３８００１３８０００": "phone",
    "東京タワー": "japanese",
    "собаки маши": "russian",
}


async def test_each_question_finds_its_record(store, home):
    """Stems, irregular verbs, apostrophes, accents, numbers, dates, identifiers, emoji, and Chinese by character and pair."""
    await keep(store, *(note(home, name, text) for name, text in LIFE.items()))
    recall = Recall(store)
    best = {question: ids(await recall.recall(question, home, 1)) for question in QUESTIONS}
    assert best == {question: [name] for question, name in QUESTIONS.items()}


async def test_the_hit_is_the_record(store, home):
    """A hit carries the record as it is kept, its collection and a score; without `explain` nothing else."""
    kept = note(home, "a", "red fox", kind="user", metadata={"k": 1}, marks=("m",), data={"n": [1]})
    await keep(store, kept)
    [hit] = await Recall(store).recall("fox", home)
    assert hit.collection == "messages"
    assert (hit.record.id, hit.record.text, hit.record.data) == ("a", "red fox", {"n": [1]})
    assert (hit.record.metadata, hit.record.marks) == ({"k": 1}, ("m",))
    assert (hit.terms, hit.signals) == ((), ())


async def test_records_without_text_are_found_by_their_data(store, home):
    """Where a record has no text, the values of its data are looked through."""
    await keep(store, note(home, "d", "", data={"title": "lighthouse keeper", "城市": "青岛"}))
    recall = Recall(store)
    assert ids(await recall.recall("lighthouses", home)) == ["d"]
    assert ids(await recall.recall("青岛", home)) == ["d"]
    assert await recall.recall("title", home) == []


async def test_nothing_shared_is_nothing_found(store, home):
    """A question that shares no term with anything kept has no hits, and memory probably has no answer."""
    await keep(store, note(home, "a", "red fox"))
    answer = await Recall(store).recall("quantum chromodynamics", home)
    assert answer == []
    assert answer.probably_absent
    assert await Recall(store).recall("fox", Scope(tenant="nobody")) == []


async def test_a_session_lifts_its_records(store, home):
    """Of records that say the same, the one in the session about the matter comes first, though it is the oldest."""
    camping = (
        "The tent leaks when it rains at the lake",
        "We pitched the tent beside the lake at night",
        "She booked it for Friday",
        "The campsite by the lake rents out a second tent",
    )
    await keep(
        store,
        # Hours apart, so that no line is another's neighbour.
        *talk(home, "camping", *camping, at=NOON - timedelta(days=3), apart=150),
        *talk(
            home, "work", "The invoice was late again", "She booked it for Monday", "The printer is broken"
        ),
        *talk(home, "food", "The soup needs salt", "She booked it for Sunday", "Noodles again tonight"),
    )
    hits = ids(await Recall(store).recall("When is the tent at the lake booked?", home))
    assert next(name for name in hits if name in {"camping-2", "work-1", "food-1"}) == "camping-2"


async def test_a_neighbour_of_the_answer_is_lifted(store, home):
    """In a conversation the reply stands next to the question, and shares some of its lead."""
    await keep(
        store,
        *talk(
            home, "s1", "Where did you put the spare garage key?", "The key is under the blue pot", "Thanks"
        ),
        *talk(home, "s2", "Which key is this sonata in?", "This key is B flat minor", "I see"),
        *talk(home, "s3", "The key to success is rest", "Sleep more", "Good idea"),
    )
    found = ids(await Recall(store).recall("spare garage key", home))
    assert found[:2] == ["s1-0", "s1-1"]


async def test_neighbours_are_those_of_the_same_hour(store, home):
    """What was said the day after in the same session is no reply."""
    late = NOON + timedelta(days=1)
    await keep(
        store,
        *talk(home, "s1", "Where is the spare garage key?", "This key is new"),
        note(inside(home, session="s2"), "s2-0", "Where is the spare garage key?", seq=1),
        note(inside(home, session="s2"), "s2-1", "This key is new", seq=2, created_at=late),
    )
    explained = await Recall(store).recall("spare garage key", home, explain=True)
    own = {hit.record.id: hit.signals[0].score for hit in explained}
    assert own["s1-1"] > own["s2-1"]


async def test_each_sentence_is_answered(store, home):
    """A question of several sentences gets an answer to each, though the longest shares most words."""
    others = [
        note(home, f"x{n}", f"The harbour tour number {n} passes the old lighthouse and the fish market")
        for n in range(12)
    ]
    await keep(
        store,
        note(home, "vet", "Biscuit got her rabies vaccination"),
        note(home, "tax", "税务局要求三月底之前提交报表"),
        *others,
    )
    asked = (
        "Does the harbour tour number three pass the old lighthouse and the fish market? "
        "When did Biscuit get the rabies shot? 报表什么时候提交？"
    )
    assert {"vet", "tax"} <= set(ids(await Recall(store).recall(asked, home, 6)))


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Where did we hike in June 2023?", "june"),
        ("Where did we hike in September 2024?", "september"),
        ("Where did we hike on 2024-09-14?", "september"),
        ("2023年6月我们去哪里 hike 了？", "june"),
    ],
)
async def test_a_named_time_prefers_its_records(store, home, question, best):
    """A question that names a day or a month prefers what was told then."""
    moments = {
        "june": (2023, 6, 11),
        "winter": (2024, 1, 20),
        "september": (2024, 9, 15),
        "now": (2025, 2, 2),
    }
    await keep(
        store,
        *(
            note(home, name, "We hiked along the river", created_at=datetime(*day, 9, tzinfo=UTC))
            for name, day in moments.items()
        ),
    )
    assert ids(await Recall(store).recall(question, home, 1)) == [best]


async def test_a_named_time_outweighs_a_hair(store, home):
    """Of two records that fit alike, but for a word's length, the one of the time named comes first."""
    await keep(
        store,
        *talk(home, "june", "They are in the blue box in the attic", at=datetime(2025, 6, 14, tzinfo=UTC)),
        *talk(home, "autumn", "Boris brought dumplings in a blue box", at=datetime(2025, 11, 20, tzinfo=UTC)),
    )
    recall = Recall(store)
    assert ids(await recall.recall("Which box did we talk about in June 2025?", home))[0] == "june-0"
    assert ids(await recall.recall("Which box did we talk about in November 2025?", home))[0] == "autumn-0"


async def test_times_are_counted_from_the_clock(store, home):
    """Yesterday and 上周 are those of the moment of asking, by the clock that recall was given."""
    days = {"monday": 2, "thursday": 5, "friday": 6}
    await keep(
        store,
        *(
            note(home, name, "We cooked soup 煮汤", created_at=datetime(2026, 3, day, 19, tzinfo=UTC))
            for name, day in days.items()
        ),
    )
    recall = Recall(store, Clock(datetime(2026, 3, 7, 12, tzinfo=UTC)))
    assert ids(await recall.recall("Did we cook soup yesterday?", home, 1)) == ["friday"]
    assert ids(await recall.recall("前天煮汤了吗？", home, 1)) == ["thursday"]
    assert ids(await recall.recall("five days ago, soup", home, 1)) == ["monday"]


async def test_the_newer_of_two_alike(store, home):
    """Of records that say the same, the newest comes first; of the same moment, the one written last."""
    await keep(
        store,
        note(home, "old", "blue bicycle", minutes=-5000),
        note(home, "new", "blue bicycle", minutes=5),
        note(home, "first", "blue bicycle", seq=1),
        note(home, "second", "blue bicycle", seq=2),
    )
    assert ids(await Recall(store).recall("blue bicycle", home)) == ["new", "second", "first", "old"]


async def test_importance_lifts(store, home):
    """`importance` in the metadata lifts a record over its likes; what is no number changes nothing."""
    given = {"high": 0.9, "ten": 10, "low": 0.1, "word": "very", "yes": True, "none": None, "minus": -3}
    await keep(
        store,
        *(
            note(home, name, "door code", minutes=-n, metadata={"importance": value})
            for n, (name, value) in enumerate(given.items())
        ),
        note(home, "plain", "door code", minutes=1),
    )
    found = ids(await Recall(store).recall("door code", home))
    assert set(found[:2]) == {"high", "ten"}
    assert set(found[-2:]) == {"low", "minus"}
    assert found[2] == "plain"


async def test_sessions_that_speak_about_it(store, home):
    """`sessions` answers whole conversations, best first, each with at most three of its records."""
    lisa = inside(home, user="lisa", agent="helper")
    await keep(
        store,
        *talk(
            lisa, "garden", "Tomatoes need sun", "Water tomatoes daily", "My tomatoes are red", "Tomatoes!"
        ),
        *talk(lisa, "market", "Apples, pears", "and tomatoes perhaps", "nothing else"),
        *talk(lisa, "music", "The choir sings on Sunday"),
        note(lisa, "loose", "tomatoes outside of any session"),
    )
    first, second = await Recall(store).sessions("tomatoes", home)
    assert (first.user, first.agent, first.session) == ("lisa", "helper", "garden")
    assert second.session == "market"
    assert first.score > second.score
    assert len(first.hits) == 3
    assert ids(second.hits) == ["market-1"]
    assert [found.session for found in await Recall(store).sessions("tomatoes", home, 1)] == ["garden"]
    assert await Recall(store).sessions("tomatoes", home, 0) == []
    assert await Recall(store).sessions("xylophone", home) == []


async def test_the_limit_counts(store, home):
    """As many hits as asked for, the same ones in the same order whatever the limit."""
    await keep(store, *(note(home, f"n{n}", "tea " * (n % 7 + 1), minutes=n) for n in range(60)))
    recall = Recall(store)
    whole = ids(await recall.recall("tea", home, 1000))
    assert len(whole) == 60
    for limit in (0, 1, 2, 10, 59, 60, 61):
        assert ids(await recall.recall("tea", home, limit)) == whole[:limit]


async def test_characters_that_only_hold_a_sentence_together_say_little(store, home):
    """的 and 是 stand in every other sentence: what a question is about comes before a text that shares only these."""
    await keep(
        store,
        note(home, "hike", "周末去爬了黄山"),
        note(home, "door", "阳台上的花是红的，门是绿的"),
        note(home, "work", "今天开会了"),
        note(home, "food", "晚上吃面"),
    )
    assert ids(await Recall(store).recall("我去的山是哪座？", home))[0] == "hike"


async def test_a_text_that_only_asks_comes_after_one_that_tells(store, home):
    await keep(
        store,
        note(home, "asks", "What are good lunchbox ideas for a picky kid in the lunchbox season?"),
        note(home, "tells", "Our kid is seven and a picky eater"),
    )
    assert ids(await Recall(store).recall("How old is the picky kid?", home))[0] == "tells"


async def test_what_is_so_now_is_what_was_told_last(store, home):
    others = [note(home, f"other-{n}", f"Bus {n} was late, the driver said", n) for n in range(8)]
    before = note(home, "before", "I drive a burgundy truck", -60)
    since = note(home, "since", "Sold it, and now I drive a green van that Ivo had in his barn", 60)
    await keep(store, before, *others, since)
    recall = Recall(store)
    assert ids(await recall.recall("What do I drive?", home))[0] == "before"
    assert ids(await recall.recall("What do I drive these days?", home))[0] == "since"
