"""Histories: the same answers in memory, in a file, in Redis, on every store and in one of a user's own."""

import threading

import pytest
from talk import TALK, said

from octavo import InvalidRecord
from octavo.conversation import (
    AIMessage,
    BaseChatMessageHistory,
    BaseMessage,
    ChatMessageHistory,
    HumanMessage,
)


def test_everything_comes_back(histories):
    """Messages come back equal and in order, from another object on the same place too."""
    history = histories.open()
    assert (history.messages, history.count(), history.latest(3), history.trim(0)) == ([], 0, [], 0)
    history.add_messages(TALK)
    history.add_user_message("谢谢")
    history.add_ai_message("不客气")
    history.add_message(HumanMessage("bye"))
    whole = [*TALK, HumanMessage("谢谢"), AIMessage("不客气"), HumanMessage("bye")]
    assert history.messages == whole
    assert histories.open().messages == whole
    assert history.count() == 8
    assert history.latest(2) == whole[-2:]
    assert history.latest(0) == []
    assert history.latest(100) == whole


def test_trim_drops_the_oldest(histories):
    history = histories.open()
    history.add_messages([HumanMessage(str(at)) for at in range(10)])
    assert history.trim(20) == 0
    assert history.trim(4) == 6
    assert said(histories.open().messages) == ["6", "7", "8", "9"]
    assert history.trim(0) == 4
    assert histories.open().messages == []
    for wrong in (-1, True, 1.0, "1", None):
        with pytest.raises(ValueError, match="n is 0 or more; got "):
            history.latest(wrong)
        with pytest.raises(ValueError, match="keep_last is 0 or more; got "):
            history.trim(wrong)


def test_replace_and_assign(histories):
    history = histories.open()
    history.add_messages(TALK)
    history.set_state("summary", {"summary": "s"})
    history.messages = TALK[1:3]
    assert histories.open().messages == TALK[1:3]
    history.replace([])
    assert histories.open().messages == []
    assert history.get_state("summary") == {"summary": "s"}


def test_states_live_with_the_messages(histories):
    history = histories.open()
    assert history.get_state("summary") is None
    history.add_messages(TALK)
    history.set_state("summary", {"summary": "第一", "n": 1})
    history.set_state("summary", {"summary": "第二"})
    history.set_state("entities", {"小明": {"info": "住在上海"}})
    again = histories.open()
    assert again.get_state("summary") == {"summary": "第二"}
    assert again.get_state("entities") == {"小明": {"info": "住在上海"}}
    assert again.messages == TALK
    again.get_state("entities")["小明"]["info"] = "changed"
    assert again.get_state("entities") == {"小明": {"info": "住在上海"}}
    again.clear()
    assert histories.open().messages == []
    assert (history.get_state("summary"), history.get_state("entities")) == (None, None)


def test_what_stands_before_what_was_read_goes(histories):
    """However many others have added or dropped meanwhile: what was read stays, and so does what came later."""
    history, other = histories.open(), histories.open()
    history.add_messages([HumanMessage(str(at)) for at in range(6)])
    kept = history.latest(3)
    other.add_messages([HumanMessage("late"), HumanMessage("later")])
    assert history.trim_before(kept) == 3
    assert said(histories.open().messages) == ["3", "4", "5", "late", "later"]
    assert history.trim_before(kept) == 0
    assert history.trim_before([]) == 0
    other.trim(1)
    assert history.trim_before(kept) == 0
    assert said(histories.open().messages) == ["later"]


def test_only_what_was_read_is_folded(histories):
    """Of two who read the same, the one that comes second changes nothing, and is told so."""
    history, other = histories.open(), histories.open()
    history.add_messages([HumanMessage(str(at)) for at in range(4)])
    read = history.messages[:2]
    assert history.fold_messages(read, "summary", {"summary": "0 1"}, {})
    other.add_message(HumanMessage("4"))
    assert not other.fold_messages(read, "summary", {"summary": "late"}, {})
    assert said(histories.open().messages) == ["2", "3", "4"]
    assert other.get_state("summary") == {"summary": "0 1"}
    assert other.fold_messages(other.messages, "summary", {"summary": "all"}, {"summary": "0 1"})
    assert histories.open().messages == []
    assert other.fold_messages([], "summary", {"summary": "more"}, {"summary": "all"})
    assert not history.fold_messages([], "summary", {"summary": "less"}, {"summary": "all"})
    assert histories.open().get_state("summary") == {"summary": "more"}


async def test_every_twin(histories):
    """The twins do what the plain ones do, on the caller's event loop."""
    history = histories.open()
    await history.aadd_messages(TALK)
    await history.aadd_user_message("谢谢")
    await history.aadd_ai_message("不客气")
    await history.aadd_message(HumanMessage("bye"))
    assert await history.acount() == 8
    assert said(await history.alatest(2)) == ["不客气", "bye"]
    assert await history.atrim(3) == 5
    await history.aset_state("summary", {"summary": "s"})
    assert await history.aget_state("summary") == {"summary": "s"}
    oldest = (await history.aget_messages())[:1]
    assert await history.afold_messages(oldest, "summary", {"summary": "t"}, {"summary": "s"})
    assert said(await history.aget_messages()) == ["不客气", "bye"]
    assert await history.atrim_before(await history.alatest(1)) == 1
    await history.areplace(TALK[:1])
    assert await history.aget_messages() == TALK[:1]
    await history.aclear()
    assert await history.acount() == 0
    assert await history.aget_state("summary") is None
    await history.aclose()


def test_what_cannot_be_kept_is_refused_whole(lasting):
    """One bad message of a batch refuses all of it, and what was there stays."""
    history = lasting.open()
    history.add_user_message("kept")
    for bad in (HumanMessage("x", additional_kwargs={"x": object()}), HumanMessage("half \ud800")):
        with pytest.raises(InvalidRecord):
            history.add_messages([HumanMessage("fine"), bad])
        with pytest.raises(InvalidRecord):
            history.replace([bad])
    with pytest.raises(InvalidRecord):
        history.set_state("summary", {"x": object()})
    with pytest.raises(TypeError, match="made of messages"):
        history.add_messages(["text"])
    assert said(lasting.open().messages) == ["kept"]


def test_what_is_no_message_is_refused(histories):
    history = histories.open()
    for bad in (None, "text", {"role": "user", "content": "x"}):
        with pytest.raises(TypeError, match="a history is made of messages; got "):
            history.add_message(bad)
        with pytest.raises(TypeError, match="made of messages"):
            history.add_messages([HumanMessage("fine"), bad])
        with pytest.raises(TypeError, match="made of messages"):
            history.replace([bad])
    for bad in (None, HumanMessage("alone")):
        with pytest.raises(TypeError, match="messages are a list of messages; got "):
            history.add_messages(bad)
        with pytest.raises(TypeError, match="messages are a list of messages; got "):
            history.messages = bad
    for name in ("", None, 5):
        with pytest.raises(InvalidRecord, match="the name of a state is a text"):
            history.set_state(name, {"x": 1})
    assert history.messages == []


def test_what_could_not_be_read_again_is_refused(histories):
    """A message of an unknown kind would make the whole history unreadable, half a surrogate pair its summary."""

    class Spoken(HumanMessage):
        type = "spoken"

    history = histories.open()
    for bad in (BaseMessage("x"), Spoken("x")):
        with pytest.raises(ValueError, match="is not known; known: human, ai"):
            history.add_message(bad)
    for bad in ("half \ud83d", [{"type": "text", "text": "half \ud83d"}]):
        with pytest.raises(InvalidRecord, match="half a surrogate pair at 5"):
            history.add_user_message(HumanMessage(bad))
        with pytest.raises(InvalidRecord, match="half a surrogate pair"):
            history.messages = [HumanMessage(bad)]
    history.add_user_message("fine")
    assert said(histories.open().messages) == ["fine"]


def test_any_sequence_of_messages_will_do(histories):
    history = histories.open()
    history.messages = (HumanMessage("a"),)
    history.add_messages(HumanMessage(text) for text in "bc")
    history.add_messages(message for message in ())
    assert said(histories.open().messages) == ["a", "b", "c"]


def test_writers_at_once_lose_nothing(lasting):
    """Four objects on one conversation, one thread each: every message of each is there, in its own order."""
    first = lasting.open()
    first.count()  # tables are made
    opened = [lasting.open() for _ in range(4)]

    def write(at):
        for number in range(10):
            opened[at].add_messages([HumanMessage(f"{at}:{number}"), AIMessage("ok")])

    threads = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = first.messages
    assert len(messages) == 80
    asked = [message.content for message in messages if isinstance(message, HumanMessage)]
    for at in range(4):
        assert [one for one in asked if one.startswith(f"{at}:")] == [f"{at}:{n}" for n in range(10)]


class ByProperty(BaseChatMessageHistory):
    """A history of a user's own with the least there can be."""

    def __init__(self):
        self.rows = []

    @property
    def messages(self):
        return list(self.rows)

    def add_message(self, message):
        self.rows.append(message)

    def clear(self):
        self.rows.clear()


class BySeed(BaseChatMessageHistory):
    """One that keeps a plain list and relies on the rest, as the documented base does."""

    def __init__(self):
        self.messages = []


class Plural(ByProperty):
    add_message = BaseChatMessageHistory.add_message

    def add_messages(self, messages):
        self.rows.extend(messages)


@pytest.mark.parametrize("kind", [ByProperty, BySeed, Plural, ChatMessageHistory])
async def test_a_history_of_ones_own(kind):
    """The rest follows from very little."""
    history = kind()
    history.add_user_message("1")
    history.add_ai_message("2")
    history.add_messages([HumanMessage("3"), AIMessage("4")])
    await history.aadd_message(HumanMessage("5"))
    history.set_state("summary", {"summary": "s"})
    assert history.trim(4) == 1
    assert said(await history.alatest(3)) == ["3", "4", "5"]
    assert await history.afold_messages(history.messages[:1], "summary", {"summary": "t"}, {"summary": "s"})
    assert said(history.messages) == ["3", "4", "5"]
    assert history.get_state("summary") == {"summary": "t"}
    history.clear()
    assert history.count() == 0
