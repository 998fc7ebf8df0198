"""A server on loopback that answers what a test tells it to, and remembers what it was asked."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Scripted:
    """`answers` are (status, headers, body) in order; "drop" hangs up. The last one is given again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []  # (method, path, headers, body)
        self.url = ""

    def next(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextlib.contextmanager
def serving(*answers):
    script = Scripted(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            script.asked.append((self.command, self.path, dict(self.headers), body))
            answer = script.next()
            if answer == "drop":
                self.close_connection = True
                return
            status, headers, said = answer
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - as http.server calls them

        def log_message(self, *said):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
