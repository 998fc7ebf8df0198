"""One table of behaviours, with the same answers on every store and through every documented class."""

import json
from enum import Enum, StrEnum

import pytest

from octavo import InvalidRecord
from octavo.chat import Msg


class Mark(str, Enum):  # noqa: UP042 - what callers have
    HINT = "hint"
    DONE = "done"


class Tag(StrEnum):
    HINT = "hint"


class Plain(Enum):
    HINT = "hint"


def said(text, id_=None, role="user", **more):
    message = Msg("Alice", text, role, **more)
    message.id = id_ or text
    return message


async def texts(memory, *args, **kwargs):
    return [message.content for message in await memory.get_memory(*args, **kwargs)]


async def marks(memory):
    """The marks of each message, by its id; of several copies in their order."""
    return [(told["id"], marks) for told, marks in (await memory.state_dict())["content"]]


async def filled(memory):
    """Three messages: one without marks, one with a, one with a and b."""
    await memory.add(said("1"))
    await memory.add(said("2"), marks="a")
    await memory.add(said("3"), marks=["a", "b"])
    return memory


async def test_empty(memory):
    """Every method works before anything was added."""
    assert await memory.get_memory() == []
    assert await memory.get_memory(mark="a", exclude_mark="b") == []
    assert await memory.size() == 0
    assert await memory.delete(["x"]) == await memory.delete([]) == 0
    assert await memory.delete_by_mark("a") == await memory.delete_by_mark(["a", "b"]) == 0
    assert await memory.delete_by_mark([]) == 0
    for new, old in ((None, None), ("a", None), (None, "a"), ("a", "b")):
        for ids in (None, [], ["x"]):
            assert await memory.update_messages_mark(new, old, ids) == 0
    assert await memory.compressed_summary() == ""
    assert await memory.state_dict() == {"_compressed_summary": "", "content": []}
    await memory.load_state_dict({"_compressed_summary": "", "content": []})
    await memory.update_compressed_summary("")
    await memory.clear()
    await memory.clear(summary=True)
    assert await memory.get_memory() == []


async def test_adding(memory):
    """Messages come back in the order they were added, whatever their timestamps say."""
    await memory.add(None)
    await memory.add([])
    await memory.add(said("late", timestamp="2030-01-01 00:00:00.000"))
    await memory.add([said("b"), said("a")])
    await memory.add((said("early", timestamp="1999-01-01 00:00:00.000"),))
    assert await texts(memory) == ["late", "b", "a", "early"]
    assert await memory.size() == 4


async def test_marks_of_an_add(memory):
    """A mark is a string or a string enum's value; each is kept once, in the order given."""
    await memory.add(said("1"), marks=["b", "a", "b"])
    await memory.add(said("2"), marks=Mark.HINT)
    await memory.add(said("3"), marks=[Tag.HINT, Mark.DONE])
    await memory.add(said("4"), marks=[])
    await memory.add(said("5"), marks="")
    assert await marks(memory) == [
        ("1", ["b", "a"]),
        ("2", ["hint"]),
        ("3", ["hint", "done"]),
        ("4", []),
        ("5", [""]),
    ]
    assert await texts(memory, mark="hint") == await texts(memory, mark=Mark.HINT) == ["2", "3"]
    assert await texts(memory, mark="") == ["5"]
    assert await texts(memory, exclude_mark=Tag.HINT) == ["1", "4", "5"]
    assert await memory.update_messages_mark(Mark.DONE, Mark.HINT) == 2
    assert await memory.delete_by_mark([Mark.DONE]) == 2


async def test_what_is_no_mark(memory):
    """Anything else is TypeError, and changes nothing."""
    await filled(memory)
    before = await memory.state_dict()
    for wrong in (1, Plain.HINT, b"a", ["a"], object()):
        for call in (
            memory.add(said("4"), marks=[wrong]),
            memory.get_memory(mark=wrong),
            memory.get_memory(exclude_mark=wrong),
            memory.update_messages_mark(wrong),
            memory.update_messages_mark(None, wrong),
            memory.delete_by_mark([wrong]),
        ):
            with pytest.raises(TypeError, match="mark"):
                await call
    for call in (memory.add(said("4"), marks=1), memory.delete_by_mark(None), memory.delete_by_mark(1)):
        with pytest.raises(TypeError, match="mark"):
            await call
    assert await memory.state_dict() == before


async def test_what_is_no_message(memory):
    await filled(memory)
    for wrong in ("text", 1, {"role": "user"}, [said("4"), None], [said("4"), "text"]):
        with pytest.raises(TypeError, match="Msg"):
            await memory.add(wrong)
    assert await memory.size() == 3


async def test_ids_are_a_list(memory):
    """One string is not taken for a list of its letters."""
    await filled(memory)
    for call in (
        memory.delete("123"),
        memory.delete([1]),
        memory.delete(None),
        memory.update_messages_mark("x", None, "123"),
    ):
        with pytest.raises(TypeError, match="id"):
            await call
    assert await memory.size() == 3


async def test_a_duplicate_is_passed_over(memory):
    """The first with an id wins, within one call too, and keeps its marks."""
    await memory.add([said("first", "x"), said("second", "x"), said("other", "y")], marks="a")
    await memory.add([said("third", "x"), said("new", "z")], marks="b")
    assert await texts(memory) == ["first", "other", "new"]
    assert await marks(memory) == [("x", ["a"]), ("y", ["a"]), ("z", ["b"])]
    assert await memory.delete(["x"]) == 1
    await memory.add(said("fourth", "x"))
    assert await texts(memory) == ["other", "new", "fourth"]


async def test_duplicates_on_request(memory):
    """With allow_duplicates every message is kept, in its place, under the id it has; ids name all copies."""
    await memory.add([said("1", "x"), said("2", "y"), said("3", "x")], marks="a", allow_duplicates=True)
    await memory.add(said("4", "x"), marks="b", allow_duplicates=True)
    await memory.add(said("5", "x"))
    assert await texts(memory) == ["1", "2", "3", "4"]
    assert [message.id for message in await memory.get_memory()] == ["x", "y", "x", "x"]
    assert await memory.size() == 4
    assert await marks(memory) == [("x", ["a"]), ("y", ["a"]), ("x", ["a"]), ("x", ["b"])]
    assert await memory.update_messages_mark("c", None, ["x"]) == 3
    assert await memory.update_messages_mark("d", "a", ["x"]) == 2
    assert await marks(memory) == [("x", ["c", "d"]), ("y", ["a"]), ("x", ["c", "d"]), ("x", ["b", "c"])]
    assert await memory.update_messages_mark(None, "d", ["x", "y"]) == 2
    assert await memory.update_messages_mark(None, None, ["x"]) == 3
    assert await memory.update_messages_mark(None, None, ["x"]) == 0
    assert await marks(memory) == [("x", []), ("y", ["a"]), ("x", []), ("x", [])]
    assert await memory.update_messages_mark("e") == 4
    assert await memory.update_messages_mark(None, None) == 4
    state = await memory.state_dict()
    await memory.load_state_dict(state)
    assert await memory.state_dict() == state
    assert await memory.delete(["x"]) == 3
    assert await texts(memory) == ["2"]


async def test_reading_by_mark(memory):
    await filled(memory)
    assert await texts(memory, mark="a") == ["2", "3"]
    assert await texts(memory, "b") == ["3"]
    assert await texts(memory, exclude_mark="a") == ["1"]
    assert await texts(memory, exclude_mark="b") == ["1", "2"]
    assert await texts(memory, mark="a", exclude_mark="b") == ["2"]
    assert await texts(memory, mark="a", exclude_mark="a") == []
    assert (
        await texts(memory, mark="A") == await texts(memory, mark="a ") == await texts(memory, mark="á") == []
    )


async def test_deleting(memory):
    """The count is of messages that were there."""
    await filled(memory)
    assert await memory.delete(["1", "1", "nobody"]) == 1
    assert await memory.delete(["1"]) == 0
    assert await texts(memory) == ["2", "3"]
    assert await memory.size() == 2


async def test_deleting_by_mark(memory):
    await filled(memory)
    assert await memory.delete_by_mark("nobody") == 0
    assert await memory.delete_by_mark(["a", "b"]) == 2
    assert await texts(memory) == ["1"]


#: A change of the marks of `filled`, how many messages it changes, and the marks after it.
CHANGES = [
    (("c",), 3, [["c"], ["a", "c"], ["a", "b", "c"]]),
    (("a",), 1, [["a"], ["a"], ["a", "b"]]),
    (("a", None, ["2", "3"]), 0, [[], ["a"], ["a", "b"]]),
    (("c", None, ["1", "3", "nobody"]), 2, [["c"], ["a"], ["a", "b", "c"]]),
    ((None, "a"), 2, [[], [], ["b"]]),
    ((None, "a", ["1", "2"]), 1, [[], [], ["a", "b"]]),
    ((None, "c"), 0, [[], ["a"], ["a", "b"]]),
    (("c", "a"), 2, [[], ["c"], ["b", "c"]]),
    (("c", "a", ["3"]), 1, [[], ["a"], ["b", "c"]]),
    (("b", "a"), 2, [[], ["b"], ["b"]]),
    (("a", "a"), 0, [[], ["a"], ["a", "b"]]),
    (("c", "nobody"), 0, [[], ["a"], ["a", "b"]]),
    ((None, None, ["3"]), 1, [[], ["a"], []]),
    ((None, None, ["1"]), 0, [[], ["a"], ["a", "b"]]),
    ((None, None, []), 0, [[], ["a"], ["a", "b"]]),
    (("c", None, []), 0, [[], ["a"], ["a", "b"]]),
    ((None, None), 2, [[], [], []]),
]


async def test_changing_marks(memory):
    """Adds, removes and replaces; the count is of messages changed, and a mark that is new stands last."""
    for change, count, after in CHANGES:
        await memory.clear()
        await filled(memory)
        assert await memory.update_messages_mark(*change) == count, change
        assert [given for _, given in await marks(memory)] == after, change
        assert await texts(memory) == ["1", "2", "3"]
        for mark in "abc":
            assert await texts(memory, mark=mark) == [
                text for text, given in zip("123", after, strict=True) if mark in given
            ], change


async def test_summary(memory):
    """It stands in front as the user's message, whichever messages are asked for, and is no message itself."""
    await filled(memory)
    await memory.update_compressed_summary("old")
    await memory.update_compressed_summary("So far 软件 was discussed.")
    head, *rest = await memory.get_memory()
    assert (head.name, head.role, head.content) == ("user", "user", "So far 软件 was discussed.")
    assert [message.content for message in rest] == ["1", "2", "3"]
    assert await texts(memory, mark="b") == ["So far 软件 was discussed.", "3"]
    assert await texts(memory, mark="nobody") == ["So far 软件 was discussed."]
    assert await texts(memory, prepend_summary=False) == ["1", "2", "3"]
    assert await memory.get_memory() == await memory.get_memory()
    assert await memory.size() == 3
    assert await memory.delete([head.id]) == 0
    await memory.clear()
    assert await texts(memory) == ["So far 软件 was discussed."]
    assert await memory.size() == 0
    await memory.clear(summary=True)
    assert await texts(memory) == []
    await memory.update_compressed_summary("again")
    await memory.update_compressed_summary("")
    assert await texts(memory) == []
    with pytest.raises(TypeError, match="summary"):
        await memory.update_compressed_summary(None)


async def test_a_reader_gets_copies(memory):
    """Neither a message that was added nor one that was returned leads back into the memory."""
    message = Msg("a", [{"type": "text", "text": "kept"}], "assistant", {"deep": {"er": [1]}})
    await memory.add(message, marks="m")
    before = await memory.state_dict()
    found = (await memory.get_memory())[0]
    state = await memory.state_dict()
    for one in (message, found):
        one.content[0]["text"] = "changed"
        one.metadata["deep"]["er"].append(2)
        one.name = "b"
    state["content"][0][0]["content"].append("x")
    state["content"][0][1].append("n")
    assert await memory.state_dict() == before
    assert (await memory.get_memory())[0].content == [{"type": "text", "text": "kept"}]


CONTENTS = [
    "",
    "a\nb\t\r\n c  ",
    "软件 📚 שלום \u200d \ufeff",
    "%_\\'\"{}[]:;--",
    [],
    [{"type": "text", "text": ""}],
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": [1, 2.5, None, True, {"y": "z"}]}},
        {"type": "tool_result", "id": "c1", "name": "f", "output": [{"type": "text", "text": "42"}]},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "audio", "source": {"type": "base64", "media_type": "audio/wav", "data": "AAAA"}},
        {"type": "video", "source": {"type": "url", "url": "https://example.com/a.mp4"}},
    ],
]


async def test_nothing_is_altered(memory):
    """A message comes back as it was, to the last character."""
    messages = [
        Msg("名", content, "assistant", {"k": [1, {"软": None}]}, "some time", "inv-1")
        for content in CONTENTS
    ]
    await memory.add(messages)
    await memory.add(messages, allow_duplicates=True)
    for found, message in zip(await memory.get_memory(), [*messages, *messages], strict=True):
        assert found == message
        assert found.to_dict() == message.to_dict()
        assert list(found.to_dict()) == list(message.to_dict())


NAMES = ["\x1f", "\x1f=", "\x1f\x1f=x", "a\x1f", "a:b", "a/b", "{a}", "*", "'", "a\n", "软" * 60]


async def test_names_of_every_kind(memory):
    """Any id and any mark is itself, and nothing else."""
    for name in NAMES:
        other = name[:-1] + "!"
        await memory.add(said("1", name), marks=[name, "m"])
        await memory.add(said("2", name), marks=name, allow_duplicates=True)
        await memory.add(said("3", other))
        assert [message.id for message in await memory.get_memory(mark=name)] == [name, name]
        assert await texts(memory, exclude_mark=name) == ["3"]
        assert await marks(memory) == [(name, [name, "m"]), (name, [name]), (other, [])]
        assert await memory.update_messages_mark("n", name, [name]) == 2
        assert await memory.update_messages_mark(None, None) == 2
        assert await memory.delete([name]) == 2
        assert await texts(memory) == ["3"]
        await memory.clear()


async def test_a_copy_is_not_found_by_its_own_name(memory):
    """What the store calls a copy is nobody's id and nobody's mark."""
    await memory.add(said("1", "x"))
    await memory.add(said("2", "x"), allow_duplicates=True)
    for record in await memory.kernel.find(memory._query()):
        for name in (record.id, *record.marks):
            if name != "x":
                assert await memory.delete([name]) == 0
                assert await memory.delete_by_mark(name) == 0
                assert await memory.get_memory(mark=name) == []
                assert await texts(memory, exclude_mark=name) == ["1", "2"]
    assert await memory.size() == 2


UNKEEPABLE = [
    said("a\0b"),
    said("x", "i" * 300),
    said("x", "\0"),
    said("half \ud800"),
    Msg("a", "x", "user", {"n": float("nan")}),
    Msg("a", [{"type": "text", "text": "\0"}], "user"),
    Msg("a", [{"type": "tool_use", "id": "1", "name": "f", "input": {"x": object()}}], "user"),
]


async def test_what_no_store_can_keep(memory):
    """It is refused with everything that came along, and what was kept before stays."""
    await filled(memory)
    for bad in UNKEEPABLE:
        with pytest.raises(InvalidRecord):
            await memory.add([said("fine"), bad])
        with pytest.raises(InvalidRecord):
            await memory.add([said("fine"), bad], allow_duplicates=True)
    with pytest.raises(InvalidRecord):
        await memory.add(said("fine"), marks="m" * 300)
    assert await texts(memory) == ["1", "2", "3"]


async def test_state(memory):
    """A state is JSON with the documented keys in their order, and loading it gives the same memory."""
    await filled(memory)
    await memory.add(Msg("bot", [{"type": "text", "text": "hi"}], "assistant", invocation_id="i"))
    await memory.update_compressed_summary("so far")
    state = await memory.state_dict()
    assert list(state) == ["_compressed_summary", "content"]
    assert list(state["content"][0][0]) == ["id", "name", "role", "content", "metadata", "timestamp"]
    assert state["content"][2][1] == ["a", "b"]
    assert list(state["content"][3][0])[-1] == "invocation_id"
    assert json.loads(json.dumps(state)) == state
    await memory.add(said("more"))
    await memory.update_compressed_summary("changed")
    await memory.update_messages_mark("x")
    await memory.load_state_dict(json.loads(json.dumps(state)))
    assert await memory.state_dict() == state
    assert await texts(memory, mark="a", prepend_summary=False) == ["2", "3"]
    assert await memory.size() == 4


async def test_a_state_that_is_wrong(memory):
    """It is refused by name, and what was there stays."""
    await filled(memory)
    before = await memory.state_dict()
    good = {"_compressed_summary": "", "content": []}
    for error, state in [
        (KeyError, {}),
        (KeyError, {"content": []}),
        (KeyError, {"_compressed_summary": ""}),
        (KeyError, {**good, "more": 1}),
        (TypeError, []),
        (TypeError, None),
        (TypeError, {**good, "content": None}),
        (TypeError, {**good, "content": "x"}),
        (TypeError, {**good, "_compressed_summary": 1}),
        (TypeError, {**good, "_compressed_summary": None}),
        (ValueError, {**good, "content": ["x"]}),
        (ValueError, {**good, "content": [[{"id": "1"}, []]]}),
        (ValueError, {**good, "content": [[{**said("1").to_dict(), "extra": 1}, []]]}),
        (ValueError, {**good, "content": [[said("1").to_dict(), [], []]]}),
        (TypeError, {**good, "content": [[said("1").to_dict(), [1]]]}),
        (InvalidRecord, {**good, "content": [[said("a\0").to_dict(), []]]}),
    ]:
        with pytest.raises(error):
            await memory.load_state_dict(state)
        assert await memory.state_dict() == before


async def test_part_of_a_state(memory):
    """Without strict, what a state does not tell stays as it is, and what is unknown is passed over."""
    await filled(memory)
    await memory.load_state_dict({"_compressed_summary": "s", "more": 1}, strict=False)
    assert await texts(memory) == ["s", "1", "2", "3"]
    await memory.load_state_dict(
        {"content": [said("4").to_dict(), [said("5").to_dict(), None]]}, strict=False
    )
    assert await texts(memory) == ["s", "4", "5"]
    await memory.load_state_dict({}, strict=False)
    assert await texts(memory) == ["s", "4", "5"]
