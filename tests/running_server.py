"""`octavo serve` in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
import threading

from warm import programs

STARTED, STOPPED = 180, 120  # seconds, after which a test fails rather than hang


@contextlib.contextmanager
def octavo_serves(store, folder, *options, env=None):
    """The address of a server over this store, on a free port of loopback; stopped at the end as a supervisor would."""
    octavo = f"{programs()}/octavo"
    with octavo_process(store, folder, *options, env=env, python=octavo, program=()) as (url, _):
        yield url


@contextlib.contextmanager
def octavo_process(store, folder, *options, env=None, python=sys.executable, program=("-m", "octavo.cli")):
    """The same, as users run it and with the number of its process; `program` is what Python runs."""
    told = folder / "serve.log"
    command = [
        python,
        *program,
        "serve",
        "--store",
        store,
        "--port",
        "0",
        "--json",
        *options,
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO")}
    with told.open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**clean, **(env or {})}, stdout=subprocess.PIPE, stderr=log
        )
        late = threading.Timer(STARTED, process.kill)
        late.start()
        try:
            document = b""
            for line in process.stdout:
                document += line
                if line.rstrip() == b"}":
                    break
            late.cancel()
            assert document.endswith(b"}\n"), f"the server did not start: {told.read_text()}"
            yield json.loads(document)["url"], process.pid
            process.terminate()
            assert process.wait(STOPPED) == 0, told.read_text()
        finally:
            late.cancel()
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
