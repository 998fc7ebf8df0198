"""The rules that find names in real sentences, Chinese and English, without a model."""

import pytest

from octavo.conversation.entity_rules import find_entities

FOUND = [
    ("我叫张伟，在北京的华为公司工作。", ["张伟", "北京", "华为"]),
    ("王芳和李雷昨天去上海看了《红楼梦》。", ["王芳", "李雷", "上海", "红楼梦"]),
    ("李小明喜欢在清华大学的图书馆看书。", ["李小明", "清华大学"]),
    ("我的猫叫咪咪，它三岁了。", ["咪咪"]),
    ("我的同事陈静推荐了杭州市的一家餐厅。", ["陈静", "杭州市"]),
    ("张老师说小明在学Python和PostgreSQL。", ["张老师", "小明", "Python", "PostgreSQL"]),
    ("欧阳锋住在朝阳区，离首都国际机场很近。", ["欧阳锋", "朝阳区", "首都国际机场"]),
    ("她毕业于北京大学，现在在中国科学院工作。", ["北京大学", "中国科学院"]),
    ("老王的女儿王小丽考上了复旦大学", ["老王", "王小丽", "复旦大学"]),
    ("张伟最近搬到了深圳，准备加入腾讯。", ["张伟", "深圳", "腾讯"]),
    ("赵敏问郑凯什么时候去西安出差", ["赵敏", "郑凯", "西安"]),
    ("周杰伦的新专辑《最伟大的作品》很好听", ["周杰伦", "最伟大的作品"]),
    ("我和张伟是同学，他负责支付系统", ["张伟"]),
    ("My friend Sarah works at Google in San Francisco.", ["Sarah", "Google", "San Francisco"]),
    ("Alice is allergic to peanuts. She lives in New York with Bob.", ["Alice", "New York", "Bob"]),
    ("We use PostgreSQL and LangChain at Bank of America.", ["PostgreSQL", "LangChain", "Bank of America"]),
    ("Tim Cook announced the iPhone 15 on Monday.", ["Tim Cook", "iPhone 15"]),
    ("Dr. Smith's office is on Baker Street.", ["Smith", "Baker Street"]),
    ("I love Sarah's garden. What does Mr. O'Brien think?", ["Sarah", "O'Brien"]),
    ("Let's meet at Starbucks. Anna's brother Tom may join us.", ["Starbucks", "Anna", "Tom"]),
]
NOTHING = [
    "今天天气很好，我很高兴，谢谢你的方案。",
    "马上就到，许多任务需要程序员处理",
    "这家公司在一线城市，附近医院很多，周末方便吗？",
    "你好！有什么可以帮您的吗？",
    "我叫了一辆车",
    "小时候老师常常表扬我",
    "Thanks! I will remember that. Please tell me more.",
    "The weather is nice today. Cats are nice. Dinner is ready.",
    "Human: hi\nAI: hello",
    "",
    "   \n\n",
    "12345 !!! ？？",
]


@pytest.mark.parametrize(("text", "names"), FOUND)
def test_found(text, names):
    """Names in the order they are first mentioned, and nothing else."""
    assert find_entities(text) == names


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_found(text):
    """Greetings, ordinary words that begin like names and capitals at the beginning of a sentence are no names."""
    assert find_entities(text) == []


def test_each_once_and_not_too_many():
    assert find_entities("张伟说，张伟的车在张伟家。") == ["张伟"]
    many = "，".join(f"《书{at}》" for at in range(50))
    assert find_entities(many, limit=3) == ["书0", "书1", "书2"]


def test_long_text_is_bounded():
    """Only the beginning of a very long text is looked at, so that one message cannot take minutes."""
    assert find_entities("很" * 30_000 + "《红楼梦》") == []
    assert find_entities("张" * 20_000 + "A" * 20_000) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Yeah John, I’ll go in May 2023. You've met Maria!", ["John", "Maria"]),
        ("Hiking is fun. Don't tell Sam.", ["Sam"]),
        ("Cool, Evan! Talking was good.", ["Evan"]),
    ],
)
def test_talk(text, names):
    """How people talk: short forms, interjections and years are no names."""
    assert find_entities(text) == names


def test_what_is_known_is_found_again():
    """A known name is found where rules alone would miss it, and not inside a longer one."""
    assert find_entities("我看到阿尔法狗了，咪咪也在", known=["阿尔法狗", "咪咪"]) == ["阿尔法狗", "咪咪"]
    assert find_entities("李明杰来了", known=["李明"]) == ["李明杰"]
    assert find_entities("the annual anna, said ann", known=["ann"]) == ["ann"]
    assert find_entities("咪咪呢", known=[]) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("张伟养了一只猫。", "张伟"),
        ("张伟爱吃鱼", "张伟"),
        ("张伟开了一家店", "张伟"),
        ("李明来了", "李明"),
        ("王学明来了", "王学明"),
        ("张爱玲写的书", "张爱玲"),
        ("李娜明天来", "李娜"),
    ],
)
def test_where_a_name_ends(text, name):
    assert find_entities(text) == [name]
