"""An attribute that is assigned does what it says, or refuses: no face takes a value and goes on as before."""

import asyncio
import copy

import fakeredis
import pytest

from octavo import (
    Agent,
    ConfigError,
    EventStore,
    InMemoryMemory,
    MockAdapter,
    RedisMemory,
    SQLiteMemoryStore,
)
from octavo.chat import ChatMemory
from octavo.client import Client
from octavo.conversation import (
    ChatMessageHistory,
    CombinedMemory,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationEntityMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    FileChatMessageHistory,
    HumanMessage,
    MemoryMetrics,
    RecallRetriever,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
    VectorStoreRetrieverMemory,
)
from octavo.layers import LayeredMemory
from octavo.service import Core


def redis_memory():
    return RedisMemory(
        connection_pool=fakeredis.FakeAsyncRedis().connection_pool, key_ttl=60, key_prefix="p:"
    )


def agent():
    return Agent.create(name="a", model_adapter=MockAdapter())


FIXED = [
    (lambda: ChatMemory.open("memory://"), "content"),
    (redis_memory, "content"),
    (lambda: FileChatMessageHistory("history.json"), "file_path"),
    (lambda: RedisChatMessageHistory("s"), "session_id"),
    (lambda: RedisChatMessageHistory("s"), "key"),
    (lambda: RedisChatMessageHistory("s"), "state_key"),
    (lambda: StoreChatMessageHistory("memory://", "s"), "session_id"),
    (lambda: StoreChatMessageHistory("memory://", "s"), "user_id"),
    (lambda: StoreChatMessageHistory("memory://", "s"), "store"),
    (ConversationBufferMemory, "memory_variables"),
    (ConversationBufferMemory, "buffer"),
    (lambda: MemoryMetrics(ConversationBufferMemory()), "memory_type"),
    (SQLiteMemoryStore, "config"),
    (SQLiteMemoryStore, "url"),
    (SQLiteMemoryStore, "retention"),
    (agent, "memory_store"),
    (agent, "enable_memory"),
    (lambda: Core(enable_memory=False), "enable_memory"),
    (lambda: LayeredMemory("memory://"), "tenant"),
    (lambda: Client("http://127.0.0.1:1"), "base_url"),
]


@pytest.mark.parametrize(("make", "name"), FIXED, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_fixed_refuses(make, name, tmp_path, monkeypatch):
    """What is said once, when an object is made, cannot be said again; the error names the attribute."""
    monkeypatch.chdir(tmp_path)
    made = make()
    before = getattr(made, name, None)
    with pytest.raises(AttributeError, match=name):
        setattr(made, name, 2)
    assert getattr(made, name, None) is before or getattr(made, name) == before


def test_a_fixed_attribute_says_the_cure():
    with pytest.raises(AttributeError, match=r"StoreChatMessageHistory\.session_id cannot be changed: make"):
        StoreChatMessageHistory("memory://", "s").session_id = "t"


WRONG = [
    (ConversationBufferWindowMemory, "k", -1),
    (ConversationBufferWindowMemory, "keep", "everything"),
    (ConversationTokenBufferMemory, "max_token_limit", -1),
    (ConversationTokenBufferMemory, "keep", "everything"),
    (ConversationSummaryMemory, "llm", 7),
    (ConversationSummaryMemory, "keep", "everything"),
    (ConversationSummaryMemory, "language", "klingon"),
    (ConversationSummaryMemory, "max_summary_tokens", 0),
    (ConversationSummaryBufferMemory, "max_token_limit", -1),
    (ConversationEntityMemory, "k", -1),
    (ConversationEntityMemory, "llm", 7),
    (ConversationEntityMemory, "max_entities", 0),
    (lambda: RecallRetriever("memory://"), "k", 0),
    (lambda: RedisChatMessageHistory("s"), "ttl", 0),
    (lambda: CombinedMemory([ConversationBufferMemory()]), "memories", []),
    (lambda: VectorStoreRetrieverMemory(RecallRetriever("memory://")), "retriever", 7),
    (InMemoryMemory, "user_id", 7),
    (InMemoryMemory, "session_id", None),
    (redis_memory, "key_ttl", 0),
    (agent, "max_iterations", 0),
    (agent, "tools", ["no function"]),
    (agent, "middlewares", [7]),
    (agent, "model_adapter", 7),
]


@pytest.mark.parametrize(
    ("make", "name", "value"), WRONG, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_what_is_wrong_is_refused(make, name, value):
    """A value is checked when it is assigned as it is when the object is made, and the old one stays."""
    made = make()
    before = getattr(made, name)
    with pytest.raises((ValueError, TypeError, ConfigError)):
        setattr(made, name, value)
    assert getattr(made, name) is before or getattr(made, name) == before


def say(memory, *numbers):
    for number in numbers:
        memory.save_context({"input": f"question {number}"}, {"output": f"answer {number}"})


def test_a_window_moves():
    """`k` counts at once for what is shown, and for what is pruned with the next turn; the statistics know it."""
    memory = ConversationBufferWindowMemory(k=5)
    say(memory, 1, 2, 3)
    memory.k = 1
    assert memory.buffer == "Human: question 3\nAI: answer 3"
    assert memory.get_window_info()["max_window_size"] == 1
    say(memory, 4)
    assert len(memory.chat_memory.messages) == 2
    memory.keep = "all"
    say(memory, 5)
    assert len(memory.chat_memory.messages) == 4


class Counting:
    def __init__(self, cost):
        self.cost = cost

    def predict(self, prompt):
        return "S"

    def get_num_tokens(self, text):
        return self.cost


def test_another_model_counts():
    """Tokens are counted by the model there is now."""
    memory = ConversationTokenBufferMemory(llm=Counting(1), max_token_limit=10)
    say(memory, 1, 2)
    assert memory.get_token_info()["current_token_count"] == 4
    memory.llm = Counting(2)
    assert memory.get_token_info()["current_token_count"] == 8
    memory.max_token_limit = 4
    assert memory.get_token_info()["current_token_count"] == 4
    memory.llm = None
    assert memory.get_token_info()["estimated"]
    summing = ConversationSummaryBufferMemory(llm=Counting(1), max_token_limit=100)
    say(summing, 1, 2)
    assert summing.moving_summary_buffer == ""
    summing.llm = Counting(100)
    say(summing, 3)
    assert summing.moving_summary_buffer == "S"


def test_entities_are_replaced():
    """Another store of entities, and another cache, take the place of those that were learned, in the history too."""
    history = ChatMessageHistory()
    memory = ConversationEntityMemory(chat_memory=history)
    memory._update_entity_info("Alice", "Alice likes tea.")
    memory.entity_store = {"Bob": "likes coffee"}
    memory.entity_cache = ["Bob"]
    told = memory.load_memory_variables({"input": "Do Alice and Bob agree?"})["entities"]
    assert told == {"Bob": "likes coffee"}
    assert memory.entity_cache == ["Bob"]
    again = ConversationEntityMemory(chat_memory=history)
    assert again.load_memory_variables({"input": "Alice? Bob?"})["entities"] == {"Bob": "likes coffee"}


def test_members_are_replaced():
    """The statistics and the variables are those of the members there are."""
    memory = CombinedMemory([ConversationBufferMemory()])
    memory.memories = [
        ConversationBufferMemory(memory_key="a"),
        ConversationBufferWindowMemory(memory_key="b"),
    ]
    assert memory.memory_variables == ["a", "b"]
    stats = memory.get_combined_stats()
    assert (stats["memory_count"], stats["memory_types"]) == (
        2, ["ConversationBufferMemory", "ConversationBufferWindowMemory"],
    )  # fmt: skip


def test_another_retriever_answers():
    """Answers of the one before are forgotten."""
    first, second = RecallRetriever("memory://"), RecallRetriever("memory://")
    first.add_texts(["tea is green"])
    second.add_texts(["tea is black"])
    memory = VectorStoreRetrieverMemory(first)
    assert "green" in memory.load_memory_variables({"input": "tea"})["history"]
    memory.retriever = second
    assert "black" in memory.load_memory_variables({"input": "tea"})["history"]


def test_another_memory_is_measured():
    metrics = MemoryMetrics(ConversationBufferMemory())
    metrics.memory = ConversationBufferWindowMemory()
    assert (
        metrics.memory_type
        == metrics.get_performance_summary()["memory_type"]
        == "ConversationBufferWindowMemory"
    )


async def test_an_agent_is_changed():
    """Tools, middlewares, model, prompt and patience are those there are when a run begins."""

    def shout(text: str) -> str:
        return text.upper()

    class Polite:
        def post(self, response):
            return f"{response}, please"

    made = agent()
    made.tools = [shout]
    made.middlewares = [Polite()]
    made.system_prompt = "Be brief."
    made.model_adapter = MockAdapter(script=[MockAdapter.call("shout", text="hi"), "done"])
    made.max_iterations = 2
    result = await made.run("go")
    assert (result["response"], result["tool_calls"][0]["result"]) == ("done, please", "HI")
    assert made.model_adapter.asked[0][0]["content"] == "Be brief."
    made.tools = {}
    assert not made.tools
    await made.aclose()


def test_copies_keep_what_is_fixed():
    """A copied object is as fixed as the first."""
    history = copy.copy(FileChatMessageHistory("a.json"))
    assert history.file_path == "a.json"
    with pytest.raises(AttributeError):
        history.file_path = "b.json"


def test_a_subclass_has_attributes_of_its_own():
    """What a user's class adds is its own business."""

    class Mine(InMemoryMemory):
        def __init__(self):
            super().__init__()
            self.colour = "red"

    class Store(EventStore):
        def __init__(self):
            super().__init__("memory://")
            self.colour = "red"

    made = [Mine(), Store()]
    for one in made:
        one.colour = "blue"
        assert one.colour == "blue"
    asyncio.run(made[1].close())
    assert (
        ConversationBufferMemory(chat_memory=ChatMessageHistory([HumanMessage("hi")])).buffer == "Human: hi"
    )
