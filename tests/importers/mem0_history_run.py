"""Runs in mem0's environment: its own class writes a history database.

python mem0_history_run.py FILE
"""

import os
import sys
from pathlib import Path

os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(Path.cwd() / "mem0")}

from mem0.memory.storage import SQLiteManager

history = SQLiteManager(sys.argv[1])
at = [f"2026-03-01T12:00:0{number}+00:00" for number in range(4)]
history.add_history("m1", None, "Lives in Berlin", "ADD", created_at=at[0])
history.add_history("m1", "Lives in Berlin", "Lives in Potsdam", "UPDATE", created_at=at[1], updated_at=at[1])
history.add_history("m2", None, "Has a cold", "ADD", created_at=at[0])
history.add_history("m2", "Has a cold", None, "DELETE", created_at=at[2], is_deleted=1)
history.add_history("m3", None, "Likes tea", "ADD", created_at=at[3], role="user")
history.save_messages([{"role": "user", "content": "I moved."}], "run_id=monday&user_id=lin")
history.close()
