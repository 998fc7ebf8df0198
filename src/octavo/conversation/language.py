"""Language models as callers have them: how to ask one, how it counts, and the prompts in Chinese and English."""

import logging
import re
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from octavo.errors import ConfigError, ModelError
from octavo.kernel.codec import is_storable
from octavo.kernel.text import estimate_tokens
from octavo.util.system import import_extra
from octavo.util.user_code import call_function, translate_errors

log = logging.getLogger("octavo.conversation")

#: Anything with `invoke`, `predict` or a plain call that takes a text and gives one, blocking or not. With
#: `get_num_tokens`, it counts its own tokens.
LanguageModel: TypeAlias = Any
TokenCounter: TypeAlias = Callable[[str], int]
Language: TypeAlias = Literal["zh", "en"]

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_WORD = re.compile("[A-Za-z]+")


class Formats(Protocol):
    """A template of a prompt: a string, Octavo's `PromptTemplate`, LangChain's, or whatever has `format`."""

    def format(self, **values: Any) -> str: ...


class PromptTemplate:
    """A text with names in braces, which `format` fills in; `input_variables` are these names."""

    def __init__(self, template: str, input_variables: list[str] | None = None) -> None:
        self.template = template
        if input_variables is None:
            input_variables = [name for _, name, _, _ in string.Formatter().parse(template) if name]
        self.input_variables = input_variables

    def format(self, **values: Any) -> str:
        """The text with the names filled in; one that is not given is ValueError."""
        try:
            return self.template.format(**values)
        except KeyError as error:
            raise ValueError(f"the prompt needs {error}; given: {', '.join(values)}") from None


SUMMARY_PROMPT = PromptTemplate("""渐进式总结以下对话内容，在之前摘要的基础上添加新信息：

现有摘要：
{summary}

新的对话内容：
{new_lines}

新的摘要：""")
SUMMARY_PROMPT_EN = PromptTemplate("""\
Progressively summarise the conversation below, adding what is new to the summary so far:

Summary so far:
{summary}

New lines of the conversation:
{new_lines}

New summary:""")
ENTITY_EXTRACTION_PROMPT = PromptTemplate("""\
从以下对话中提取所有实体（人名、地名、组织、产品、作品等专有名称）。只输出实体名称，用英文逗号分隔；没有则输出 NONE。

对话：
{text}

实体：""")
ENTITY_EXTRACTION_PROMPT_EN = PromptTemplate("""\
List every entity named in the conversation below: people, places, organisations, products, works and other proper names.
Answer with the names only, separated by commas, or NONE if there are none.

Conversation:
{text}

Entities:""")
ENTITY_SUMMARIZATION_PROMPT = PromptTemplate("""\
根据新的上下文，更新关于{entity}的信息。保留仍然成立的内容，只补充上下文中明确提到的事实。

现有信息：
{existing_info}

新的上下文：
{new_context}

更新后的信息：""")
ENTITY_SUMMARIZATION_PROMPT_EN = PromptTemplate("""\
Update what is known about {entity} with the new context. Keep what still holds, and add only facts that it states.

Known so far:
{existing_info}

New context:
{new_context}

Known now:""")
FIRST_ENTITY_PROMPT = PromptTemplate("根据以下上下文，总结关于{entity}的信息：\n{context}")
FIRST_ENTITY_PROMPT_EN = PromptTemplate("Summarise what the context below says about {entity}:\n{context}")


def language_of(text: str) -> Language:
    """The language to ask in about a text: Chinese when more of it is Chinese characters than other words."""
    han = len(_HAN.findall(text))
    return "zh" if han > len(_WORD.findall(text)) and not _KANA.search(text) else "en"


def pick_prompt(
    own: Formats | None, chinese: Formats, english: Formats, language: Language | None, text: str
) -> Formats:
    """The template to ask with about a text: the caller's own, else that of the language named, else of the text's."""
    return own or (chinese if (language or language_of(text)) == "zh" else english)


def fill(template: Formats, **values: Any) -> str:
    """The prompt that a template makes of these; ModelError when it asks for something else."""
    try:
        return template.format(**values)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        names = ", ".join(f"{{{name}}}" for name in values)
        raise ModelError(f"the prompt {template!r:.80} is to be filled with {names}: {error!r}") from error


def as_language(language: Any) -> Language | None:
    """The language a caller named, or ValueError; None leaves it to the conversation."""
    if language not in ("zh", "en", None):
        raise ValueError(f'language is "zh", "en" or None to go by the conversation; got {language!r}')
    return language  # type: ignore[no-any-return]


def as_model(llm: LanguageModel) -> LanguageModel:
    """The model itself, or TypeError when it can neither be asked nor count tokens; None stays None."""
    if llm is not None and _callable_of(llm) is None and not hasattr(llm, "get_num_tokens"):
        raise TypeError(f"a language model has invoke or predict, or can be called; got {llm!r}"[:300])
    return llm


async def ask(llm: LanguageModel, prompt: str) -> str:
    """What the model answers to a prompt; a model that fails, or answers no text, is ModelError."""
    way = _callable_of(as_model(llm))
    if way is None:
        raise ModelError("there is no language model to ask")
    with translate_errors("the language model failed"):
        answered: Any = await call_function(way, prompt)
    text = _text(answered)
    if not text:
        raise ModelError(f"the language model answered {answered!r:.80} instead of a text")
    if not is_storable(text):
        raise ModelError(f"the language model answered {text!r:.80}, which no store keeps")
    return text


def counter_of(llm: LanguageModel = None, count_tokens: TokenCounter | None = None) -> TokenCounter:
    """How tokens are counted: as the caller says, else as the model does, else by the estimate of `octavo.kernel.text`."""
    own = getattr(llm, "get_num_tokens", None)
    if count_tokens is not None or not callable(own):
        return count_tokens or estimate_tokens
    missing = False

    def count(text: str) -> int:
        nonlocal missing
        if not missing:
            try:
                return int(own(text))
            except ImportError as error:  # many models count with a package that few have
                missing = True
                log.warning("the model cannot count tokens (%s); they are estimated", error)
        return estimate_tokens(text)

    return count


def tokenizer_file(path: str | Path) -> TokenCounter:
    """An exact counter from a model's `tokenizer.json`, read from disk and never from the network.

    Needs the package `tokenizers`, which `octavo[fastembed]` brings.
    """
    tokenizers = import_extra("tokenizers", "fastembed", "an exact count")
    if not Path(path).is_file():
        raise ConfigError(
            f"there is no tokenizer file {str(path)!r}; it comes with a model, as tokenizer.json"
        )
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _callable_of(llm: LanguageModel) -> Callable[[str], Any] | None:
    ways = (getattr(llm, "invoke", None), getattr(llm, "predict", None), llm)
    return next((way for way in ways if callable(way)), None)


def _text(answered: Any) -> str:
    """The text of an answer: itself, a message's content, or its blocks'."""
    content = getattr(answered, "content", answered)
    if isinstance(content, list):
        parts = (block.get("text", "") if isinstance(block, Mapping) else block for block in content)
        content = "".join(part for part in parts if isinstance(part, str))
    return content.strip() if isinstance(content, str) else ""
