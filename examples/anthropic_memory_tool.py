"""Claude's memory tool over Octavo: a scripted Claude writes a file in one conversation and reads it in the next one."""

import json
import tempfile
from contextlib import chdir

import httpx2
from anthropic import Anthropic

from octavo import Memory
from octavo.integrations.anthropic import OctavoMemoryTool

URL = "sqlite:///octavo.db"
PLAN = "/memories/trips/plan.md"


def scripted(command: dict[str, str]) -> Anthropic:
    """A client whose model calls the tool once, and then says what the tool answered."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        last = json.loads(request.content)["messages"][-1]["content"]
        if isinstance(last, str):
            block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": command}
        else:
            block = {"type": "text", "text": str(last[0]["content"])}
        usage = {"input_tokens": 1, "output_tokens": 1}
        reason = "tool_use" if isinstance(last, str) else "end_turn"
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [block]}
        return httpx2.Response(200, json={**body, "stop_reason": reason, "usage": usage})

    return Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))


def run(said: str, **command: str) -> None:
    """One conversation."""
    with OctavoMemoryTool(URL, "lin") as tool, scripted(command) as client:
        runner = client.beta.messages.tool_runner(
            model="claude", max_tokens=100, tools=[tool], messages=[{"role": "user", "content": said}]
        )
        print(f"{said}\n  {runner.until_done().content[0].text}")


with tempfile.TemporaryDirectory() as folder, chdir(folder):
    run("I fly to Shanghai on Friday.", command="create", path=PLAN, file_text="Lin flies to 上海 on Friday.")
    run("When do I fly?", command="view", path=PLAN)
    with Memory(URL) as memory:
        for hit in memory.search("When does Lin fly?", user_id="lin"):
            print(hit.source, hit.id, "|", hit.text)
