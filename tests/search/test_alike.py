"""What is asked in other words: words that are alike in meaning, by the table that comes with the package."""

import pytest

from octavo import AsyncMemory
from octavo.search.alike import SIZE, TABLE, AskedWords, words_of

SAID = (
    "Nickel gives me a rash.",
    "The doctor is called Osei.",
    "I play the concertina in Kelly's.",
    "Our flat looks out on the harbour.",
    "The bus was late again.",
    "Jo baked rye bread.",
)


def alike(asked: str, text: str) -> float:
    return AskedWords(dict.fromkeys(words_of(asked), 1.0), 1.0).score(text)


@pytest.mark.parametrize(
    ("asked", "nearer", "farther"),
    [
        ("metal", "nickel", "concertina"),
        ("instrument", "concertina", "doctor"),
        ("physician", "doctor", "harbour"),
        ("kids", "children", "bread"),
    ],
)
def test_a_word_is_more_alike_to_one_of_its_kind(asked, nearer, farther):
    assert alike(asked, nearer) > alike(asked, farther)


def test_a_word_is_wholly_like_itself_and_an_unknown_one_like_nothing_else():
    assert alike("metal", "metal") == pytest.approx(1 / 1.02)
    assert alike("zzyzx", "metal") == alike("metal", "zzyzx") == alike("metal", "") == alike("", "metal") == 0
    assert alike("zzyzx", "zzyzx") > 0.9


def test_the_products_are_those_of_the_numbers_one_by_one():
    """They are worked out for all words at once, as parts of long numbers."""
    asked = AskedWords({"metal": 1.0}, 1.0)
    asked.read(["nickel concertina harbour bread doctor"])
    names, _, rows = TABLE.read_bytes().partition(b"\n\n")
    numbers = {name.decode(): at for at, name in enumerate(names.split(b"\n"))}

    def row(word: str) -> list[int]:
        start = numbers[word] * SIZE // 2
        return [digit - 8 for pair in rows[start : start + SIZE // 2] for digit in divmod(pair, 16)]

    for word in words_of("nickel concertina harbour bread doctor"):
        product = sum(a * b for a, b in zip(row("metal"), row(word), strict=True))
        assert asked._alike[word] == pytest.approx((product / (SIZE * (8 / 3) ** 2),))


@pytest.mark.every_store
async def test_a_question_in_other_words_is_answered(store):
    async with AsyncMemory(store) as memory:
        for text in SAID:
            await memory.add(text, user_id="lin", infer=False)
        for question, answer in (
            ("Which metal does my skin not like?", SAID[0]),
            ("Who is my physician?", SAID[1]),
        ):
            found = await memory.search(question, user_id="lin", limit=2)
            assert answer in {hit.text for hit in found}, question


async def test_who_types_single_words_finds_what_holds_them():
    async with AsyncMemory("memory://") as memory:
        for text in SAID:
            await memory.add(text, user_id="lin", infer=False)
        assert [hit.text for hit in await memory.search("bread", user_id="lin")] == [SAID[5]]
        assert not await memory.search("metal", user_id="lin")


async def test_a_hit_without_a_shared_word_says_why():
    async with AsyncMemory("memory://") as memory:
        await memory.add(SAID[0], user_id="lin", infer=False)
        [hit] = await memory.search("Which metal is bad for me?", user_id="lin")
        assert hit.why == "says it in other words"


GOING_ON = (
    "My flatmate Jun is a sommelier.",
    "Therapy is on Tuesdays at five with Morag.",
    *SAID[2:],
    "The fridge is full of oat milk since Jun gets hives of the other.",
    "Moved therapy, it's Fridays from now on.",
)


@pytest.mark.every_store
async def test_what_goes_on_about_the_best_hit_is_found(store):
    """By what the question calls neither: a name, or what has changed since."""
    async with AsyncMemory(store) as memory:
        for text in GOING_ON:
            await memory.add(text, user_id="lin", infer=False)
        for question, first, later in (
            ("What must my flatmate avoid?", GOING_ON[0], GOING_ON[-2]),
            ("Which day do I see Morag?", GOING_ON[1], GOING_ON[-1]),
        ):
            found = await memory.search(question, user_id="lin", limit=2)
            assert [hit.text for hit in found] == [first, later], question
            assert "goes on about the best hit" in found[1].why


async def test_what_was_told_before_does_not_go_on_about_the_best_hit():
    async with AsyncMemory("memory://") as memory:
        for text in ("Jun gets hives of milk.", *GOING_ON[2:-2], GOING_ON[0]):
            await memory.add(text, user_id="lin", infer=False)
        found = await memory.search("What must my flatmate avoid?", user_id="lin")
        assert not any("goes on" in hit.why for hit in found)
