"""Memory of entities: who and what a conversation names, and what is known about each."""

import asyncio
import re
import threading
from collections import deque
from collections.abc import Mapping, MutableMapping
from typing import Any

from octavo.conversation.base import BaseChatMemory, log, number_from
from octavo.conversation.entity_info import EXTRACTION, EntityInfo, mentions
from octavo.conversation.language import Formats, LanguageModel, as_language, as_model, ask, language_of
from octavo.errors import ModelError
from octavo.util.attributes import Checked
from octavo.util.sync import waited

STATE = "entities"
MOST_NAMES = 20  # that one turn may bring
LONGEST_NAME = 100  # characters; a longer answer is a sentence and no name

_BETWEEN = re.compile(r"[,，、;；\n]")
_AROUND = re.compile(r"^[\s\-*•\d.)）]*[\"'“「《]?|[\"'”」》.。\s]+$")
_NONE = frozenset(("none", "无", "没有", "無", "n/a", ""))


class ConversationEntityMemory(BaseChatMemory):
    """What is known about the entities that the input or the last `k` turns name, and those turns themselves.

    Entities are found when a turn is saved, by the model, or by rules when there is none or it fails. They persist with
    the history. `entities` holds them by name; the turns are under `memory_key`.
    """

    llm = Checked(as_model)
    k = Checked(number_from(0, "k is a number of turns"))
    language = Checked(as_language)
    max_entities = Checked(number_from(1, "max_entities is a number"))

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
        self._unread: deque[str] = deque()
        self._learning = threading.Lock()
        if llm is None:
            log.info("no language model was given: entities are found by rules")

    @property
    def entity_store(self) -> MutableMapping[str, EntityInfo]:
        """What is known, by name; assigning puts others, or what is known about them, in place of all, also in the history."""
        return self._entity_store

    @entity_store.setter
    def entity_store(self, entities: MutableMapping[str, Any]) -> None:
        self._entity_store = _as_entities(entities)
        self._wait(self._write())

    @property
    def entity_cache(self) -> list[str]:
        """The names in the order they came up; assigning puts others in their place, also in the history."""
        return self._entity_cache

    @entity_cache.setter
    def entity_cache(self, names: list[str]) -> None:
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
        left_out = {*self.memory_variables, *self.passed_over}
        text = self._input(inputs).text if any(key not in left_out for key in inputs) else ""
        # What the input names comes first; then what it may only mean, by a pronoun.
        texts = [text, *(message.text for message in reversed(recent))]
        named = {
            name: known.info
            for said in texts
            for name, known in self.entity_store.items()
            if mentions(name, said)
        }
        return {self.entity_key: named, self.memory_key: self._shown(recent)}

    async def asave_context(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Add the turn to the history, then learn what it says about whom."""
        await super().asave_context(inputs, outputs)
        await self._aextract_and_update_entities("\n".join(self._get_input_output(inputs, outputs)))

    async def aclear(self) -> None:
        """Forget the conversation and every entity."""
        await super().aclear()
        self.entity_store.clear()
        self.entity_cache.clear()
        self._forget_stats()
        self._kept = False

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
                    await self._alearn(self._unread.popleft())
            finally:
                self._learning.release()

    async def _alearn(self, text: str) -> None:
        await self._read()
        entities = await self._aextract_entities(text)
        self._extraction_calls += 1
        for entity in entities:
            await self._alearn_about(entity, text)
        if entities:
            await self._write()

    async def _aextract_entities(self, text: str) -> list[str]:
        """The names in a text."""
        if self.llm is not None:
            template = self.entity_extraction_prompt or EXTRACTION[self.language or language_of(text)]
            try:
                return _names(await ask(self.llm, template.format(text=text)))
            except ModelError as error:
                log.warning("entities of this turn are found by rules: %s", error)
        from octavo.conversation.entity_rules import find_entities  # its patterns take time to build

        return await asyncio.to_thread(find_entities, text, MOST_NAMES, list(self.entity_store))

    async def _aupdate_entity_info(self, entity: str, context: str) -> None:
        """Learn what a text says about one entity."""
        await self._read()
        await self._alearn_about(entity, context)
        await self._write()

    _extract_and_update_entities = waited(_aextract_and_update_entities)
    _extract_entities = waited(_aextract_entities)
    _update_entity_info = waited(_aupdate_entity_info)

    async def _alearn_about(self, entity: str, context: str) -> None:
        known = self.entity_store.get(entity)
        if known is not None:
            await known.aupdate_info(context, self.llm, self.entity_summarization_prompt, self.language)
            self._entity_updates += 1
        else:
            known = EntityInfo(entity)
            await known.ainitialize_info(context, self.llm, self.language)
            self.entity_store[entity] = known
            self._total_entities += 1
        if entity not in self.entity_cache:
            self.entity_cache.append(entity)
        while len(self.entity_store) > self.max_entities:
            oldest = min(self.entity_store.values(), key=lambda one: one.last_updated).name
            del self.entity_store[oldest]
            if oldest in self.entity_cache:
                self.entity_cache.remove(oldest)

    async def _read(self) -> None:
        """Take over what the history knows: another process may have gone on with it, or have cleared it."""
        state = await self.chat_memory.aget_state(STATE)
        if state is None:
            if self._kept:
                self.entity_store.clear()
                self.entity_cache.clear()
                self._kept = False
            return
        self._kept = True
        for name, told in state["entities"].items():
            known = self.entity_store.get(name)
            if known is None:
                self._total_entities += 1
            if known is None or known.update_count < told["update_count"]:
                self.entity_store[name] = EntityInfo.from_dict(told)
        self.entity_cache.extend(name for name in state["cache"] if name not in self.entity_cache)

    async def _write(self) -> None:
        entities = {name: known.to_dict() for name, known in self.entity_store.items()}
        await self.chat_memory.aset_state(STATE, {"entities": entities, "cache": list(self.entity_cache)})
        self._kept = True

    @property
    def _entity_stats(self) -> dict[str, int]:
        return {
            "total_entities": self._total_entities,
            "active_entities": len(self.entity_store),
            "entity_updates": self._entity_updates,
            "extraction_calls": self._extraction_calls,
        }

    def _forget_stats(self) -> None:
        self._total_entities = len(self.entity_store)
        self._entity_updates = 0
        self._extraction_calls = 0


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
