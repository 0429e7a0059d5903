"""How the tools that run as `python -m asmgen.tools.NAME` end: a status, or one sentence and 2 for a request that cannot be met."""

from __future__ import annotations

from collections.abc import Sequence

import click

from asmgen.isa.errors import AsmgenError


def status_of(command: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Run a click command that returns its status; `arguments` are the process's where there are none. Says on stderr why it refuses."""
    try:
        status = command.main(args=list(arguments) if arguments is not None else None, prog_name=name, standalone_mode=False)
        return status if isinstance(status, int) else 0
    except AsmgenError as error:
        click.echo(f"{name}: {error}", err=True)
    except click.ClickException as error:
        click.echo(f"{name}: {error.format_message()}", err=True)
    return 2
