"""A model by its hub name, downloaded once and run by fastembed."""

from typing import Any

from octavo.errors import ConfigError, ModelError
from octavo.kernel.ports import Vector
from octavo.models.embedders.answers import needed, unit_rows
from octavo.models.embedders.languages import EVERYTHING, Languages


class HubModel:
    """A model that fastembed knows by name; the first use may download it."""

    max_tokens = 512  # for planning batches; fastembed cuts each text where its model ends

    def __init__(
        self,
        model: str,
        *,
        threads: int | None = None,
        cache_dir: str | None = None,
        local_files_only: bool | None = None,
    ) -> None:
        self._called = model
        self._options = {
            "threads": threads,
            "cache_dir": cache_dir,
            "local_files_only": bool(local_files_only),
        }
        self._loaded: Any = None

    def load(self) -> None:
        if self._loaded is not None:
            return
        supported = self._supported()
        if self._called.lower() not in supported:
            raise ConfigError(
                f"fastembed knows no model {self._called!r}; it knows {', '.join(sorted(supported))}. "
                "A folder starts with / or ./"
            )
        made = needed("fastembed", "fastembed").TextEmbedding
        try:
            self._loaded = made(self._called, **self._options)
        except ValueError as error:
            raise ModelError(
                f"the model {self._called!r} could be neither found nor downloaded ({error}); "
                "a local folder needs no network: fastembed:/path/to/folder"
            ) from error

    def unload(self) -> None:
        self._loaded = None

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        # Not plain embed(): some models take questions and passages through different heads.
        method = self._loaded.query_embed if asking else self._loaded.passage_embed
        rows = list(method(texts))
        if len(rows) != len(texts):
            raise ModelError(f"the model was given {len(texts)} texts and answered {len(rows)} vectors")
        return unit_rows(rows)

    def quantized_by_batch(self) -> bool:
        return self._called.endswith("-Q")  # fastembed's own spelling of int8

    def languages(self) -> Languages:
        """From fastembed's description, where the name itself did not tell."""
        described = self._supported().get(self._called.lower(), "").lower()
        if "multilingual" in described or "multi-lingual" in described:
            return EVERYTHING
        codes = [code for word, code in (("english", "en"), ("chinese", "zh")) if word in described]
        return Languages.of(codes) if codes else EVERYTHING

    def _supported(self) -> dict[str, str]:
        listed = needed("fastembed", "fastembed").TextEmbedding.list_supported_models()
        return {model["model"].lower(): model.get("description", "") for model in listed}
