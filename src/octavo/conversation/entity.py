"""Memory of entities: who and what a conversation names, and what is known about each, gathered turn by turn."""

import asyncio
import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Mapping, MutableMapping
from typing import Any, Self

from octavo.conversation import language as prompts
from octavo.conversation.language import (
    Formats,
    Language,
    LanguageModel,
    as_language,
    as_model,
    ask,
    fill,
    pick_prompt,
)
from octavo.conversation.memories import BaseChatMemory, at_least, log
from octavo.errors import ModelError
from octavo.kernel.text import estimate_tokens
from octavo.util.sync import Twins, as_plain, import_aside
from octavo.util.user_code import Checked

STATE = "entities"
MOST_NAMES = 20  # that one turn may bring
LONGEST_NAME = 100  # characters; a longer answer is a sentence and no name
INFO_TOKENS = 200  # of what is known without a model; what was said first and what was said last stays
LONGEST_INFO = 4000  # characters of a model's answer; all entities of a conversation must fit into one record
LONGEST_SENTENCE = 280  # characters; of a longer one the beginning is quoted
KEPT_CONTEXTS = 5  # the latest turns that named it; all are counted

_BETWEEN = re.compile(r"[,，、;；\n]")
_AROUND = re.compile(r"^[\s\-*•\d.)）]*[\"'“「《]?|[\"'”」》.。\s]+$")
_NONE = frozenset(("none", "无", "没有", "無", "n/a", ""))
_ENDS = re.compile(r"(?<=[。！？；])|(?<=[.!?])\s+|\n+")
_QUESTION = re.compile(r"[?？]\s*$")
# A sentence that begins so goes on about whom the one before it named.
_GOES_ON = re.compile(r"(?:他|她|它)(?!们)|(?:he|she|his|her|it|its)\b", re.IGNORECASE)
_FIELDS = ("name", "info", "context_count", "created_at", "last_updated", "update_count")


class EntityInfo(Twins):
    """One entity: what is known about it, and the latest turns that named it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.info = ""
        self.contexts: list[str] = []
        self.context_count = 0
        self.created_at = time.time()
        self.last_updated = self.created_at
        self.update_count = 0

    async def ainitialize_info(
        self, context: str, llm: LanguageModel = None, language: Language | None = None
    ) -> None:
        """Begin with what a first context says; without a model, with the sentences that name the entity."""
        first = (prompts.FIRST_ENTITY_PROMPT, prompts.FIRST_ENTITY_PROMPT_EN)
        template = pick_prompt(None, *first, language, context)
        await self._learn(llm, template, context, {"entity": self.name, "context": context})

    async def aupdate_info(
        self,
        new_context: str,
        llm: LanguageModel = None,
        summarization_prompt: Formats | None = None,
        language: Language | None = None,
    ) -> None:
        """Add what a new context says to what is known."""
        ours = (prompts.ENTITY_SUMMARIZATION_PROMPT, prompts.ENTITY_SUMMARIZATION_PROMPT_EN)
        template = pick_prompt(summarization_prompt, *ours, language, new_context)
        values = {"entity": self.name, "existing_info": self.info, "new_context": new_context}
        await self._learn(llm, template, new_context, values)
        self.last_updated = time.time()

    initialize_info = as_plain(ainitialize_info)
    update_info = as_plain(aupdate_info)

    def to_dict(self) -> dict[str, Any]:
        """The entity as plain values, without its contexts: they are turns, which the history has."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The entity that `to_dict` told."""
        entity = cls(fields["name"])
        for name in _FIELDS:
            setattr(entity, name, fields[name])
        return entity

    async def _learn(
        self, llm: LanguageModel, template: Formats, context: str, values: Mapping[str, str]
    ) -> None:
        """Take over what the model says is known now, or else what the sentences say."""
        known = ""
        if llm is not None:
            try:
                known = await ask(llm, fill(template, **values))
            except ModelError as error:
                log.warning("what is known about %r is gathered without the model: %s", self.name, error)
        self.info = (known or gather(self.name, context, self.info))[:LONGEST_INFO]
        self.contexts = [*self.contexts, context][-KEPT_CONTEXTS:]
        self.context_count += 1
        self.update_count += 1

    def __repr__(self) -> str:
        return f"EntityInfo({self.name!r}, info={self.info!r})"


class ConversationEntityMemory(BaseChatMemory):
    """What is known about the entities that the input or the last `k` turns name, and those turns themselves.

    Entities are found when a turn is saved, by the model, or by rules when there is none or it fails. They persist with
    the history. `entities` holds them by name; the turns are under `memory_key`.
    """

    llm = Checked(as_model)
    k = Checked(at_least(0, "k is a number of turns"))
    language = Checked(as_language)
    max_entities = Checked(at_least(1, "max_entities is a number"))

    def __init__(
        self,
        llm: LanguageModel = None,
        entity_extraction_prompt: Formats | None = None,
        entity_summarization_prompt: Formats | None = None,
        entity_cache: list[str] | None = None,
        k: int = 3,
        *,
        entity_store: MutableMapping[str, Any] | None = None,
        entity_key: str = "entities",
        language: str | None = None,
        max_entities: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if entity_key == self.memory_key:
            raise ValueError(f"entity_key and memory_key are both {entity_key!r}; give one another name")
        if not isinstance(entity_cache, list | None):
            raise TypeError(f"entity_cache is a list of names; got {entity_cache!r}"[:300])
        self.llm = llm
        #: None is the prompt of the conversation's language.
        self.entity_extraction_prompt = entity_extraction_prompt
        self.entity_summarization_prompt = entity_summarization_prompt
        self._entity_cache: list[str] = [] if entity_cache is None else entity_cache
        self.k = k
        self.entity_key = entity_key
        self.language = language
        self.max_entities = max_entities
        self._entity_store = _as_entities({} if entity_store is None else entity_store)
        self._forget_stats()
        self._kept = False  # whether the history has, or had, a state of ours
        self._asked = False  # whether it was asked for one
        self._unread: deque[str] = deque()
        self._learning = threading.Lock()
        if llm is None:
            log.info("no language model was given: entities are found by rules")

    @property
    def entity_store(self) -> MutableMapping[str, EntityInfo]:
        """What is known, by name; assigning puts others, or what is known about them, in place of all, also in the history."""
        self._read_first()
        return self._entity_store

    @entity_store.setter
    def entity_store(self, entities: MutableMapping[str, Any]) -> None:
        self._read_first()  # or the cache there would be lost
        self._entity_store = _as_entities(entities)
        self._wait(self._write())

    @property
    def entity_cache(self) -> list[str]:
        """The names in the order they came up; assigning puts others in their place, also in the history."""
        self._read_first()
        return self._entity_cache

    @entity_cache.setter
    def entity_cache(self, names: list[str]) -> None:
        self._read_first()
        self._entity_cache = names
        self._wait(self._write())

    @property
    def memory_variables(self) -> list[str]:
        """The names under which this memory gives what it holds."""
        return [self.entity_key, self.memory_key]

    async def aload_memory_variables(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What is known about the entities that the input or the last turns name, and those turns."""
        await self._read()
        recent = await self.chat_memory.alatest(2 * self.k)
        left_out = {*self.memory_variables, "stop"}
        text = self._input(inputs).text if any(key not in left_out for key in inputs) else ""
        # What the input names comes first; then what it may only mean, by a pronoun.
        texts = [text, *(message.text for message in reversed(recent))]
        named = {
            name: known.info
            for said in texts
            for name, known in self.entity_store.items()
            if is_mentioned(name, said)
        }
        return {self.entity_key: named, self.memory_key: self._format(recent)}

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, then learn what it says about whom."""
        await super().asave_context(inputs, outputs)
        await self._aextract_and_update_entities("\n".join(self._get_input_output(inputs, outputs)))

    async def aclear(self) -> None:
        """Forget the conversation and every entity."""
        await super().aclear()
        # The `clear` of a history of the caller's own may know nothing of states.
        if await self.chat_memory.aget_state(STATE):
            await self.chat_memory.aset_state(STATE, {})
        self._forget()
        self._forget_stats()

    def get_entity_stats(self) -> dict[str, Any]:
        """How many entities are known, and what was done for it; `offline` says that rules find them."""
        return {**self._entity_stats, "offline": self.llm is None, "memory_type": type(self).__name__}

    async def _aextract_and_update_entities(self, text: str) -> None:
        """Learn what a text says about whom."""
        # One text at a time: of two that update the same entity at once, one would be lost. Whoever comes meanwhile
        # leaves its text to the one at work, who looks again after letting go.
        self._unread.append(text)
        while self._unread and self._learning.acquire(blocking=False):
            try:
                while self._unread:
                    text = self._unread.popleft()
                    entities = await self._aextract_entities(text)
                    self._counts["extraction_calls"] += 1
                    await self._aupdate_entities(entities, text)
            finally:
                self._learning.release()

    async def _aextract_entities(self, text: str) -> list[str]:
        """The names in a text."""
        if self.llm is not None:
            ours = (prompts.ENTITY_EXTRACTION_PROMPT, prompts.ENTITY_EXTRACTION_PROMPT_EN)
            template = pick_prompt(self.entity_extraction_prompt, *ours, self.language, text)
            try:
                return _names(await ask(self.llm, fill(template, text=text)))
            except ModelError as error:
                log.warning("entities of this turn are found by rules: %s", error)
        await import_aside("octavo.conversation.entity_rules")
        from octavo.conversation.entity_rules import find_entities

        await self._read()  # what is known already is found more surely
        return await asyncio.to_thread(find_entities, text, MOST_NAMES, list(self.entity_store))

    async def _aupdate_entity_info(self, entity: str, context: str) -> None:
        """Learn what a text says about one entity."""
        await self._aupdate_entities([entity], context)

    _extract_and_update_entities = as_plain(_aextract_and_update_entities)
    _extract_entities = as_plain(_aextract_entities)
    _update_entity_info = as_plain(_aupdate_entity_info)

    async def _aupdate_entities(self, entities: list[str], context: str) -> None:
        """Learn what a text says about these, and forget those not heard of for longest when there are too many."""
        await self._read()
        for entity in entities:
            known = self.entity_store.get(entity)
            if known is not None:
                await known.aupdate_info(context, self.llm, self.entity_summarization_prompt, self.language)
                self._counts["entity_updates"] += 1
            else:
                known = EntityInfo(entity)
                await known.ainitialize_info(context, self.llm, self.language)
                self.entity_store[entity] = known
                self._counts["total_entities"] += 1
            if entity not in self.entity_cache:
                self.entity_cache.append(entity)
            while len(self.entity_store) > self.max_entities:
                oldest = min(self.entity_store.values(), key=lambda one: one.last_updated).name
                del self.entity_store[oldest]
                if oldest in self.entity_cache:
                    self.entity_cache.remove(oldest)
        if entities:
            await self._write()

    def _read_first(self) -> None:
        """Take over what the history knows, if nothing was loaded or saved here yet."""
        if not self._asked:
            with contextlib.suppress(
                RuntimeError
            ):  # who awaits the history's loop has it read by the first turn
                self._wait(self._read())

    async def _read(self) -> None:
        """Take over what the history knows: another process may have gone on with it, or have cleared it."""
        state = await self.chat_memory.aget_state(STATE)
        self._asked = True
        if not state:
            if self._kept:
                self._forget()
            return
        self._kept = True
        for name, told in state["entities"].items():
            known = self.entity_store.get(name)
            if known is None:
                self._counts["total_entities"] += 1
            if known is None or known.update_count < told["update_count"]:
                self.entity_store[name] = EntityInfo.from_dict(told)
        self.entity_cache.extend(name for name in state["cache"] if name not in self.entity_cache)

    async def _write(self) -> None:
        entities = {name: known.to_dict() for name, known in self.entity_store.items()}
        await self.chat_memory.aset_state(STATE, {"entities": entities, "cache": list(self.entity_cache)})
        self._kept = True

    def _forget(self) -> None:
        self._entity_store.clear()
        self._entity_cache.clear()
        self._kept = False

    @property
    def _entity_stats(self) -> dict[str, int]:
        active = len(self.entity_store)  # which may have to be read first
        return {**self._counts, "active_entities": active}

    def _forget_stats(self) -> None:
        self._counts = {
            "total_entities": len(self._entity_store),
            "active_entities": 0,
            "entity_updates": 0,
            "extraction_calls": 0,
        }


def is_mentioned(name: str, text: str) -> bool:
    """Whether a text names this; a Latin name must stand there as a word."""
    if not name.isascii():
        return name.casefold() in text.casefold()
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text, re.IGNORECASE) is not None


def gather(name: str, context: str, before: str = "") -> str:
    """What was known before and the sentences of the context that speak of it, a line each; questions tell nothing."""
    lines = [line for line in before.splitlines() if line]
    about = False
    for said in _ENDS.split(context):
        sentence = " ".join(said.split())
        about = is_mentioned(name, sentence) or (about and _GOES_ON.match(sentence) is not None)
        if not about or _QUESTION.search(sentence):
            continue
        if len(sentence) > LONGEST_SENTENCE:
            sentence = f"{sentence[:LONGEST_SENTENCE].rstrip()}…"
        if sentence not in lines:
            lines.append(sentence)
    while len(lines) > 2 and estimate_tokens("\n".join(lines)) > INFO_TOKENS:
        del lines[1]  # the first one mostly says who it is
    return "\n".join(lines)


def _as_entities(given: MutableMapping[str, Any]) -> MutableMapping[str, EntityInfo]:
    """The mapping itself, with an entity where it had a text about one."""
    for name, known in list(given.items()):
        if isinstance(known, str):
            given[name] = EntityInfo(name)
            given[name].info = known
    return given


def _names(answer: str) -> list[str]:
    """The names in a model's answer, whatever it put between and around them."""
    names = (_AROUND.sub("", part) for part in _BETWEEN.split(answer))
    found = [name for name in names if name.casefold() not in _NONE and len(name) <= LONGEST_NAME]
    return list(dict.fromkeys(found))[:MOST_NAMES]
