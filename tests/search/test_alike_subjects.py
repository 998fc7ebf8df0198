"""What somebody told of one subject: a question finds the statement that answers it, not another one about the same."""

import pytest

from octavo import AsyncMemory

WORK = [
    "I'm a welder at the Meyer shipyard", "My boss shouted at me again", "The office moved to level 3",
    "I have a meeting with the auditors on Monday", "We hired two interns last week", "My shift starts at six",
    "I studied mechanical engineering in Aachen", "I'd love to open a bakery one day",
]  # fmt: skip
HOME = [
    "We moved from Leeds to Ghent two years ago", "My landlord is a grumpy man called Piet", "The neighbours are renovating",
    "I'd like to buy a cottage in Wales", "I'm training for the Berlin marathon", "We paid 340k for the flat",
    "We're flying to Lisbon in June",
]  # fmt: skip
TASTE = [
    "I love ramen", "I hate mushrooms", "I drink two espressos every morning", "We went to Kyoto last spring",
    "We're flying to Lisbon in June", "I've never been to Africa", "We watched Parasite on Friday", "I play chess online at night",
]  # fmt: skip
WORK_ZH = [
    "我在船厂当焊工",
    "领导今天又骂我了",
    "公司搬到三楼了",
    "上周招了两个实习生",
    "我早上六点上班",
    "我大学学的是机械",
]
HOME_ZH = [
    "去年从合肥搬到常州",
    "房东姓顾",
    "周末去苏州玩",
    "我弟在成都读书",
    "想在青岛买房",
    "我最爱吃螺蛳粉",
    "我讨厌香菇",
]
LIFE = [
    "I'm lactose intolerant", "I can't swim", "I wake at 4:30 to read before the kids are up", "Support Asante Kotoko, always have",
    "I pray before every meal", "I get migraines from red wine", "I cycle in every day, 9 km each way", "I'm doing a part time MBA on Saturdays",
    "Got a new hip last October, still can't kneel", "I take blood thinners, so no grapefruit", "Saving for a plot of land near the lake",
]  # fmt: skip
LIFE_ZH = ["我海鲜过敏", "我乳糖不耐受", "我是旱鸭子", "我每天骑车上班", "我爱吃辣", "我在攒钱买车"]
ASKED = [
    (LIFE, "Can I have milk in my coffee?", "lactose"), (LIFE, "Should I book a snorkelling trip?", "swim"), (LIFE, "What time do I get up?", "4:30"),
    (LIFE, "Which football club do I follow?", "Kotoko"), (LIFE, "What surgery did I have?", "hip"), (LIFE_ZH, "我能喝拿铁吗", "乳糖"),
    (LIFE_ZH, "给我订龙虾合适吗", "海鲜"), (LIFE_ZH, "周末约我去浮潜好吗", "旱鸭子"),
    (WORK, "What's my job?", "welder"), (WORK, "What do I do for a living?", "welder"), (WORK, "Where do I work?", "welder"),
    (WORK, "Who's my employer?", "welder"), (WORK, "What am I by profession?", "welder"), (WORK, "What did I study?", "Aachen"),
    (HOME, "Where do I live?", "Ghent"), (HOME, "Which city do I live in?", "Ghent"), (HOME, "Where did I live before?", "Leeds"),
    (HOME, "What is my landlord called?", "Piet"), (TASTE, "What food don't I like?", "mushrooms"),
    (TASTE, "What trip do I have coming up?", "Lisbon"), (TASTE, "How much coffee do I drink?", "espressos"), (WORK_ZH, "我的职业是什么", "焊工"), (WORK_ZH, "我是做什么工作的", "焊工"),
    (HOME_ZH, "我现在住哪", "常州"), (HOME_ZH, "我住在哪个城市", "常州"), (HOME_ZH, "我不喜欢吃什么", "香菇"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "question", "answer"), ASKED, ids=[question for _, question, _ in ASKED])
async def test_the_statement_that_answers_comes_first(told, question, answer):
    async with AsyncMemory("memory://") as memory:
        for said in told:
            await memory.add(said, user_id="kim")
        hits = await memory.search(question, user_id="kim")
        assert answer in hits[0].text
        assert not hits.probably_absent
