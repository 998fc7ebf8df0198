"""What can be read by name: the user's profile, what was said in a session, documents; and two prompts to begin with."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from mcp.server.mcpserver.prompts import Prompt
from mcp.types import Resource
from pydantic import Field

from octavo.errors import NotFound
from octavo.kernel.ids import now
from octavo.kernel.model import Query
from octavo.kernel.pages import list_heads, read_page
from octavo.kernel.ports import ListsNames
from octavo.kernel.text import content
from octavo.mcp import CALLER
from octavo.mcp.server import MemoryServer
from octavo.memory.context import Language, language_of
from octavo.search.hits import one_line

_PROFILE = "octavo://profile"
_SESSIONS = "octavo://sessions/"
_DOCUMENTS = "octavo://documents/"
_BYTES = 2**18  # that one resource shows
_LINES = 500  # messages of a transcript
_LISTED = 100  # sessions, and documents of each collection
_MARKDOWN = "text/markdown"
_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "ask": "What do you know about me?",
        "tell": " Tell me in a few sentences, with dates where they matter, and say what you are not sure of. Use only what is remembered:",
        "begin": "Here is what you remember about me. Keep it in mind, and do not repeat it.",
        "about": " I want to talk about: ",
        "nothing": "(nothing is remembered yet)",
    },
    "zh": {
        "ask": "你知道我哪些事？",
        "tell": "请用几句话告诉我，必要时注明日期，并说明哪些不确定。只依据记忆中的内容：",
        "begin": "以下是你记得的关于我的事。请记在心里，不要复述。",
        "about": "我想聊：",
        "nothing": "（还没有任何记忆）",
    },
}


def add_resources(server: MemoryServer) -> None:
    """Let what is kept for the caller be read."""

    @server.resource(_PROFILE, title="Profile", mime_type=_MARKDOWN)
    async def profile() -> str:
        """Who the user is: every fact of the profile, what changed last first."""
        caller = CALLER.get()
        facts = await caller.memory.layers.profile(user_id=caller.user_id, max_bytes=_BYTES, limit=1000)
        lines = [f"- {fact.updated_at:%Y-%m-%d} {fact.category}: {one_line(fact.content)}" for fact in facts]
        more = ["", "(more facts did not fit)"] if facts.following else []
        return "\n".join([f"# What is known about {one_line(caller.user_id)}", "", *lines, *more, ""])

    @server.resource(f"{_SESSIONS}{{session_id}}", title="Transcript of a session", mime_type=_MARKDOWN)
    async def transcript(session_id: str) -> str:
        """What was said in a session, oldest first; of a long one the end."""
        caller = CALLER.get()
        scope = msgspec.structs.replace(caller.scope, session=session_id)
        query = Query(collection="messages", scope=scope, alive_at=now(), newest_first=True, limit=_LINES)
        said, earlier = await read_page(caller.memory.store, query, _BYTES)
        if not said:
            raise NotFound(
                f"nothing was said in a session {session_id[:80]!r}; the list of resources has those there are"
            )
        lines = [
            f"- {m.created_at:%Y-%m-%d %H:%M} {one_line(m.kind)}: {one_line(content(m.text, m.data))}"
            for m in said
        ]
        head = ["(earlier messages did not fit)", ""] if earlier else []
        return "\n".join([f"# {one_line(session_id)}", "", *head, *lines[::-1], ""])

    @server.resource(f"{_DOCUMENTS}{{+key}}", title="A document", mime_type=_MARKDOWN)
    async def document(key: str) -> str:
        """A document of the vault: the user's own, or one that is about nobody in particular."""
        for query in _document_queries(ids=(key,), limit=1):
            for record in await CALLER.get().memory.store.find(query):
                if _may_see(record.id):
                    return record.text
        raise NotFound(f"there is no document {key[:80]!r}; the list of resources has those there are")

    async def list_more() -> list[Resource]:
        return [*await _sessions(), *await _documents()]

    server.list_more = list_more


async def _sessions() -> list[Resource]:
    caller = CALLER.get()
    if not isinstance(caller.memory.store, ListsNames):
        return []
    found = await caller.memory.store.names("messages", "session", caller.scope, limit=_LISTED)
    return [
        Resource(
            uri=_SESSIONS + quote(each.name, safe=""),
            name=each.name,
            description=f"What was said in this session, {each.total} messages until {each.last:%Y-%m-%d %H:%M}.",
            mime_type=_MARKDOWN,
        )
        for each in found
    ]


async def _documents() -> list[Resource]:
    found: dict[str, Resource] = {}
    for query in _document_queries(newest_first=True, limit=_LISTED):
        for head in await list_heads(CALLER.get().memory.store, query):
            if head.id not in found and _may_see(head.id):
                found[head.id] = Resource(
                    uri=_DOCUMENTS + quote(head.id),
                    name=head.id,
                    description=f"A document of kind {head.kind}, from {head.updated_at:%Y-%m-%d}.",
                    mime_type=_MARKDOWN,
                    size=head.size_bytes,
                )
    return list(found.values())


def _document_queries(**more: Any) -> list[Query]:
    """The questions for the caller's documents, and then for those of nobody in particular."""
    own = CALLER.get().scope
    scopes = (own, msgspec.structs.replace(own, user=""))
    where = [(scope, each) for scope in scopes for each in ("configs", "knowledge")]
    return [Query(collection=each, scope=scope, alive_at=now(), **more) for scope, each in where]


def _may_see(key: str) -> bool:
    """Whether a document of this key is the caller's or nobody's: `users/alice` is Alice's, whoever kept it."""
    from octavo.service.vault.names import user_of  # the service takes a tenth of a second to import

    return user_of(key) in (None, CALLER.get().user_id)


def add_prompts(server: MemoryServer) -> None:
    """Two ways to begin a conversation with what is known."""

    async def what_do_you_know_about_me() -> str:
        """Tell the user everything that is remembered about them."""
        words = await _words("")
        return f"{words['ask']}{words['tell']}\n\n{await _block(words, '')}"

    async def start_with_my_context(
        topic: Annotated[str, Field(description="What the conversation is about.")] = "",
    ) -> str:
        """Begin a conversation knowing the user."""
        words = await _words(topic)
        about = f"{words['about']}{one_line(topic)}" if topic.strip() else ""
        return f"{words['begin']}{about}\n\n{await _block(words, topic.strip())}"

    for function, title in (
        (what_do_you_know_about_me, "What do you know about me?"),
        (start_with_my_context, "Start with my context"),
    ):
        server.add_prompt(Prompt.from_function(function, title=title))


async def _words(topic: str) -> dict[str, str]:
    """What the prompts say, in the language of the topic, or else of what was learnt last."""
    caller = CALLER.get()
    newest = await caller.memory.get_all(user_id=caller.user_id, limit=1)
    return _WORDS[language_of([topic, *(fact.content for fact in newest)])]


async def _block(words: dict[str, str], topic: str) -> str:
    caller, query = CALLER.get(), topic or words["ask"]
    block = await caller.memory.context(query, user_id=caller.user_id, max_tokens=caller.answer_tokens)
    return block.text or words["nothing"]
