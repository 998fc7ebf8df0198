"""Another process that opens a conversation and goes on with it; prints what it found."""

import json
import sys

from octavo import conversation

kind, *address = sys.argv[1:]
with getattr(conversation, kind)(*address) as history:
    memory = conversation.ConversationSummaryMemory(
        lambda prompt: f"{len(prompt.splitlines())} lines", chat_memory=history
    )
    found = memory.load_memory_variables({})["history"]
    memory.save_context({"input": "from the child"}, {"output": "ok"})
    print(json.dumps([found, memory.buffer, memory.get_summary_stats()["summary_count"]]))
