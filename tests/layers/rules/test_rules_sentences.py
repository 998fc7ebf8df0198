"""The table of sentences: what the rules make of each, and where they fail."""

from collections import Counter
from datetime import UTC, datetime

import afterwards
import everyday
import heldout
import pytest
import sentences
import widening

from octavo.layers.rules import RuleExtractor, categorise
from octavo.layers.values import CATEGORIES

NOW = datetime(2026, 3, 12, 16, 30, tzinfo=UTC)
TABLES = {"Chinese": sentences.CHINESE, "English": sentences.ENGLISH}


@pytest.mark.parametrize("language", TABLES)
async def test_nine_of_ten_sentences_are_read_as_expected(language: str) -> None:
    """Every fact of the sentence with its layer and its category, in order, and nothing else."""
    right = 0
    for text, categories in TABLES[language]:
        found = await RuleExtractor().decide(text, [], owner_type="user", at=NOW)
        right += [(one.layer, one.category) for one in found] == sentences.expected(categories)
    assert right / len(TABLES[language]) >= 0.9


@pytest.mark.parametrize("language", TABLES)
def test_the_table_is_wide_enough(language: str) -> None:
    table = TABLES[language]
    assert len(table) >= 75
    seen = Counter(category for _, categories in table for category in categories.split())
    assert all(seen[category] >= 3 for names in CATEGORIES.values() for category in names)
    assert sum(not categories for _, categories in table) >= 10


def test_no_sentence_is_in_two_tables() -> None:
    tables = (sentences, widening, heldout, everyday, afterwards)
    every = [text for module in tables for text, _ in module.CHINESE + module.ENGLISH]
    assert len(every) == len(set(every))
    assert len(heldout.CHINESE) >= 40
    assert len(heldout.ENGLISH) >= 40
    assert min(len(afterwards.CHINESE), len(afterwards.ENGLISH)) >= 30


@pytest.mark.parametrize(
    ("text", "layer", "category"),
    [
        ("喜欢阅读、喜欢运动", "profile", "preference"),
        ("擅长编程、英语流利", "profile", "ability"),
        ("软件工程师、产品经理", "profile", "career"),
        ("北京大学、计算机系", "profile", "education"),
        ("开朗外向、内向安静", "profile", "personality"),
        ("重视创新、追求完美", "profile", "value"),
        ("讨论了项目计划", "event", "conversation"),
        ("参加了技术分享会", "event", "meeting"),
        ("提交了代码", "event", "action"),
        ("决定使用新的技术栈", "event", "decision"),
        ("参加了公司年会", "event", "event"),
        ("用户是一名软件工程师，毕业于北京大学", "profile", "career"),
        ("用户今天下午参加了技术分享会，讨论了人工智能的应用", "event", "meeting"),
        ("software engineer", "profile", "career"),
        ("The user likes tea", "profile", "preference"),
        ("I had a meeting with Ann", "event", "meeting"),
        ("xyzzy", "profile", None),
        ("用户是一名软件工程师", "event", None),
    ],
)
def test_a_text_kept_directly_gets_the_category_of_its_layer(
    text: str, layer: str, category: str | None
) -> None:
    assert categorise(text, layer) == category  # type: ignore[arg-type]


#: The examples of the document's tables of categories. A noun alone (北京大学) says nothing of anybody.
EXAMPLES = {
    "profile preference": "喜欢阅读、喜欢运动",
    "profile ability": "擅长编程、英语流利",
    "profile career": "是软件工程师、是产品经理",
    "profile education": "毕业于北京大学、毕业于计算机系",
    "profile personality": "开朗外向、内向安静",
    "profile value": "重视创新、追求完美",
    "event conversation": "讨论了项目计划",
    "event meeting": "参加了技术分享会",
    "event action": "提交了代码",
    "event decision": "决定使用新的技术栈",
    "event event": "参加了公司年会",
}


@pytest.mark.parametrize("who", ["用户", "他", "她", "我", ""])
@pytest.mark.parametrize("wanted", EXAMPLES)
async def test_the_examples_of_the_tables_are_read(wanted: str, who: str) -> None:
    """As sentences about the user, whoever tells them: of "he" some were doubted that were kept of "she"."""
    for example in EXAMPLES[wanted].split("、"):
        if not who and example == "提交了代码":
            continue  # of no one
        found = await RuleExtractor().decide(f"{who}{example}。", [], owner_type="user", at=NOW)
        assert [f"{one.layer} {one.category}" for one in found] == [wanted], example


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The user strives for perfection.", "profile value"),
        ("The user is outgoing, kind and patient.", "profile personality"),
        ("The user never lies.", "profile preference"),
        ("The user attended a tech sharing session.", "event meeting"),
        ("I attended a tech sharing session yesterday.", "event meeting"),
    ],
)
async def test_the_examples_in_english(text: str, wanted: str) -> None:
    found = await RuleExtractor().decide(text, [], owner_type="user", at=NOW)
    assert [f"{one.layer} {one.category}" for one in found] == [wanted]
