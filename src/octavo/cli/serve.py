"""`octavo serve`: the REST server on this machine's store, or on a database that many share."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from octavo.cli import running
from octavo.cli.options import voice
from octavo.cli.settings import resolved, store_option
from octavo.cli.teller import Teller
from octavo.util.secrets import shown

if TYPE_CHECKING:
    from octavo.config import Settings
    from octavo.server.running import Prepared


@click.command("serve")
@store_option
@click.option(
    "--host", metavar="NAME", help="Where to listen; anything but loopback needs keys. [default: 127.0.0.1]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="The port; 0 is any that is free. [default: 8000]",
)
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Processes that answer. [default: 1]"
)
@click.option("--sample", is_flag=True, help="Begin with one user to look at, user123.")
@voice
def serve_command(sample: bool, as_json: bool, quiet: bool, debug: bool, **given: Any) -> None:
    """Serve memories, events and logs over HTTP.

    Each request is one line of JSON on stderr; --quiet leaves only warnings. Stopped by SIGTERM or Ctrl-C, it finishes what is
    under way. API keys are made with octavo keys create; on loopback none are needed.

    \b
    Example: octavo serve --store sqlite:///octavo.db --sample
    """  # fmt: skip
    teller = Teller(json=as_json, quiet=quiet, debug=debug)

    def work() -> int:
        settings = _settings(teller, **given)
        from octavo.server import packages

        packages()
        from octavo.server import running as server

        server.checked(settings)
        sock = server.bind(settings.server.host, settings.server.port)
        with sock:
            # A store in memory is made in the process that serves it, and nothing can be made ready for it here.
            alone = server.fleeting(settings.database.dsn)
            if alone:
                prepared = server.Prepared(reachable=True, keys=0)
            else:
                prepared = asyncio.run(server.prepare(settings, sample=sample))
            port = sock.getsockname()[1]
            return server.serve(
                settings,
                sock,
                lambda: _announce(teller, settings, prepared, port),
                sample=sample and alone,
                requests=not quiet,
            )

    running.run(teller, [given["url"] or ""], work)


def _settings(
    teller: Teller, *, config: str | None, verbose: bool, url: str | None, **named: Any
) -> "Settings":
    server = {f"server.{name}": (f"--{name}", value) for name, value in named.items()}
    return resolved(teller, config, verbose, {"database.dsn": ("--store", url), **server}).settings


def _announce(teller: Teller, settings: "Settings", prepared: "Prepared", port: int) -> None:
    """Where it listens, on what, who may call, and something to try."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    address = f"http://{host}:{port}"
    store = shown(settings.database.dsn)
    teller.say(f"octavo listens on {address} · store {store} · {_who(settings, prepared)}")
    # To call any address of this machine, one of them must be named.
    near = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - it is not bound here
    key = ' -H "Authorization: Bearer $OCTAVO_API_KEY"' if server.needs_key else ""
    teller.say(f'try: curl{key} "{near}/memory/user/user123/profile"')
    if not prepared.reachable:
        teller.note(
            f"octavo: the store cannot be reached yet: {prepared.trouble}; writes are queued until it can"
        )
    teller.document(
        ok=True,
        command="serve",
        url=address,
        store=store,
        workers=server.workers,
        needs_key=server.needs_key,
        keys=prepared.keys,
        reachable=prepared.reachable,
    )


def _who(settings: "Settings", prepared: "Prepared") -> str:
    if not settings.server.needs_key:
        return "no key needed, only this machine can call"
    if prepared.keys or not prepared.reachable:
        return "an API key is needed"
    return "an API key is needed, and there is none: octavo keys create NAME makes one"
