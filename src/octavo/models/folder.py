"""A model in a local folder (model.onnx, tokenizer.json), run by onnxruntime without any other package.

fastembed can be pointed at a folder too, but not with the result one expects: it reads no further than the smaller of
`max_length` and `model_max_length` in tokenizer_config.json (128 tokens for an export of a model that reads 512), fails
without that file, and wants each folder registered for the whole process.
"""

import hashlib
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import Model, check_vectors
from octavo.util.system import import_extra

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
