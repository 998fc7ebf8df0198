"""`octavo serve`: the REST server on this machine's store, or on a database that many share."""

import asyncio
from typing import TYPE_CHECKING

import click

from octavo.cli.command import Call, flag, override, runs, store_option, text
from octavo.util.secrets import shown

if TYPE_CHECKING:
    from octavo.config import Settings
    from octavo.server.running import Prepared


@click.command("serve")
@store_option
@text(
    "--host",
    "NAME",
    "Where to listen; anything but loopback needs keys. [default: 127.0.0.1]",
    **override("server.host"),
)
@text(
    "--port",
    "N",
    "The port; 0 is any that is free. [default: 8000]",
    type=click.IntRange(0, 65_535),
    **override("server.port"),
)
@text(
    "--workers",
    "N",
    "Processes that answer. [default: 1]",
    type=click.IntRange(1, 256),
    **override("server.workers"),
)
@flag("--sample", "Begin with one user to look at, user123.")
@runs
def serve_command(call: Call, sample: bool) -> int:
    """Serve memories, events and logs over HTTP.

    Each request is one line of JSON on stderr; --quiet leaves only warnings. Stopped by SIGTERM or Ctrl-C, it finishes what is
    under way. API keys are made with octavo keys create; on loopback none are needed.

    \b
    Example: octavo serve --store sqlite:///octavo.db --sample
    """
    settings = call.settings
    from octavo.server import check_packages

    check_packages()
    from octavo.server import running as server

    server.check_settings(settings)
    with server.bind(settings.server.host, settings.server.port) as sock:
        # A store in memory is made in the process that serves it, and nothing can be made ready for it here.
        alone = server.in_memory(settings.database.dsn)
        if alone:
            prepared = server.Prepared(reachable=True, keys=0)
        else:
            prepared = asyncio.run(server.prepare(settings, sample=sample))
        port = sock.getsockname()[1]
        return server.serve(
            settings,
            sock,
            lambda: _announce(call, settings, prepared, port),
            sample=sample and alone,
            requests=not call.quiet,
        )


def _announce(call: Call, settings: "Settings", prepared: "Prepared", port: int) -> None:
    """Say where it listens, on what store, who may call, and something to try."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    address = f"http://{host}:{port}"
    store = shown(settings.database.dsn)
    who = "no key needed, only this machine can call"
    if server.needs_key:
        missing = ", and there is none: octavo keys create NAME makes one"
        who = f"an API key is needed{'' if prepared.keys or not prepared.reachable else missing}"
    call.say(f"octavo listens on {address} · store {store} · {who}")
    # To call any address of this machine, one of them must be named.
    near = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - it is not bound here
    key = ' -H "Authorization: Bearer $OCTAVO_API_KEY"' if server.needs_key else ""
    call.say(f'try: curl{key} "{near}/memory/user/user123/profile"')
    if not prepared.reachable:
        call.note(
            f"octavo: the store cannot be reached yet: {prepared.trouble}; writes are queued until it can"
        )
    call.document(
        url=address,
        store=store,
        workers=server.workers,
        needs_key=server.needs_key,
        keys=prepared.keys,
        reachable=prepared.reachable,
    )
