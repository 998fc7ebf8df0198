"""LangChain's chains on Octavo's histories and memories: run in the frameworks' environment, reports as JSON."""

import asyncio
import json
import sys
import warnings

from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.vectorstores import InMemoryVectorStore

from octavo import InvalidRecord, conversation
from octavo.integrations import langchain as ours

try:
    from langchain_classic import memory as classic
    from langchain_classic.base_memory import BaseMemory
    from langchain_classic.chains import ConversationChain
    from langchain_classic.memory import ReadOnlySharedMemory, SimpleMemory
except ImportError:  # LangChain before 1.0
    from langchain import memory as classic
    from langchain.chains import ConversationChain
    from langchain.memory import ReadOnlySharedMemory, SimpleMemory
    from langchain_core.memory import BaseMemory

CALL = {"name": "weather", "args": {"city": "杭州", "days": [1, None]}, "id": "call-1", "type": "tool_call"}


def said(message):
    """Its text, which is of a class of LangChain's own, or told by a method before 1.0."""
    return message.text if isinstance(message.text, str) else message.text()


class Scripted(GenericFakeChatModel):
    """A model that answers by a script and writes down what it was asked."""

    asked: list

    def _generate(self, messages, *arguments, **options):
        self.asked.append([said(message) for message in messages])
        return super()._generate(messages, *arguments, **options)


def scripted(*answers):
    return Scripted(messages=iter(answers), asked=[])


def every_kind():
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    broken = {"name": "weather", "args": "{", "id": "call-2", "error": "no JSON", "type": "invalid_tool_call"}
    return [
        SystemMessage("Be kind.", id="first"),
        HumanMessage("早上好 😀", name="lin", additional_kwargs={"deep": {"a": [1, "二", None, True]}}),
        HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,x"}}, "plain"]),
        AIMessage("", tool_calls=[CALL], invalid_tool_calls=[broken], usage_metadata=usage, response_metadata={"model": "m"}),
        AIMessage("text", additional_kwargs={"refusal": None}, id="run-7"),
        ToolMessage("23", tool_call_id="call-1", artifact={"raw": [23.5]}, status="error", name="weather"),
        FunctionMessage("ok", name="f"),
        ChatMessage("hm", role="narrator"),
        HumanMessage("", something_new={"kept": 1}),
        HumanMessage([{"type": "text", "text": said(AIMessage("again"))}], additional_kwargs={"a": [said(AIMessage("b"))]}),
    ]  # fmt: skip


def texts(messages):
    return [message.content for message in messages]


async def lossless(history):
    """Messages of every kind come back as they were given, whichever way they went."""
    given = every_kind()
    history.add_messages(given[:4])
    await history.aadd_messages(given[4:])
    same = history.messages == given == await history.aget_messages()
    exact = [type(message) for message in history.messages] == [type(message) for message in given]
    history.messages = given[2:4]
    replaced = history.messages == given[2:4]
    await history.aclear()
    return same and exact and replaced and history.messages == []


def refused(history):
    """What is no message is refused, with all that came with it."""
    history.add_user_message("before")
    try:
        history.add_messages([HumanMessage("with it"), RemoveMessage(id="first")])
    except InvalidRecord as error:
        return texts(history.messages) == ["before"] and "RemoveMessage cannot be kept" in str(error)
    return False


async def talk(opened):
    """Four turns of a runnable, each time with a history that is opened anew: blocking, awaited, streamed, with a tool."""
    called = AIMessage("", tool_calls=[CALL])
    model = scripted(
        AIMessage("Hello Lin."), AIMessage("You are Lin."), AIMessage("Once upon a time"), called
    )
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be kind."), MessagesPlaceholder("past"), ("human", "{question}")]
    )
    used = []

    def opened_again(session_id):
        used.append(opened(session_id))
        return used[-1]

    chain = RunnableWithMessageHistory(
        prompt | model, opened_again, input_messages_key="question", history_messages_key="past"
    )
    config = {"configurable": {"session_id": "monday"}}
    chain.invoke({"question": "I am Lin."}, config)
    await chain.ainvoke({"question": "Who am I?"}, config)
    streamed = "".join([chunk.content async for chunk in chain.astream({"question": "A story"}, config)])
    chain.invoke({"question": "Weather?"}, config)
    kept, other = opened("monday"), opened("tuesday")
    messages = kept.messages
    report = {
        "real": all(isinstance(history, BaseChatMessageHistory) for history in used),
        "asked": model.asked[-1],
        "streamed": streamed,
        "kept": texts(messages),
        "kinds": [type(message).__name__ for message in messages],
        "calls": messages[-1].tool_calls,
        "shown": str(kept).splitlines()[0],
        "other": texts(other.messages),
    }
    for history in (*used, kept, other):
        history.close()
    return report


def plain_messages(history):
    """A runnable that takes and gives messages, with no key for the past."""
    seen = []

    def reply(messages):
        seen.append(texts(messages))
        return AIMessage(f"answer {len(messages)}")

    chain = RunnableWithMessageHistory(RunnableLambda(reply), lambda session_id: history)
    for question in ("one", "two"):
        chain.invoke([HumanMessage(question)], {"configurable": {"session_id": "s"}})
    return seen, texts(history.messages)


async def users(sessions):
    """Sessions of the same name of two users, told apart by the configuration of the chain."""
    fields = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "session_id")]
    reply = RunnableLambda(lambda messages: AIMessage("yes"))
    chain = RunnableWithMessageHistory(reply, sessions.for_user, history_factory_config=fields)
    for user in ("lin", "wei"):
        await chain.ainvoke([HumanMessage(user)], {"configurable": {"user_id": user, "session_id": "same"}})
    return [texts(sessions.for_user(user, "same").messages) for user in ("lin", "wei", "")]


async def chained(memory, *answers, questions=("I am Lin from 杭州.", "Who am I?"), prompt=None):
    """What a ConversationChain's model was asked in the last turn; turns block and are awaited in turn."""
    model = scripted(*(AIMessage(answer) for answer in answers or ("Hello.", "You are Lin.")))
    chain = ConversationChain(llm=model, memory=memory, **({"prompt": prompt} if prompt else {}))
    replies = []
    for number, question in enumerate(questions):
        turn = {"input": question}
        replies.append((await chain.ainvoke(turn) if number % 2 else chain.invoke(turn))["response"])
    return {"real": isinstance(memory, BaseMemory), "asked": model.asked[-1], "replies": replies}


def with_past(name):
    return ChatPromptTemplate.from_messages([MessagesPlaceholder(name), ("human", "{input}")])


async def memories(folder):
    """Each of the memories in a chain."""
    where = f"sqlite:///{folder}/memories.db"
    told = {}
    with ours.StoreChatMessageHistory(where, "buffer") as history:
        buffer = ours.ConversationBufferMemory(chat_memory=history)
        told["buffer"] = await chained(buffer)
        told["buffer"]["text"] = buffer.buffer
        told["buffer"]["history"] = texts(buffer.chat_memory.messages)
        told["buffer"]["stats"] = buffer.get_memory_stats()["message_count"]
        shared = ReadOnlySharedMemory(memory=buffer)
        told["shared"] = shared.load_memory_variables({})["history"] == buffer.buffer
    with ours.StoreChatMessageHistory(where, "buffer") as history:
        again = ours.ConversationBufferMemory(chat_memory=history, memory_key="past", return_messages=True)
        told["messages"] = await chained(again, "Bye.", questions=("Bye",), prompt=with_past("past"))
        told["messages"]["kinds"] = [type(one).__name__ for one in again.load_memory_variables({})["past"]]
        again.clear()
        told["messages"]["cleared"] = history.messages
    borrowed = InMemoryChatMessageHistory()
    window = ours.ConversationBufferWindowMemory(k=1, chat_memory=borrowed)
    told["window"] = await chained(window, "1", "2", "3", questions="abc")
    told["window"]["theirs"] = texts(borrowed.messages)
    told["window"]["same"] = window.chat_memory is borrowed
    tokens = ours.ConversationTokenBufferMemory(max_token_limit=8)
    told["tokens"] = await chained(
        tokens, *["fine"] * 9, questions=[f"question number {n}" for n in range(9)]
    )
    told["tokens"]["left"] = len(tokens.chat_memory.messages)
    writer = scripted(AIMessage("Lin is from 杭州."), AIMessage("Lin is known."))
    summary = ours.ConversationSummaryMemory(
        llm=writer, summary_message_cls=HumanMessage, return_messages=True
    )
    told["summary"] = await chained(summary, prompt=with_past("history"))
    told["summary"]["text"] = summary.buffer
    told["summary"]["kind"] = type(summary.load_memory_variables({})["history"][0]).__name__
    told["combined"] = await combined()
    return told


async def combined():
    """A summary without a model, and a window, side by side."""
    memory = ours.CombinedMemory(
        memories=[
            ours.ConversationSummaryMemory(memory_key="summary", input_key="input"),
            ours.ConversationBufferWindowMemory(k=1, memory_key="recent", input_key="input"),
        ]
    )
    prompt = PromptTemplate.from_template("{summary}\n--\n{recent}\n--\n{input}")
    return await chained(memory, prompt=prompt)


async def found():
    """A memory that retrieves, over a vector store of LangChain's."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    memory = ours.VectorStoreRetrieverMemory(
        retriever=store.as_retriever(search_kwargs={"k": 1}), input_key="input"
    )
    told = await chained(memory)
    docs = ours.VectorStoreRetrieverMemory(
        retriever=store.as_retriever(), input_key="input", return_docs=True
    )
    got = docs.load_memory_variables({"input": "Lin"})["history"]
    told["docs"] = sorted(document.page_content for document in got if isinstance(document, Document))
    return told


async def entities():
    """A memory of who is spoken of, without a model."""
    memory = ours.ConversationEntityMemory()
    memory.save_context({"input": "Alice lives in 杭州."}, {"output": "I see."})
    return sorted(memory.entity_store)


async def recalled(folder):
    """A memory that retrieves by Octavo's own recall."""
    with conversation.RecallRetriever(f"sqlite:///{folder}/recall.db") as retriever:
        told = await chained(ours.VectorStoreRetrieverMemory(retriever=retriever, input_key="input"))
        memory = ours.VectorStoreRetrieverMemory(retriever=retriever, input_key="input", return_docs=True)
        [document] = memory.load_memory_variables({"input": "杭州"})["history"]
    told["theirs"] = type(document) is Document and bool(document.id)
    told["text"], told["said"] = document.page_content, document.metadata["input"]
    return told


def assigned():
    """Attributes of the memory inside are changed through the one outside; what neither has is refused."""
    memory = ours.ConversationBufferWindowMemory(k=5)
    for number in range(3):
        memory.save_context({"input": f"question {number}"}, {"output": f"answer {number}"})
    memory.k = 1
    memory.return_messages = True
    shown = memory.load_memory_variables({})["history"]
    refused = []
    for name, value in (("k", -1), ("buffer", "x"), ("window", 3)):
        try:
            setattr(memory, name, value)
        except (AttributeError, ValueError) as error:
            refused.append(type(error).__name__)
    return [memory.octavo.k, [message.content for message in shown], refused]


async def measured():
    """A memory that is measured, in a chain."""
    memory = ours.OctavoMemory(conversation.MemoryMetrics(ours.ConversationBufferMemory()))
    told = await chained(memory)
    told["counts"] = [memory.metrics[name] for name in ("load_count", "save_count", "error_count")]
    return told


async def like_theirs():
    """The same turns in LangChain's own memories and in ours: buffers in every form, summaries and what follows them."""
    picture = HumanMessage(
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,AAAA"}}]
    )
    told = {}
    for name in ("ConversationBufferMemory", "ConversationBufferWindowMemory"):
        pair = []
        for library in (classic, ours):
            memory = getattr(library, name)()
            memory.chat_memory.add_messages([picture, AIMessage("yes")])
            memory.save_context({"input": "hi"}, {"output": "hello"})
            forms = [memory.buffer, memory.buffer_as_str, texts(memory.buffer_as_messages)]
            memory.return_messages = True
            forms.append(texts(memory.buffer))
            if name == "ConversationBufferMemory":
                forms += [texts(await memory.abuffer()), await memory.abuffer_as_str()]
            pair.append(forms)
        told[name] = [pair[0] == pair[1], pair[1][0]]
    pair = []
    for library in (classic, ours):
        model = scripted(AIMessage("one"), AIMessage("two"))
        history = InMemoryChatMessageHistory(messages=[HumanMessage("a"), AIMessage("b"), HumanMessage("c")])
        memory = library.ConversationSummaryMemory.from_messages(model, history, summarize_step=2)
        pair.append([memory.buffer, len(history.messages), memory.load_memory_variables({})])
    told["from_messages"] = [pair[0] == pair[1], pair[1][0]]
    pair = []
    for library in (classic, ours):
        memory = library.ConversationSummaryBufferMemory(
            llm=counting("short"), max_token_limit=2, moving_summary_buffer="old"
        )
        memory.chat_memory.add_messages(
            [HumanMessage("a b c"), AIMessage("d"), HumanMessage("e"), AIMessage("f")]
        )
        forms = [memory.moving_summary_buffer]
        await memory.aprune()
        forms += [
            memory.moving_summary_buffer,
            memory.load_memory_variables({}),
            memory.buffer,
            await memory.abuffer(),
        ]
        memory.return_messages = True
        pair.append([*forms, texts(memory.buffer), type(memory.buffer[0]).__name__])
    told["summary_buffer"] = [pair[0] == pair[1], *pair]
    return told


class Counting(GenericFakeChatModel):
    """A model that counts words, so that both libraries prune the same turns."""

    def get_num_tokens(self, text):
        return len(text.replace("Human:", "").replace("AI:", "").split())

    def get_num_tokens_from_messages(self, messages, tools=None):
        return sum(self.get_num_tokens(said(message)) for message in messages)


def counting(*answers):
    return Counting(messages=iter([AIMessage(answer) for answer in answers]))


def places(folder, redis_url):
    """Attributes and arguments of LangChain's histories."""
    with ours.FileChatMessageHistory(f"{folder}/gb.json", encoding="gb18030") as history:
        history.add_user_message("你好")
        written = "你好" in history.file_path.read_text(encoding="gb18030")
        file = [str(history.file_path), history.encoding, written]
    with ours.RedisChatMessageHistory("s", redis_url, "app:", None) as history:
        history.add_user_message("hi")
        redis = [history.key, history.octavo.redis_client.ttl("app:s"), history.octavo.key_prefix]
    try:
        ours.RedisChatMessageHistory("s", redis_url, 60)
    except TypeError as error:
        return [file, redis, str(error)]


async def beside_theirs():
    """A memory of LangChain's own beside one of Octavo's."""
    memory = ours.CombinedMemory(
        memories=[
            SimpleMemory(memories={"place": "杭州"}),
            ours.ConversationBufferMemory(memory_key="recent", input_key="input"),
        ]
    )
    return await chained(memory, prompt=PromptTemplate.from_template("{place}\n{recent}\n{input}"))


async def turn_of_messages():
    """A turn may be told in messages, which come back as they were."""
    memory = ours.ConversationBufferMemory(return_messages=True)
    turn = [HumanMessage("hi", name="lin", something_new=1), AIMessage("", tool_calls=[CALL], another=[2])]
    memory.save_context({"input": turn[0]}, {"output": turn[1]})
    await memory.asave_context({"input": turn[0], "history": turn}, {"output": turn[1]})
    return memory.load_memory_variables({})["history"] == turn * 2 == memory.buffer_as_messages


async def main(folder, redis_url):
    makers = {
        "FileChatMessageHistory": lambda name: ours.FileChatMessageHistory(f"{folder}/{name}.json"),
        "RedisChatMessageHistory": lambda name: ours.RedisChatMessageHistory(name, redis_url),
        "StoreChatMessageHistory": lambda name: ours.StoreChatMessageHistory(f"sqlite:///{folder}/talk.db", name),
    }  # fmt: skip
    here = {}
    makers["ChatMessageHistory"] = lambda name: here.setdefault(name, ours.ChatMessageHistory())
    inside = {}
    makers["OctavoChatMessageHistory"] = lambda name: ours.OctavoChatMessageHistory(
        inside.setdefault(name, conversation.ChatMessageHistory())
    )
    sessions = ours.StoreSessions(f"sqlite:///{folder}/sessions.db")
    makers["StoreSessions"] = sessions
    report = {}
    for kind, opened in makers.items():
        report[kind] = await talk(opened)
        with opened("every kind") as history:
            report[kind]["lossless"] = await lossless(history)
        async with opened("refused") as history:
            report[kind]["refused"] = refused(history)
        with opened("plain") as history:
            report[kind]["plain"] = plain_messages(history)
    async with sessions:
        report["users"] = await users(sessions)
    report["memories"] = await memories(folder)
    report["found"] = await found()
    report["entities"] = await entities()
    report["recalled"] = await recalled(folder)
    report["measured"] = await measured()
    report["assigned"] = assigned()
    report["beside_theirs"] = await beside_theirs()
    report["turn_of_messages"] = await turn_of_messages()
    report["like_theirs"] = await like_theirs()
    report["places"] = places(folder, redis_url)
    return report


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # such as a coroutine that nobody awaited
        print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
