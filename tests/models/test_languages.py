"""Which texts a model is asked about: by declared languages, and by its name."""

import pytest

from octavo import ConfigError
from octavo.models.checks import EVERYTHING, Languages, languages_of, prefixes_of

ENGLISH, CHINESE = Languages.of("en"), Languages.of("zh")


@pytest.mark.parametrize(
    "text",
    [
        "Where does Caroline live?",
        "naïve café, Zürich, Łódź, Việt Nam",
        "My friend 小明 lives in Beijing and works at a bank",
        "I said 你好 to him",
        "ＦＵＬＬ width",
        "",
        "42 🐈 — … 。！",
        "e = mc², α is the angle",
    ],
)
def test_english_reads(text):
    """Latin letters of any kind, a name in another script, and what has no letters at all."""
    assert ENGLISH.reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "我上周去了杭州",
        "我用 PostgreSQL 数据库",
        "他喜欢 machine learning 和 deep learning",
        "東京へ行きました",
        "カタカナ",
        "서울에 갔어요",
        "Где живёт Каролина?",
        "Πού μένει;",
        "أين تعيش",
        "איפה היא גרה",
        "वह कहाँ रहती है",
        "เธออยู่ที่ไหน",
        "ႠႡႢ ბაბუა",
        "ᏣᎳᎩ",  # Cherokee, which no table here names
        "𠀀𠀁𠀂",
    ],
)
def test_english_does_not_read(text):
    """A third of the words in another script is too much, whichever script."""
    assert not ENGLISH.reads(text)


def test_the_other_way_round():
    """A Chinese model is not asked about English; one of both reads both; a Chinese one reads names in Latin."""
    assert CHINESE.reads("我上周去了杭州")
    assert CHINESE.reads("我用 PostgreSQL 数据库")
    assert not CHINESE.reads("Where does Caroline live?")
    both = Languages.of(["en", "zh-CN"])
    assert both.reads("Where does Caroline live?")
    assert both.reads("我上周去了杭州")
    assert not both.reads("Где живёт Каролина?")
    assert Languages.of("ja").reads("東京へ行きました")
    assert Languages.of("ko").reads("서울에 갔어요")


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("LATIN", "en", "aZéŁữ"), ("CJK", "zh", "一鿿㐀𠀀々"), ("HIRAGANA", "ja", "ぁゖ"), ("KATAKANA", "ja", "ァヺー"),
        ("HANGUL", "ko", "가힣ㄱ"), ("CYRILLIC", "ru", "АяЁі"), ("GREEK", "el", "Αώἀ"), ("ARABIC", "ar", "ءيپ"),
        ("HEBREW", "he", "את"), ("DEVANAGARI", "hi", "अह"), ("BENGALI", "bn", "অহ"), ("TAMIL", "ta", "அஹ"),
        ("TELUGU", "te", "అహ"), ("THAI", "th", "กฮ"), ("GEORGIAN", "ka", "ბჰ"), ("ARMENIAN", "hy", "Աև"),
    ],
)  # fmt: skip
def test_scripts_do_not_overlap(script, code, text):
    """Letters of a script are read by a model of its language, and by none of a language of another script."""
    alike = {"zh": ("ja",), "ja": ("zh",) if script == "CJK" else ()}.get(code, ())
    for other in ("en", "zh", "ja", "ko", "ru", "el", "ar", "he", "hi", "bn", "ta", "te", "th", "ka", "hy"):
        expected = other == code or other in alike
        assert Languages.of(other).reads(text) == expected, other


def test_only_the_beginning_of_a_long_text_is_looked_at():
    """As models do; and it costs no more than that."""
    assert ENGLISH.reads("word " * 1000 + "我" * 10_000_000)


def test_declared():
    """Codes with regions and spaces are fine; "any" is everything; a word is not a code."""
    assert Languages.of(" EN , zh_Hant ") == Languages(frozenset({"latin", "han"}))
    assert Languages.of("en,any") == EVERYTHING
    assert EVERYTHING.reads("ᏣᎳᎩ")
    for wrong in ("english", "", "e", ["en", "x1"]):
        with pytest.raises(ConfigError, match=r"languages: .* is not an ISO 639 code"):
            Languages.of(wrong)


def test_names_say_what_fastembed_says():
    """For every model fastembed lists, the name is enough, and means what its description says."""
    from fastembed import TextEmbedding

    listed = {each["model"]: each["description"] for each in TextEmbedding.list_supported_models()}
    for name, described in listed.items():
        if name.startswith("tests/"):  # registered by another test of this run
            continue
        languages = languages_of(name)
        assert languages is not None, name
        said = described.lower()
        latin_only = any(each in said for each in ("(german, english)", "(english, 30 programming"))
        everything = ("multilingual" in said or "multi-lingual" in said) and not latin_only
        assert languages.reads("我上周去了杭州") == (everything or "chinese" in said), name
        assert languages.reads("Where is it?") == (everything or "english" in said), name


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("e5-small-v2-int8", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-small-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("BAAI/bge-m3", "", ""),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("snowflake/snowflake-arctic-embed-m-v2.0", "query: ", ""),
        ("thenlper/gte-small", "", ""),
        ("text-embedding-3-small", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("one5-two", "", ""),
    ],
)
def test_prefixes(name, query, passage):
    """By family; most have none, and e5 is a word, not three letters somewhere."""
    assert (prefixes_of(name).query, prefixes_of(name).passage) == (query, passage)
