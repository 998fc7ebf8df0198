"""VectorStoreRetrieverMemory and RecallRetriever: exchanges kept as documents, and found again by what is asked."""

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from octavo.conversation.messages import AIMessage, HumanMessage
from octavo.conversation.retrieval import Document, RecallRetriever, VectorStoreRetrieverMemory
from octavo.errors import ConfigError, InvalidRecord, StoreClosed
from octavo.kernel.model import Query
from octavo.stores import open_store


class Shelf:
    """A vector store and retriever of a caller's own: newest first, whatever is asked."""

    def __init__(self):
        self.documents = []
        self.asked = []

    @property
    def vectorstore(self):
        return self

    def add_texts(self, texts, metadatas=None):
        self.documents += [Document(text, meta) for text, meta in zip(texts, metadatas, strict=True)]

    def get_relevant_documents(self, query):
        self.asked.append(query)
        return self.documents[::-1]

    def delete_collection(self):
        self.documents.clear()


class Awaited:
    """One that can only be awaited, takes documents, and cannot delete."""

    def __init__(self):
        self.documents = []

    async def aadd_documents(self, documents):
        self.documents += documents

    async def ainvoke(self, query):
        return list(self.documents)


async def call(memory, verb, how, *args):
    return getattr(memory, verb)(*args) if how == "plain" else await getattr(memory, f"a{verb}")(*args)


@pytest.fixture(params=["memory", "sqlite", "file", "postgres", "mysql", "redis"])
def url(request, tmp_path, fresh_url):
    """An empty store of each kind."""
    return {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/exchanges.db",
        "file": lambda: f"file://{tmp_path}/exchanges",
    }.get(request.param, lambda: fresh_url(request.param))()


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_octavos_own_recall(url, how):
    """On every store, Chinese and English: what bears on the input comes back with its time, best first."""
    retriever = RecallRetriever(url, "lin", k=1)
    try:
        memory = VectorStoreRetrieverMemory(retriever)
        turns = [
            ("我对花生过敏", "记住了，不吃花生"),
            ("My favourite colour is green", "Noted"),
            ("周五去杭州出差", "好的"),
        ]
        for asked, answered in turns:
            await call(memory, "save_context", how, {"input": asked}, {"output": answered})
        found = await call(memory, "load_memory_variables", how, {"input": "花生酱可以吃吗？"})
        assert re.fullmatch(
            r"\[\d{4}-\d\d-\d\d \d\d:\d\d\] Human: 我对花生过敏\nAI: 记住了，不吃花生", found["history"]
        )
        found = await call(memory, "load_memory_variables", how, {"input": "which colour do I like?"})
        assert found["history"].endswith("Human: My favourite colour is green\nAI: Noted")
        await call(memory, "clear", how)
        assert await call(memory, "load_memory_variables", how, {"input": "花生"}) == {"history": ""}
    finally:
        await retriever.aclose()


def test_documents_and_their_metadata():
    """The documented text and metadata; what is handed out can be changed without changing what is kept."""
    shelf = Shelf()
    memory = VectorStoreRetrieverMemory(shelf, memory_key="past", return_docs=True)
    before = time.time()
    memory.save_context({"question": "谁?", "stop": ["x"]}, {"answer": "我"})
    [document] = memory.load_memory_variables({"question": "谁?"})["past"]
    assert document.page_content == "Human: 谁?\nAI: 我"
    assert {*document.metadata} == {"input", "output", "timestamp", "conversation_id"}
    assert (document.metadata["input"], document.metadata["output"]) == ("谁?", "我")
    assert before <= document.metadata["timestamp"] <= time.time()
    assert re.fullmatch(r"[0-9a-f]{8}", document.metadata["conversation_id"])
    document.metadata.clear()
    [again] = memory.load_memory_variables({"question": "谁?"})["past"]
    assert again.metadata["input"] == "谁?"
    assert memory.memory_variables == ["past"]


def test_documents_without_a_time():
    shelf = Shelf()
    shelf.documents = [Document("one"), Document("two", {"timestamp": 0})]
    shown = VectorStoreRetrieverMemory(shelf).load_memory_variables({"input": "x"})["history"]
    assert re.fullmatch(r"\[19(70|69)-\d\d-\d\d \d\d:\d\d\] two\n\none", shown)


@pytest.mark.parametrize("how", ["plain", "awaited"])
async def test_one_that_can_only_be_awaited(how, caplog):
    memory = VectorStoreRetrieverMemory(Awaited())
    await call(memory, "save_context", how, {"input": "a"}, {"output": "b"})
    assert (await call(memory, "load_memory_variables", how, {"input": "a"}))["history"].endswith("AI: b")
    await call(memory, "clear", how)
    assert "what is kept there stays" in caplog.text


def test_keys():
    """The given key, else the only one that is neither excluded, `stop` nor the memory's own."""
    shelf = Shelf()
    memory = VectorStoreRetrieverMemory(shelf, exclude_input_keys=["user"])
    inputs = {"input": "hi", "user": "lin", "history": "old", "stop": None}
    memory.save_context(inputs, {"output": AIMessage("yes"), "usage": 3})
    memory.load_memory_variables({**inputs, "input": HumanMessage("hello")})
    assert shelf.documents[0].page_content == "Human: hi\nAI: yes"
    assert shelf.asked == ["hello"]
    with pytest.raises(ValueError, match="'a', 'b'; give input_key"):
        memory.load_memory_variables({"a": "1", "b": "2"})
    with pytest.raises(ValueError, match="'x', 'y'; give output_key"):
        memory.save_context({"input": "1"}, {"x": "1", "y": "2"})
    with pytest.raises(ValueError, match="input_key is 'q', and there is no such key: 'a'"):
        VectorStoreRetrieverMemory(shelf, input_key="q").load_memory_variables({"a": "1"})
    keyed = VectorStoreRetrieverMemory(shelf, input_key="a", output_key="y")
    keyed.save_context({"a": "1", "b": "2"}, {"x": "3", "y": {"n": 4}})
    assert shelf.documents[-1].page_content == 'Human: 1\nAI: {"n": 4}'


def test_the_cache_and_its_statistics():
    """Answers are given again until something is saved; the hit rate is a part of all questions."""
    shelf = Shelf()
    memory = VectorStoreRetrieverMemory(shelf, cache_size=2)
    assert memory.get_retrieval_stats()["cache_hit_rate"] == 0
    memory.save_context({"input": "a"}, {"output": "b"})
    for query in ("one", "one", "one", "two", "one", "three", "two", "one"):
        memory.load_memory_variables({"input": query})
    # "three" drove out "two", which had been asked for before "one" was; "two" then drove out "one".
    assert shelf.asked == ["one", "two", "three", "two", "one"]
    stats = memory.get_retrieval_stats()
    assert stats.pop("average_retrieval_time") > 0
    assert stats == {
        "total_contexts_saved": 1, "total_retrievals": 5, "total_documents_stored": 1, "cache_hits": 3,
        "cache_hit_rate": 3 / 8, "cache_size": 2, "memory_type": "VectorStoreRetrieverMemory",
    }  # fmt: skip
    memory.save_context({"input": "c"}, {"output": "d"})
    assert "Human: c" in memory.load_memory_variables({"input": "one"})["history"]
    memory.clear()
    assert memory.get_retrieval_stats()["total_retrievals"] == memory.get_retrieval_stats()["cache_size"] == 0


def test_the_average_is_of_all_retrievals(monkeypatch):
    from octavo.conversation import retrieval

    ticks = iter([0.0, 1.0, 10.0, 13.0, 20.0, 25.0])
    monkeypatch.setattr(retrieval.time, "perf_counter", lambda: next(ticks))
    memory = VectorStoreRetrieverMemory(Shelf(), cache_size=0)
    for _ in range(3):
        memory.load_memory_variables({"input": "x"})
    stats = memory.get_retrieval_stats()
    assert (stats["average_retrieval_time"], stats["cache_size"], stats["cache_hits"]) == (3.0, 0, 0)


async def test_an_answer_that_became_old_is_not_cached():
    """Something is saved while a search is under way: its answer is given, and not given again."""
    searching, go = threading.Event(), threading.Event()

    class Slow(Shelf):
        def get_relevant_documents(self, query):
            found = super().get_relevant_documents(query)
            if len(self.asked) == 1:
                searching.set()
                go.wait(30)
            return found

    memory = VectorStoreRetrieverMemory(Slow())
    first = asyncio.create_task(memory.aload_memory_variables({"input": "x"}))
    await asyncio.to_thread(searching.wait, 30)
    await memory.asave_context({"input": "new"}, {"output": "b"})
    go.set()
    assert await first == {"history": ""}
    assert "Human: new" in (await memory.aload_memory_variables({"input": "x"}))["history"]


def test_many_threads(tmp_path):
    """Blocking calls from many threads at once: every exchange is kept and counted, and every question answered."""
    with RecallRetriever(f"sqlite:///{tmp_path}/x.db", k=1) as retriever:
        memory = VectorStoreRetrieverMemory(retriever, cache_size=3)

        def talk(at):
            for turn in range(5):
                memory.save_context({"input": f"word{at}x{turn}"}, {"output": "ok"})
                found = memory.load_memory_variables({"input": f"word{at}x{turn}"})["history"]
                assert f"Human: word{at}x{turn}\n" in found
            return True

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(talk, range(8)))
        stats = memory.get_retrieval_stats()
        assert stats["total_documents_stored"] == 40
        assert stats["total_retrievals"] + stats["cache_hits"] == 40
        assert stats["cache_size"] <= 3


def test_what_is_no_retriever():
    with pytest.raises(ConfigError, match="str has none of them"):
        VectorStoreRetrieverMemory("sqlite:///x.db")
    with pytest.raises(ConfigError, match="cache_size is a number of answers from 0 on; got -1"):
        VectorStoreRetrieverMemory(Shelf(), cache_size=-1)
    with pytest.raises(TypeError, match="list of names"):
        VectorStoreRetrieverMemory(Shelf(), exclude_input_keys="user")

    class Finds:
        def invoke(self, query):
            return []

    with pytest.raises(ConfigError, match="neither add_texts nor add_documents"):
        VectorStoreRetrieverMemory(Finds()).save_context({"input": "a"}, {"output": "b"})


def test_users_and_sessions(tmp_path):
    """Nobody finds, counts or removes what is another's; without a session, all of one's own are looked in."""
    url = f"sqlite:///{tmp_path}/x.db"
    with (
        RecallRetriever(url, "alice", "one") as one,
        RecallRetriever(url, "alice", "two") as two,
        RecallRetriever(url, "alice") as all_of_hers,
        RecallRetriever(url, "bob") as bob,
        RecallRetriever(url, "alice", tenant="other") as elsewhere,
    ):
        one.add_texts(["the red door"])
        two.add_documents([Document("the red car", {"n": 1}, "car")])
        assert [doc.page_content for doc in one.invoke("red")] == ["the red door"]
        assert {doc.page_content for doc in all_of_hers.invoke("red")} == {"the red door", "the red car"}
        assert two.get_relevant_documents("red") == [Document("the red car", {"n": 1}, "car")]
        assert bob.invoke("red") == elsewhere.invoke("red") == []
        bob.delete_collection()
        elsewhere.delete_collection()
        one.delete_collection()
        assert [doc.page_content for doc in all_of_hers.invoke("red")] == ["the red car"]


async def test_a_store_that_is_handed_in():
    """It is used on its own loop, stays open, and a blocking call that would wait for itself is refused."""
    async with open_store("memory://") as store:
        retriever = RecallRetriever(store, "lin")
        memory = VectorStoreRetrieverMemory(retriever)
        await memory.asave_context({"input": "tea"}, {"output": "green"})
        assert "green" in (await memory.aload_memory_variables({"input": "tea"}))["history"]
        with pytest.raises(RuntimeError, match="would wait for itself"):
            memory.load_memory_variables({"input": "tea"})
        with pytest.raises(RuntimeError, match="would wait for itself"):
            retriever.invoke("tea")
        found = await asyncio.to_thread(memory.load_memory_variables, {"input": "more tea"})
        assert "green" in found["history"]
        await retriever.aclose()
        [record] = await store.find(Query(collection="exchanges"))
        assert record.text == "Human: tea\nAI: green"


def test_what_cannot_be_kept(tmp_path):
    """A refused document is an error, nothing of its batch is kept, and a closed retriever says so."""
    retriever = RecallRetriever(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(InvalidRecord):
        retriever.add_texts(["fine", "bad \x00"])
    assert retriever.invoke("fine") == []
    with pytest.raises(InvalidRecord):
        retriever.add_texts(["fine"], [{"what": object()}])
    with pytest.raises(ValueError, match="2 texts and 1 metadata"):
        retriever.add_texts(["a", "b"], [{}])
    with pytest.raises(TypeError, match="list of strings"):
        retriever.add_texts("abc")
    assert retriever.add_texts([]) == []
    retriever.close()
    retriever.close()
    with pytest.raises(StoreClosed):
        retriever.invoke("fine")
    with pytest.raises(ConfigError, match="from 1 on"):
        RecallRetriever("memory://", k=0)
    with pytest.raises(TypeError, match="user_id is a string"):
        RecallRetriever("memory://", 7)
