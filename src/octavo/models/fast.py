"""Models on this machine's CPU: a hub name, downloaded and run by fastembed, or a local folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.checks import check_positive, check_vectors, import_package, require_package
from octavo.models.folder import FolderModel
from octavo.models.languages import EVERYTHING, Languages, languages_of, prefix_mark, prefixes_of
from octavo.models.local import LocalEmbedder, Model


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
            require_package("onnxruntime", "fastembed")
            folder = FolderModel(
                Path(model).expanduser(), file=file, pooling=pooling, max_tokens=max_tokens, threads=threads
            )
            opened, known_as = folder, folder.called
        else:
            require_package("fastembed", "fastembed")
            opened = HubModel(
                str(model), threads=threads, cache_dir=cache_dir, local_files_only=bool(local_files_only)
            )
            known_as = str(model)
        family = prefixes_of(known_as)
        prefixes = family.overridden(query_prefix, passage_prefix)
        if name is None and local:
            name = f"fastembed:{folder.path.resolve().name}@{folder.fingerprint(prefixes.passage)}"
        elif name is None:
            name = f"fastembed:{model}{prefix_mark(prefixes, family)}"
        declared = languages_of(known_as) if languages is None else Languages.of(languages)
        super().__init__(opened, name, declared or EVERYTHING, prefixes=prefixes, batch_size=batch_size)
        self._unknown = declared is None

    def reads(self, text: str) -> bool:
        """Whether the text is in a script of the model's languages: declared, known by name or by vocabulary."""
        if self._unknown:
            self._languages, self._unknown = self._model.languages(), False
        return super().reads(text)


class HubModel:
    """A model that fastembed knows by name; the first use may download it."""

    max_tokens = 512  # for planning batches; fastembed cuts each text where its model ends

    def __init__(self, model: str, **options: Any) -> None:
        self._called = model
        self._options = options
        self._loaded: Any = None

    def load(self) -> None:
        """Find the model on this machine, or download it."""
        if self._loaded is not None:
            return
        made = import_package("fastembed", "fastembed").TextEmbedding
        supported = {model["model"].lower() for model in made.list_supported_models()}
        if self._called.lower() not in supported:
            raise ConfigError(
                f"fastembed knows no model {self._called!r}; it knows {', '.join(sorted(supported))}. "
                "A folder starts with / or ./"
            )
        try:
            self._loaded = made(self._called, **self._options)
        except ValueError as error:
            raise ModelError(
                f"the model {self._called!r} could be neither found nor downloaded ({error}); "
                "a local folder needs no network: fastembed:/path/to/folder"
            ) from error

    def unload(self) -> None:
        """Give the memory back."""
        self._loaded = None

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        """One batch; some models take questions and passages through different heads, so not by plain `embed`."""
        method = self._loaded.query_embed if asking else self._loaded.passage_embed
        return check_vectors(list(method(texts)), len(texts))

    def quantized_by_batch(self) -> bool:
        """Whether the weights are int8, which fastembed spells like this."""
        return self._called.endswith("-Q")

    def languages(self) -> Languages:
        """Everything: of the models that fastembed lists, the name tells."""
        return EVERYTHING
