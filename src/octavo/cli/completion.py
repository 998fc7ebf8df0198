"""`octavo completion`: what a shell needs to complete commands and options."""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from octavo.cli.options import voice
from octavo.cli.teller import Teller

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@voice
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool, quiet: bool, debug: bool) -> None:
    """Print the script that lets a shell complete commands and options.

    \b
    bash: eval "$(octavo completion bash)"          in ~/.bashrc
    zsh:  eval "$(octavo completion zsh)"           in ~/.zshrc
    fish: octavo completion fish | source           in ~/.config/fish/config.fish

    \b
    Example: octavo completion bash
    """
    teller = Teller(json=as_json, quiet=quiet, debug=debug)
    script = SHELLS[shell](context.find_root().command, {}, "octavo", "_OCTAVO_COMPLETE").source()
    teller.say_lines(script)
    teller.document(ok=True, command="completion", shell=shell, script=script)
