"""Two lines give a client of the OpenAI SDK a memory. The model here is a few lines on this machine; yours is any server."""

import json
import tempfile
import threading
from contextlib import chdir
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai import OpenAI

from octavo import with_memory


class Model(BaseHTTPRequestHandler):
    """Knows nothing but what it is told in the call."""

    def do_POST(self) -> None:
        """Answer a chat completion."""
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        safe = any("peanuts" in message["content"] for message in told)
        text = "Noodles with vegetables, no peanuts." if safe else "Noodles with peanut sauce!"
        text = text if told[-1]["content"].endswith("?") else "Noted."
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        answer = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def say(client: OpenAI, text: str) -> str | None:
    """Ask the model with one message, and no history."""
    answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server, tempfile.TemporaryDirectory() as folder:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain = {"base_url": f"http://127.0.0.1:{server.server_port}/v1", "api_key": "none"}
    with chdir(folder):  # where octavo.db is made
        for day, text in [("monday", "I am allergic to peanuts."), ("tuesday", "What shall I cook?")]:
            with with_memory(OpenAI(**plain), user_id="lin", session_id=day, timeout_seconds=30) as client:
                print(f"{day}: {text}\n  {say(client, text)}")
    with OpenAI(**plain) as forgetful:
        print(f"without memory:\n  {say(forgetful, 'What shall I cook?')}")
    server.shutdown()
