"""What is known about one entity, gathered turn by turn: with a language model, or from the sentences that name it."""

import re
import time
from collections.abc import Mapping
from typing import Any, Self

from octavo.conversation.base import log
from octavo.conversation.language import Formats, Language, LanguageModel, PromptTemplate, ask, language_of
from octavo.errors import ModelError
from octavo.kernel.terms.tokens import estimate_tokens
from octavo.util.sync import Twins, waited

INFO_TOKENS = 200  # of what is known without a model; what was said first and what was said last stays
LONGEST_INFO = 4000  # characters of a model's answer; all entities of a conversation must fit into one record
LONGEST_SENTENCE = 280  # characters; of a longer one the beginning is quoted
KEPT_CONTEXTS = 5  # the latest turns that named it; all are counted

ENTITY_EXTRACTION_PROMPT = PromptTemplate(
    input_variables=["text"],
    template="""
从以下对话中提取所有实体（人名、地名、组织、产品、作品等专有名称）。只输出实体名称，用英文逗号分隔；没有则输出 NONE。

对话：
{text}

实体：
""".strip(),
)
ENTITY_EXTRACTION_PROMPT_EN = PromptTemplate(
    input_variables=["text"],
    template="""
List every entity named in the conversation below: people, places, organisations, products, works and other proper names.
Answer with the names only, separated by commas, or NONE if there are none.

Conversation:
{text}

Entities:
""".strip(),
)
ENTITY_SUMMARIZATION_PROMPT = PromptTemplate(
    input_variables=["entity", "existing_info", "new_context"],
    template="""
根据新的上下文，更新关于{entity}的信息。保留仍然成立的内容，只补充上下文中明确提到的事实。

现有信息：
{existing_info}

新的上下文：
{new_context}

更新后的信息：
""".strip(),
)
ENTITY_SUMMARIZATION_PROMPT_EN = PromptTemplate(
    input_variables=["entity", "existing_info", "new_context"],
    template="""
Update what is known about {entity} with the new context. Keep what still holds, and add only facts that it states.

Known so far:
{existing_info}

New context:
{new_context}

Known now:
""".strip(),
)
EXTRACTION: Mapping[Language, PromptTemplate] = {
    "zh": ENTITY_EXTRACTION_PROMPT,
    "en": ENTITY_EXTRACTION_PROMPT_EN,
}
_SUMMARIZATION: Mapping[Language, PromptTemplate] = {
    "zh": ENTITY_SUMMARIZATION_PROMPT,
    "en": ENTITY_SUMMARIZATION_PROMPT_EN,
}
_FIRST: Mapping[Language, PromptTemplate] = {
    "zh": PromptTemplate("根据以下上下文，总结关于{entity}的信息：\n{context}", ["entity", "context"]),
    "en": PromptTemplate(
        "Summarise what the context below says about {entity}:\n{context}", ["entity", "context"]
    ),
}

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
        prompt = _FIRST[language or language_of(context)].format(entity=self.name, context=context)
        await self._learn(llm, prompt, context)

    async def aupdate_info(
        self,
        new_context: str,
        llm: LanguageModel = None,
        summarization_prompt: Formats | None = None,
        language: Language | None = None,
    ) -> None:
        """Add what a new context says to what is known."""
        template = summarization_prompt or _SUMMARIZATION[language or language_of(new_context)]
        prompt = template.format(entity=self.name, existing_info=self.info, new_context=new_context)
        await self._learn(llm, prompt, new_context)
        self.last_updated = time.time()

    initialize_info = waited(ainitialize_info)
    update_info = waited(aupdate_info)

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

    async def _learn(self, llm: LanguageModel, prompt: str, context: str) -> None:
        self.info = (await self._told(llm, prompt, context))[:LONGEST_INFO]
        self.contexts = [*self.contexts, context][-KEPT_CONTEXTS:]
        self.context_count += 1
        self.update_count += 1

    async def _told(self, llm: LanguageModel, prompt: str, context: str) -> str:
        """What is known now: as the model says, or else as the sentences do."""
        if llm is not None:
            try:
                return await ask(llm, prompt)
            except ModelError as error:
                log.warning("what is known about %r is gathered without the model: %s", self.name, error)
        return gather(self.name, context, self.info)

    def __repr__(self) -> str:
        return f"EntityInfo({self.name!r}, info={self.info!r})"


def mentions(name: str, text: str) -> bool:
    """Whether a text names this; a Latin name must stand there as a word."""
    if name.isascii():
        return (
            re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text, re.IGNORECASE) is not None
        )
    return name.casefold() in text.casefold()


def gather(name: str, context: str, before: str = "") -> str:
    """What was known before and the sentences of the context that speak of it, a line each; questions tell nothing."""
    lines = [line for line in before.splitlines() if line]
    about = False
    for said in _ENDS.split(context):
        sentence = " ".join(said.split())
        about = mentions(name, sentence) or (about and _GOES_ON.match(sentence) is not None)
        if not about or _QUESTION.search(sentence):
            continue
        if len(sentence) > LONGEST_SENTENCE:
            sentence = f"{sentence[:LONGEST_SENTENCE].rstrip()}…"
        if sentence not in lines:
            lines.append(sentence)
    while len(lines) > 2 and estimate_tokens("\n".join(lines)) > INFO_TOKENS:
        del lines[1]  # the first one mostly says who it is
    return "\n".join(lines)
