"""How the tools that run as `python -m asmgen.tools.NAME` end: a status, one sentence and 2 for a request that cannot be met, or 130.

The sentence for a fault of asmgen itself stands here too, for the command line and for tools that go on with the next file.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from asmgen.interrupts import watch
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shorten


def internal_error(error: BaseException) -> str:
    """The sentence for a fault of asmgen itself. Tests and tools that throw bad input at asmgen know it by its first two words."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (f"internal error, which no input should cause: {type(error).__name__} at {Path(last.filename).name}:{last.lineno} "
            f"({shorten(str(error))})")


def status_of(command: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Run a click command that returns its status; `arguments` are the process's where there are none. Says on stderr why it refuses."""
    if arguments is None:
        watch()
    try:
        status = command.main(args=list(arguments) if arguments is not None else None, prog_name=name, standalone_mode=False)
        return status if isinstance(status, int) else 0
    except AsmgenError as error:
        click.echo(f"{name}: {error}", err=True)
    except click.ClickException as error:
        click.echo(f"{name}: {error.format_message()}", err=True)
    return 2
