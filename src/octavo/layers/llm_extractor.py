"""Extraction by a language model, with rules behind it for every way in which a model can fail."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from octavo.errors import ConfigError, ModelError
from octavo.kernel.text import fold, pluralize
from octavo.layers import llm_messages
from octavo.layers.llm_messages import ModelFact, facts_of
from octavo.layers.values import CATEGORIES, DEFAULTS, Decision, Extractor, Known, Layer, OwnerType, Verdict
from octavo.models.openai_server import OpenAIServer, RequestRefused

_log = logging.getLogger("octavo.layers")

_BY_SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "facts", "strict": True, "schema": llm_messages.SCHEMA},
}
_LIMITS = {"temperature": 0, "max_tokens": 8000}  # as many as the most facts take that are kept
#: How an answer is asked for, the strictest first; what a server refuses is not asked of it again.
_FORMATS: tuple[dict[str, Any], ...] = (
    {"response_format": _BY_SCHEMA, **_LIMITS},
    {"response_format": {"type": "json_object"}, **_LIMITS},
    _LIMITS,
    {"response_format": _BY_SCHEMA},  # some take neither a temperature nor a limit
    {},
)
_LONGEST_REPEATED = 4000  # characters of a useless answer that the model is shown again
_ENDS = " .。!！,，;；:："  # no more than these: C++ is not C, and -5 is not 5


class ModelExtractor:
    """Asks a model on an OpenAI-compatible server; whatever is wrong with that, the fallback decides instead.

    A model only proposes: it can name no memory but those known, add no action, and say no more than 50 facts. The
    fallback and a client that is handed in stay open.
    """

    most_characters = llm_messages.TEXT_CHARACTERS

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        attempts: int = 2,
        known_memories: int = 50,
        fallback: Extractor,
        client: Any = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ConfigError(f"model must name a model; got {model!r}")
        if not timeout_seconds > 0:
            raise ConfigError(f"timeout_seconds must be more than 0; got {timeout_seconds!r}")
        if attempts < 1:
            raise ConfigError(f"attempts must be 1 or more; got {attempts!r}")
        if known_memories < 0:
            raise ConfigError(f"known_memories must be 0 or more; got {known_memories!r}")
        self._model = model.strip()
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._known_memories = known_memories
        self._fallback = fallback
        # Rules are at hand, so that nobody has to wait for a second try of a server that fails.
        self._server = OpenAIServer(base_url, api_key, timeout=timeout_seconds, max_retries=0, client=client)
        self._format = 0

    def __repr__(self) -> str:
        return f"ModelExtractor({self._model!r} at {self._server.where})"  # never the key

    async def decide(
        self, text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
    ) -> list[Decision]:
        """What the model makes of the text; what the rules make of it, when the model fails."""
        shown = llm_messages.nearest(text, known, self._known_memories)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                facts = await self._facts(text, shown, owner_type, at)
        except TimeoutError:
            _log.warning("%r took longer than %g s; the rules decide", self, self._timeout_seconds)
        except ModelError as error:
            _log.warning("%r: %s; the rules decide", self, error)
        else:
            return await DecisionMaker(self._fallback, text, known, shown, owner_type, at).decisions(facts)
        return await self._fallback.decide(text, known, owner_type=owner_type, at=at)

    async def close(self) -> None:
        """Close the client, unless it was handed in; a second call does nothing."""
        await self._server.close()

    async def _facts(
        self, text: str, known: Sequence[Known], owner_type: OwnerType, at: datetime
    ) -> list[ModelFact]:
        """The facts of the first answer of use; after too many of none, ModelError."""
        messages = llm_messages.question(text, known, owner_type=owner_type, at=at)
        wrong = ""
        for _ in range(self._attempts):
            answer, whole = await self._ask(messages)
            try:
                if not whole:
                    raise ModelError("it was cut off; say less")
                facts, more = facts_of(answer, at)
                kept = llm_messages.keep_quoted(facts, text)
            except ModelError as error:
                wrong = str(error)
                messages += llm_messages.ask_again(answer[:_LONGEST_REPEATED] or "…", wrong, text)
                continue
            if more:
                _log.warning(
                    "%r found %s more than the %d that are kept",
                    self,
                    pluralize(more, "fact"),
                    llm_messages.MOST_FACTS,
                )
            if len(kept) < len(facts):
                dropped = pluralize(len(facts) - len(kept), "fact")
                _log.warning("%r: %s quoted what the text does not say, and will not be kept", self, dropped)
            return kept
        raise ModelError(f"its answer is of no use: {wrong}")

    async def _ask(self, messages: list[dict[str, str]]) -> tuple[str, bool]:
        """One answer, in the strictest form that the server knows, and whether it is whole."""
        number = self._format
        while True:
            try:
                answer = await self._completion(messages, _FORMATS[number])
            except RequestRefused:
                number += 1
                if number == len(_FORMATS):
                    raise
            else:
                self._format = number
                return answer

    async def _completion(self, messages: list[dict[str, str]], form: dict[str, Any]) -> tuple[str, bool]:
        choice = await self._server.complete("it", model=self._model, messages=messages, **form)
        if getattr(choice.message, "refusal", None):
            raise ModelError("it refused to answer")
        finished = getattr(choice, "finish_reason", None)
        if finished == "content_filter":
            raise ModelError("its answer was filtered")
        content = getattr(choice.message, "content", None)
        return content if isinstance(content, str) else "", finished != "length"


class DecisionMaker:
    """Makes decisions of facts, so that none names what is not there, repeats another or says what no layer knows."""

    def __init__(
        self,
        rules: Extractor,
        text: str,
        known: Sequence[Known],
        shown: Sequence[Known],
        owner_type: OwnerType,
        at: datetime,
    ) -> None:
        self._rules = rules
        self._known = known
        self._owner_type: OwnerType = owner_type
        self._at = at
        self._by_id = {each.id: each for each in known}
        self._by_words = {(each.layer, _words(each.content)): each for each in reversed(known)}
        shown_ids = {each.id for each in shown}
        self._not_shown = [each for each in known if each.id not in shown_ids]
        self._reasons = llm_messages.REASONS[llm_messages.language_of(text)]
        self._changed: set[str] = set()  # memories that a fact of this text has changed

    async def decisions(self, facts: Sequence[ModelFact]) -> list[Decision]:
        """What to do with the facts, in their order, each once."""
        made: dict[tuple[Layer, str], Decision] = {}
        for fact in facts:
            decision = await self._decide(fact)
            key = (decision.layer, _words(decision.content))
            if key in made:
                continue
            made[key] = decision
            if decision.action == "update" and decision.target is not None:
                self._changed.add(decision.target)
        return list(made.values())

    async def _decide(self, fact: ModelFact) -> Decision:
        target = self._by_id.get(fact.target or "")
        if target is not None and fact.action == "ignore":
            return self._decision(fact, "ignore", target.layer, target.category, target.id)
        layer, category = await self._layer_and_category(fact)
        same = self._by_words.get((layer, _words(fact.content)))
        if same is not None and same.id not in self._changed:  # word for word, whatever the model thinks
            return self._decision(fact, "ignore", layer, same.category, same.id)
        if (
            fact.action == "update"
            and target is not None
            and target.layer == layer
            and self._may_change(target)
        ):
            return self._decision(fact, "update", layer, category, target.id)
        # An insert was decided by what was shown; anything else here lacks a memory that it could mean.
        compared = self._not_shown if fact.action == "insert" else self._known
        ruled = await self._decide_by_rules(fact.content, compared) if compared else None
        if ruled is not None and ruled.layer == layer and ruled.target in self._by_id:
            if ruled.action == "ignore":
                return self._decision(fact, "ignore", layer, category, ruled.target, ruled.reason)
            if ruled.action == "update" and self._may_change(self._by_id[ruled.target]):
                return self._decision(fact, "update", layer, category, ruled.target, ruled.reason)
        return self._decision(fact, "insert", layer, category, None)

    async def _layer_and_category(self, fact: ModelFact) -> tuple[Layer, str]:
        """What the model says, or else the rules, or else the plainest of its layer."""
        if fact.layer is not None and fact.category is not None:
            return fact.layer, fact.category
        ruled = await self._decide_by_rules(fact.content, ())
        if (
            ruled is not None
            and fact.layer in (None, ruled.layer)
            and ruled.category in CATEGORIES[ruled.layer]
        ):
            return ruled.layer, ruled.category
        layer: Layer = fact.layer or "event"
        return layer, DEFAULTS[layer]

    async def _decide_by_rules(self, content: str, known: Sequence[Known]) -> Decision | None:
        """What the rules say to one statement; nothing, when they see several in it or none."""
        ruled = await self._rules.decide(content, known, owner_type=self._owner_type, at=self._at)
        return ruled[0] if len(ruled) == 1 else None

    def _may_change(self, target: Known) -> bool:
        # The second change of a memory in one write would be of a version that is gone, and a model that saw only the
        # beginning of one would write the rest away.
        return target.id not in self._changed and len(target.content) <= llm_messages.SHOWN_CHARACTERS

    def _decision(
        self,
        fact: ModelFact,
        action: Verdict,
        layer: Layer,
        category: str,
        target: str | None,
        reason: str = "",
    ) -> Decision:
        # A reason that was given for another action would be a lie in the log.
        given = fact.reason if fact.action in (action, None) else ""
        return Decision(
            action=action,
            layer=layer,
            category=category,
            content=fact.content,
            reason=given or reason or self._reasons[action],
            target=target,
            happened_at=fact.happened_at if layer == "event" else None,
            quote=fact.quote,
        )


def _words(text: str) -> str:
    """The text as it is compared word for word: whatever its case, its width and its full stop."""
    return " ".join(fold(text).split()).strip(_ENDS)
