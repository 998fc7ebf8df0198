"""What is said to be absent: a definite topic that no record is about, and not what may have been said in any words."""

import pytest

from octavo import AsyncMemory

SAID = (
    "Every Sunday I telephone my brother Alastair in Nova Scotia.",
    "We got a pup off my uncle and named her Biscuit.",
    "I sing bass in the parish choir.",
    "我妈开美甲店的，店名叫指尖森林",
    "家里有条老金毛，叫阿福",
    "我每周三晚上去学大提琴。",
)


@pytest.fixture
async def memory():
    async with AsyncMemory("memory://") as made:
        for text in SAID:
            await made.add(text, user_id="lin")
        yield made


async def absent(memory, question):
    return (await memory.search(question, user_id="lin")).probably_absent


@pytest.mark.parametrize(
    "question",
    [
        "What's my sister called?",
        "How old is my cat?",
        "我爸爸是做什么的？",
        "我的猫几岁了？",
        "When is my birthday?",
        "When is Alastair's birthday?",
        "How much is left on my mortgage?",
        "我的房贷每个月还多少？",
        "阿福的生日是哪天？",
    ],
)
async def test_one_of_the_family_does_not_answer_for_another(memory, question):
    assert await absent(memory, question)


@pytest.mark.parametrize(
    "question",
    [
        "What's my brother called?",
        "What's the name of my dog?",
        "Do I have any siblings?",
        "我妈妈是做什么的？",
        "我的狗叫什么？",
        "我在学什么乐器？",
    ],
)
async def test_what_is_known_is_not_absent(memory, question):
    assert not await absent(memory, question)


OF_OTHERS = (
    "My wife Funmi hates coriander.",
    "Funmi is a nurse at the harbour clinic.",
    "My son Leo turns six on 4 May.",
    "trixie cant eat shrimp",
    "合租的小鹿对虾过敏",
    "我女朋友在宁波，两个人每周末轮流跑",
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does my wife do for a living?", False),  # told of Funmi
        ("Where does my wife work?", False),
        ("When is my wife's birthday?", True),  # not Leo's
        ("where does trixie live", True),
        ("what can trixie not eat", False),
        ("小鹿在哪上班", True),
        ("小鹿对什么过敏", False),
        ("我女朋友叫什么名字？", True),
    ],
)
async def test_what_is_told_of_one_does_not_answer_for_another(question, expected):
    async with AsyncMemory("memory://") as memory:
        for text in OF_OTHERS:
            await memory.add(text, user_id="lin")
        assert await absent(memory, question) == expected


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("whats my instrument, need it for the form", "im on bass in a band"),
        ("我揸咩车", "我那架丰田刚换了轮胎"),
    ],
)
async def test_as_people_type(question, first):
    said = (
        first,
        "im on the late shift at the bakery",
        "whats a compressor",
        "有咩电影好睇",
        "I come from Kumasi. My parents are still there.",
    )
    async with AsyncMemory("memory://") as memory:
        for text in said:
            await memory.add(text, user_id="lin")
        assert (await memory.search(question, user_id="lin", sources=["messages"]))[0].text == first


KINDS = (
    ("My neighbour Agnete grows leeks.", "How old is Agnete?", "Agnete turns eighty this spring."),
    ("The wife teaches at the harbour school.", "What's my wife called?", "My wife is called Solveig."),
    ("We took a flat above the chemist, rent is steep.", "How much is my rent?", "The rent is 900 a month."),
    ("We got two greyhounds, Odo and Fern.", "How old is Odo?", "Odo is nine now."),
    ("Klaus from the allotment keeps bees.", "What is Klaus's surname?", "Klaus Brandt is my neighbour."),
    ("My ski boots are in the attic.", "What colour are my ski boots?", "My ski boots are green."),
    ("Choir is on Wednesdays.", "What is the name of my choir?", "My choir is called the Larks."),
    ("我女朋友在苏州读研。", "我女朋友叫什么名字？", "我女朋友叫顾小满。"),
    ("我表哥在青岛开店。", "我表哥几岁了？", "我表哥今年三十二岁。"),
    ("我们学校的学费太贵了。", "我们学校的学费是多少？", "学校的学费一年一万八。"),
)


@pytest.mark.parametrize(("told", "question", "answer"), KINDS)
async def test_who_asks_for_a_number_a_day_or_a_name_is_answered_by_a_text_that_has_one(
    told, question, answer
):
    async with AsyncMemory("memory://") as memory:
        await memory.add(told, user_id="lin")
        assert await absent(memory, question)
        await memory.add(answer, user_id="lin")
        assert not await absent(memory, question)


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("The ferry leaves at nine.", "When does the ferry leave?"),
        ("my little sister maddie is 6", "What is the name of my sister?"),
        ("mobile's 07700 900733", "What's my phone number?"),
        ("电话换成13877201234了", "我手机号多少"),
        ("my girlfriend's Portuguese", "Where is my girlfriend from?"),
        ("lost my nan in June", "Who died recently?"),
        ("I spent thirty-one years on the haberdashery counter", "How did I earn my wages?"),
        ("41 Marine Parade, Brighton, second bell", "What is my address?"),
        ("my birthday is feb 29", "on what date was i born"),
        ("现在在酒吧摇酒", "我靠什么挣钱？"),
    ],
)
async def test_what_is_told_in_a_shape_of_its_own_is_not_absent(told, question):
    async with AsyncMemory("memory://") as memory:
        await memory.add(told, user_id="lin")
        assert not await absent(memory, question)


@pytest.mark.parametrize("question", ["Which voice part do I take in church?", "我哪天唱歌？"])
async def test_what_may_have_been_said_in_any_words_is_not_claimed_to_be_absent(memory, question):
    assert not await absent(memory, question)


async def test_a_question_that_finds_nothing_is_absent_only_where_it_names_something_definite(memory):
    for question, expected in (("How old am I?", False), ("What's my blood type?", True)):
        found = await memory.search(question, user_id="lin")
        assert (list(found), found.probably_absent) == ([], expected)


async def test_what_the_world_knows_is_absent(memory):
    assert await absent(memory, "How far is Jupiter from the sun?")


TALK = (
    ("Petra", "My workshop flooded last winter, so I rebuilt the kiln shelves in April."),
    ("Ngozi", "Oh no! Did you lose many pots? I was away at the lighthouse with Emeka."),
    ("Petra", "Only a dozen. I fired the celadon bowls again and sold them at the Harrow market."),
    ("Ngozi", "Well done. I have started to learn the accordion, my teacher is Mrs Adeyemi."),
    ("Petra", "An accordion! How heavy is your accordion?"),
    ("Ngozi", "Nine kilos, my shoulders ache."),
    ("小明", "我上个月在青岛学会了冲浪，教练姓孟。"),
    ("阿珍", "真厉害！我最近在家里养了两只鹦鹉。"),
)


@pytest.mark.parametrize("form", ["a name", "a transcript"])
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where did Petra sell the celadon bowls?", False),
        ("Where did Ngozi sell the celadon bowls?", True),
        ("Who teaches Ngozi the accordion?", False),
        ("How heavy is the accordion of Ngozi?", False),  # asked by Petra, who does not say so of herself
        ("When did Ngozi rebuild the kiln shelves?", True),
        ("小明在青岛学会了什么？", False),
        ("阿珍在青岛学会了什么冲浪？", True),
        ("阿珍养了几只鹦鹉？", False),
        ("Where were the celadon bowls sold?", False),
    ],
)
async def test_what_another_speaker_says_is_no_answer(form, question, expected):
    async with AsyncMemory("memory://") as memory:
        for name, text in TALK:
            said = {"role": "user", "content": text, "name": name} if form == "a name" else f"{name}: {text}"
            await memory.add(said, user_id="lin")
        for limit in (2, 10):
            found = await memory.search(question, user_id="lin", sources=["messages"], limit=limit)
            assert found.probably_absent == expected
