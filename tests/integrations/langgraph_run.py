"""Runs in the frameworks' environment: LangGraph's graphs on Octavo's store and saver. Prints what happened as JSON.

python langgraph_run.py URL PART...    PART is `first` or `second`, in one process or in two
"""

import asyncio
import json
import operator
import random
import sys
from datetime import timedelta
from typing import Annotated, TypedDict

from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from octavo import AsyncMemory, InvalidRecord, open_store
from octavo.integrations.langgraph import OctavoSaver, OctavoStore
from octavo.integrations.langgraph import store as store_module
from octavo.kernel.ids import now

THREAD = {"configurable": {"thread_id": "monday"}}


async def conforms(url):
    """What LangGraph's own suite for savers says of ours: how many of its tests passed, and which failed."""

    @checkpointer_test(name="OctavoSaver")
    async def saver():
        async with OctavoSaver(url) as opened:
            yield opened

    report = await validate(saver)
    results = report.results.values()
    return [
        all(result.detected and result.passed for result in results),
        sum(result.tests_passed for result in results),
        [failure for result in results for failure in result.failures or ()],
    ]


# --- the store beside LangGraph's own


LABELS = [
    ("users",),
    ("users", "lin"),
    ("users", "lin", "notes"),
    ("users", "bob"),
    ("docs",),
    ("文档", "一"),
]
VALUES = [
    {"text": "Lin lives in 杭州", "score": 3, "tags": ["a", "b"], "nested": {"deep": True}},
    {"text": "Bob likes tea", "score": 4.5, "color": "red"},
    {"text": "nothing", "score": None},
    {"n": 1},
    {},
]
FILTERS = [
    None, {"score": 3}, {"score": {"$ne": 3}}, {"color": "red"}, {"color": {"$eq": "red"}}, {"tags": ["a", "b"]},
    {"nested": {"deep": True}}, {"text": "nothing", "score": None}, {"missing": None},
]  # fmt: skip
COMPARED = [
    {"score": {"$gt": 3}},
    {"score": {"$gte": 3, "$lt": 4.5}},
    {"score": {"$lte": 4.5}},
    {"n": {"$lt": 2}},
]


def shown(found):
    """Items without their times, in an order of our own: each store has another one."""
    return sorted(([*item.namespace], item.key, json.dumps(item.value, sort_keys=True)) for item in found)


async def like_theirs(url):
    differing = []
    for seed in range(3):
        draw = random.Random(seed)
        theirs = InMemoryStore()
        async with OctavoStore(url, tenant=f"oracle-{seed}") as ours:
            for _ in range(40):
                batch = []
                for _ in range(draw.randrange(1, 5)):
                    key = draw.choice(["k1", "k2", "键 3", "k/4"])
                    value = draw.choice([*VALUES, None])
                    batch.append(draw.choice([
                        PutOp(draw.choice(LABELS), key, value), PutOp(draw.choice(LABELS), key, value),
                        GetOp(draw.choice(LABELS), key),
                        SearchOp(draw.choice([(), *LABELS, ("use",)]), filter=draw.choice(FILTERS), limit=1000),
                    ]))  # fmt: skip
                one, other = theirs.batch(batch), await ours.abatch(batch)
                for op, a, b in zip(batch, one, other, strict=True):
                    same = (
                        shown(a) == shown(b)
                        if isinstance(a, list)
                        else shown(filter(None, [a])) == shown(filter(None, [b]))
                    )
                    if not same:
                        differing.append([seed, repr(op), repr(a), repr(b)])
            kept = [[*name] for name, items in sorted(theirs._data.items()) if items]
            if [[*name] for name in await ours.alist_namespaces(limit=100)] != kept:
                differing.append([seed, "namespaces", kept, repr(await ours.alist_namespaces())])
            for wanted in COMPARED:  # theirs cannot compare what is no number
                [compared] = wanted.items()
                numbers = [
                    item
                    for item in await ours.asearch((), limit=1000)
                    if isinstance(item.value.get(compared[0]), int | float)
                ]
                expected = [item for item in numbers if all(
                    {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}[name](item.value[compared[0]], than)
                    for name, than in compared[1].items()
                )]  # fmt: skip
                if shown(await ours.asearch((), filter=wanted, limit=1000)) != shown(expected):
                    differing.append([seed, repr(wanted)])
            found = await ours.asearch((), limit=1000)
            pages = [await ours.asearch((), limit=2, offset=at) for at in range(0, len(found) + 1, 2)]
            if [item for page in pages for item in page] != found:
                differing.append([seed, "pages"])
    return differing


async def namespaces(url):
    async with OctavoStore(url, tenant="names") as store:
        for name in (("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("b", "x"), ("ab", "x")):
            await store.aput(name, "k", {})
        told = {
            "prefix": await store.alist_namespaces(prefix=("a",)),
            "suffix": await store.alist_namespaces(suffix=("x",)),
            "any": await store.alist_namespaces(prefix=("a", "*", "d")),
            "depth": await store.alist_namespaces(max_depth=2, limit=3, offset=1),
            "searched": shown(await store.asearch(("a",), limit=100)),
        }
        refused = []
        for wrong in (("a.b",), (), ("",)):
            try:
                await store.abatch([PutOp(wrong, "k", {})] if wrong == ("a.b",) else [])
                await store.aput(wrong, "k", {})
            except InvalidNamespaceError:
                refused.append(wrong)
        try:
            await store.aput(("a",), "k", "text")
        except InvalidRecord as error:
            told["text"] = str(error)
        return {**told, "refused": refused}


async def rewritten(url):
    """What was written again comes first and keeps its first time; crowds and wide trees lose nothing."""
    async with OctavoStore(url, tenant="again") as store:
        for key in "abc":
            await store.aput(("n",), key, {"v": 1})
        first = await store.aget(("n",), "a")
        await asyncio.sleep(0.002)
        await store.aput(("n",), "a", {"v": 2})
        again = await store.aget(("n",), "a")
        await asyncio.gather(
            *(store.aput(("crowd", str(n % 40)), f"k{n % 80}", {"v": n}) for n in range(120))
        )
        await store.abatch([PutOp(("long",), f"k{n}", {"v": n}) for n in range(450)])
        await store.abatch([PutOp(("long", str(n)), "k", {"v": 500 + n}) for n in range(40)])
        rare = await store.asearch(("long",), filter={"v": {"$lt": 9}}, limit=3, offset=2)
        wide = await store.asearch(("long",), limit=45)
        await store.aput(("n", "deep"), "d", {"v": 1})
        crowd = await store.asearch(("crowd",), limit=200)
        return {
            "order": [item.key for item in await store.asearch(("n",), limit=3)],
            "page": [item.key for item in await store.asearch(("n",), limit=2, offset=1)],
            "kept": [
                again.value["v"],
                again.created_at == first.created_at,
                again.updated_at > first.updated_at,
            ],
            "crowd": sorted(item.value["v"] for item in crowd),
            "one": [item.key for item in await store.asearch(("crowd", "7"), limit=9)],
            "rare": [item.value["v"] for item in rare],
            "wide": [item.value["v"] for item in wide],
        }


async def lives(url):
    """Items that expire: at a clock that is put forward, and refreshed by reading."""
    ahead = timedelta()
    store_module.now = lambda: now() + ahead
    try:
        async with OctavoStore(url, tenant="ttl", ttl={"default_ttl": 10}) as store:
            await store.aput(("t",), "default", {"text": "one"})
            await store.aput(("t",), "long", {"text": "two"}, ttl=100)
            await store.aput(("t",), "ever", {"text": "three"}, ttl=None)
            ahead = timedelta(minutes=8)
            await store.aget(("t",), "default")  # lives for ten minutes from now on
            await store.aget(("t",), "long", refresh_ttl=False)
            ahead = timedelta(minutes=16)
            told = [[item.key for item in await store.asearch(("t",), refresh_ttl=False)]]
            ahead = timedelta(minutes=90)
            told.append([item.key for item in await store.asearch(("t",), refresh_ttl=False)])
            told.append([(await store.aget(("t",), "default")), await store.asweep_ttl()])
            told.append(
                [item.key for item in await store.asearch(("t",), query="one two three", refresh_ttl=False)]
            )
            return told
    finally:
        store_module.now = now


class Topics(Embeddings):
    """Embeddings that know two things."""

    def embed_documents(self, texts):
        return [[float("dog" in text or "canine" in text), float("tea" in text), 0.1] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


async def found(url, store):
    """By words, by the fields that are indexed, and by meaning."""
    words = OctavoStore(store, tenant="words")
    await words.aput(("m",), "tea", {"text": "She drinks green tea", "note": "secret"}, index=["text"])
    await words.aput(("m",), "home", {"text": "她住在杭州", "score": 5})
    await words.aput(("m",), "hidden", {"text": "green parrots"}, index=False)
    told = {
        "words": [
            [item.key, 0 < item.score <= 1]
            for item in await words.asearch(("m",), query="what tea does she drink?")
        ],
        "chinese": [item.key for item in await words.asearch(("m",), query="杭州")],
        "unindexed": [item.key for item in await words.asearch(("m",), query="secret parrots")],
        "filtered": [
            item.key for item in await words.asearch((), query="杭州 tea", filter={"score": {"$gt": 4}})
        ],
    }
    async with OctavoStore(
        url, tenant="meaning", index={"embed": Topics(), "dims": 3, "fields": ["text"]}
    ) as meaning:
        await meaning.aput(("m",), "pet", {"text": "a canine"})
        await meaning.aput(("m",), "drink", {"text": "tea"})
        told["meaning"] = [item.key for item in await meaning.asearch(("m",), query="dog", limit=1)]
    return told


# --- graphs


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def answer(state: State, *, store: BaseStore) -> State:
    """A model that counts, and keeps what it was told."""
    store.put(("users", "lin"), f"turn-{len(state['said'])}", {"text": state["said"][-1]})
    known = len(store.search(("users", "lin")))
    return {"said": [f"I was told {len(state['said'])} things and know {known}."]}


async def aanswer(state: State, *, store: BaseStore) -> State:
    await store.aput(("users", "lin"), f"turn-{len(state['said'])}", {"text": state["said"][-1]})
    return {"said": [f"I was told {len(state['said'])} things."]}


def asking(state: State) -> State:
    return {"said": [f"approved: {interrupt('May I?')}"]}


def graph(node, **memory):
    builder = StateGraph(State)
    builder.add_node("answer", node)
    builder.add_node("side", lambda state: {"said": ["side"]})
    builder.add_edge(START, "answer")
    builder.add_edge(START, "side")
    builder.add_edge("answer", END)
    return builder.compile(**memory)


def first_graph(store, saver):
    talk = graph(answer, store=store, checkpointer=saver)
    told = {"real": [isinstance(store, BaseStore), isinstance(saver, BaseCheckpointSaver)]}
    told["said"] = [talk.invoke({"said": [said]}, THREAD)["said"] for said in ("I am Lin", "我住在杭州")]
    asked = graph(asking, checkpointer=saver).invoke({"said": ["go"]}, {"configurable": {"thread_id": "ask"}})
    told["interrupt"] = [asked["__interrupt__"][0].value, asked["said"]]
    told["like_theirs"] = same_history(saver)
    return told


def same_history(saver):
    """The same run on LangGraph's saver in memory: the same states, one after the other."""
    histories = []
    for one, thread in ((saver, "same"), (InMemorySaver(), "same")):
        config = {"configurable": {"thread_id": thread}}
        run = graph(lambda state: {"said": ["yes"]}, checkpointer=one)
        run.invoke({"said": ["one"]}, config)
        run.update_state(config, {"said": ["edited"]}, as_node="answer")
        run.invoke({"said": ["two"]}, config)
        histories.append(
            [
                [s.values, s.next, s.metadata["step"], s.metadata["source"]]
                for s in run.get_state_history(config)
            ]
        )
        limited = [len([*one.list(config, limit=n)]) for n in (0, 1, 3)]
        histories[-1].append([limited, len([*one.list(config, filter={"source": "loop"})])])
    return [histories[0] == histories[1], len(histories[0])]


async def second_graph(store, saver):
    talk = graph(aanswer, store=store, checkpointer=saver)
    before = (await talk.aget_state(THREAD)).values["said"]
    told = {"before": len(before)}
    told["said"] = (await talk.ainvoke({"said": ["Who am I?"]}, THREAD))["said"][len(before) :]
    told["items"] = sorted(item.key for item in await store.asearch(("users",), limit=100))
    told["found"] = [item.key for item in await store.asearch(("users", "lin"), query="杭州")][:1]
    config = {"configurable": {"thread_id": "ask"}}
    told["resumed"] = (await graph(asking, checkpointer=saver).ainvoke(Command(resume="yes"), config))["said"]
    threads = {each.config["configurable"]["thread_id"] async for each in saver.alist(None)}
    told["threads"] = sorted(threads & {"monday", "ask", "same"})
    await saver.adelete_thread(None)  # a thread of that name, if there is one, and not all threads
    await saver.aprune([None], strategy="delete")
    told["left"] = len([each async for each in saver.alist(THREAD)])
    await saver.adelete_thread("monday")
    told["deleted"] = [await saver.aget_tuple(THREAD), [each async for each in saver.alist(THREAD)]]
    return told


async def tools_of_langmem(url):
    """LangMem's tools keep and find memories in the store."""
    from langmem import create_manage_memory_tool, create_search_memory_tool  # which takes seconds

    async with OctavoStore(url, tenant="langmem") as store:
        namespace = ("memories", "{langgraph_user_id}")
        manage, search = (
            create_manage_memory_tool(namespace, store=store),
            create_search_memory_tool(namespace, store=store),
        )
        lin, bob = ({"configurable": {"langgraph_user_id": user}} for user in ("lin", "bob"))
        made = await manage.ainvoke({"content": "Lin is allergic to peanuts", "action": "create"}, lin)
        found = await search.ainvoke({"query": "allergic to what?"}, lin)
        other = await search.ainvoke({"query": "allergic to what?"}, bob)
        return [made.startswith("created memory"), "peanuts" in found, "peanuts" in other]


async def unpolluted(url):
    """A user of the saver: searches do not see his threads, and forgetting takes them along."""
    async with AsyncMemory(url) as memory:
        saver, items = OctavoSaver(memory.store, user_id="lin"), OctavoStore(memory.store, user_id="lin")
        await memory.add("I live in Leeds.", user_id="lin")
        await items.aput(("n",), "k", {"text": "private"})
        config = {"configurable": {"thread_id": "mine", "user_id": "lin"}}
        await graph(lambda state: {"said": ["Leeds"]}, checkpointer=saver).ainvoke(
            {"said": ["input loop Leeds"]}, config
        )
        hits = await memory.search("input loop Leeds", user_id="lin")
        await memory.forget(user_id="lin")
        left = [await saver.aget_tuple(config), await items.aget(("n",), "k")]
        nobodys, session = OctavoSaver(memory.store), {"configurable": {"thread_id": "closed"}}
        await graph(lambda state: {"said": ["x"]}, checkpointer=nobodys).ainvoke({"said": ["y"]}, session)
        there = await nobodys.aget_tuple(session) is not None
        await memory.forget(session_id="closed")
        return [sorted({hit.source for hit in hits}), left, [there, await nobodys.aget_tuple(session)]]


async def first(url, store):
    told = {
        "conformance": await conforms(url),
        "differing": await like_theirs(url),
        "names": await namespaces(url),
        "rewritten": await rewritten(url),
    }
    told |= {
        "ttl": await lives(url),
        "found": await found(url, store),
        "langmem": await tools_of_langmem(url),
    }
    return told


async def run(url):
    async with open_store(url) as opened:
        return await first(url, opened)


def main(url, parts):
    told = {}
    with OctavoStore(url) as store, OctavoSaver(url) as saver:
        if "first" in parts:
            told |= asyncio.run(run(url)) | {"first": first_graph(store, saver)}
        if "second" in parts:
            told["second"] = asyncio.run(second_graph(store, saver))
            told["unpolluted"] = asyncio.run(unpolluted(url))
    print(json.dumps(told))


if __name__ == "__main__":
    address, *parts = sys.argv[1:]
    main(address, parts)
