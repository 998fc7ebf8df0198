"""Where the command keeps how far an interrupted move had come."""

import hashlib
import os
from pathlib import Path

from octavo.kernel.text import spell
from octavo.util.file_modes import make_folder


def state_file(*what: object) -> Path | None:
    """The file for one move, the same for the same words from the same folder; None where none can be kept."""
    try:
        name = hashlib.blake2b(spell([str(Path.cwd()), *what]).encode(), digest_size=8).hexdigest()
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "octavo"
        make_folder(folder)
    except (OSError, RuntimeError):  # RuntimeError: nobody has told this process where its home is
        return None
    return folder / f"{what[0]}-{name}.jsonl" if os.access(folder, os.W_OK) else None
