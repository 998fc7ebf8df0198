"""A real HTTP server on loopback that speaks OpenAI's chat completions and responses, whole and streamed."""

import json
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CUT = object()  # a stream that breaks off in the middle


class Endpoint:
    """Answers with the next of `script`, and else with `otherwise`: a text, a list of tool calls, or the number of an error.

    `(answer, CUT)` breaks off in the middle.
    """

    def __init__(self):
        self.script = deque()
        self.otherwise = "Noted."
        self.requests = []
        self.url = ""

    def next(self):
        answer = self.script.popleft() if self.script else self.otherwise
        return answer if isinstance(answer, tuple) else (answer, None)

    # --- what was received

    def sent(self, at=-1):
        """The texts of the messages of a request, by role; instructions are the system's."""
        body = self.requests[at]
        given = body.get("messages") or body.get("input")
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        told = [("system", body["instructions"])] if body.get("instructions") else []
        return told + [(one.get("role", one.get("type")), one.get("content")) for one in given]

    def context(self, at=-1):
        """What a request was told of memory."""
        return "\n".join(
            text for role, text in self.sent(at) if role in ("system", "developer") and "memory\n" in text
        )


@contextmanager
def openai_endpoint():
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append(body)
            answer, ending = endpoint.next()
            if isinstance(answer, int):
                self._send(answer, json.dumps({"error": {"message": "no"}}).encode())
                return
            path = self.path.partition("?")[0]
            chat = path.endswith("/chat/completions")
            assert chat or path.endswith("/responses"), path
            if not body.get("stream"):
                self._send(200, json.dumps((_completion if chat else _response)(answer)).encode())
                return
            events = (_chunks if chat else _events)(answer)
            self._stream(events[: len(events) * 2 // 3] if ending is CUT else events, ended=ending is not CUT)

        def _send(self, status, content):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, events, *, ended):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            named = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
            data = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True)]
            for piece in [*data, *(["data: [DONE]\n\n"] if ended else [])]:
                raw = piece.encode()
                self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
            self.wfile.write(b"0\r\n\r\n" if ended else b"")
            self.close_connection = not ended

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _pieces(text):
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def _completion(answer):
    message = {"role": "assistant", "content": answer}
    if isinstance(answer, list):
        calls = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call, name, arguments in answer
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def _chunks(answer):
    if isinstance(answer, str):
        deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in _pieces(answer))]
    else:
        deltas = [{"role": "assistant", "content": None}]
        for at, (call, name, arguments) in enumerate(answer):
            begun = {"index": at, "id": call, "type": "function", "function": {"name": name, "arguments": ""}}
            deltas.append({"tool_calls": [begun]})
            deltas += [
                {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}
                for piece in _pieces(arguments)
            ]
    common = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    return [*chunks, {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def _items(answer):
    if isinstance(answer, str):
        content = [{"type": "output_text", "text": answer, "annotations": []}]
        thought = {"id": "r1", "type": "reasoning", "summary": []}
        said = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        return [thought, said]
    return [
        {"id": f"f{call}", "type": "function_call", "call_id": call, "name": name, "arguments": arguments}
        for call, name, arguments in answer
    ]


def _response(answer, items=None):
    return {
        "id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed", "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": True, "error": None, "instructions": None, "metadata": {},
        "output": _items(answer) if items is None else items,
    }  # fmt: skip


def _events(answer):
    events = [{"type": "response.created", "response": _response(answer, [])}]
    for at, item in enumerate(_items(answer)):
        if item["type"] == "reasoning":
            continue
        where = {"output_index": at, "item_id": item["id"]}
        empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, **empty}})
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            events.append({"type": "response.content_part.added", **where, "content_index": 0, "part": part})
            events += [
                {"type": "response.output_text.delta", **where, "content_index": 0, "delta": piece, "logprobs": []}
                for piece in _pieces(item["content"][0]["text"])
            ]  # fmt: skip
        else:
            events += [
                {"type": "response.function_call_arguments.delta", **where, "delta": piece}
                for piece in _pieces(item["arguments"])
            ]
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": _response(answer)})
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]
