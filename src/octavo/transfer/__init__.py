"""Moving records between stores and files: batched, resumable, idempotent, with order, ids, times and marks kept."""

from octavo.transfer.copying import Moved, Progress, copy
from octavo.transfer.files import BadLine, BadLineError, export, import_

__all__ = ["BadLine", "BadLineError", "Moved", "Progress", "copy", "export", "import_"]
