"""The command line: `asmgen COMMAND`. Each command loads only what it needs.

Exit status: 0 good; 1 the check failed; 2 the request was wrong, with one sentence on stderr; 130 after Ctrl-C.
"""

from __future__ import annotations

from asmgen.interrupts import STATUS as INTERRUPTED
from asmgen.interrupts import watch

if __name__ == "__main__":
    watch()  # before the rest is loaded

import errno
import io
import os
import sys
from collections.abc import Sequence

import click

from asmgen import __version__
from asmgen.garbage import collect_seldom
from asmgen.interrupts import follows_interrupt, leave
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import printable, shorten, shown
from asmgen.tools import commands_examine, commands_kernel, commands_prove
from asmgen.tools.commandline import FAILED, GOOD, WRONG, say
from asmgen.tools.terminal.entry import internal_error

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # all other files that are written name themselves
_LONGEST = 500  # characters of a sentence about the command line


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="asmgen")
def commands() -> None:
    """AMD gfx942 and gfx950 assembly kernels: build, run, inspect."""


for command in (*commands_kernel.COMMANDS, *commands_examine.COMMANDS, *commands_prove.COMMANDS):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line, the process's own where no `arguments` are given. Never returns: exits with the status."""
    if arguments is None:
        watch()
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files and symbols need not be text in the terminal's encoding
    try:
        status = commands.main(args=list(arguments) if arguments is not None else None, prog_name="asmgen", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else GOOD)
    except AsmgenError as error:
        _refuse(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(WRONG)
    except click.Abort:  # where `watch` does not watch
        say("interrupted")
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        _refuse(shorten(" ".join(error.format_message().split()), _LONGEST))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; python would complain about it at exit
        sys.exit(FAILED)
    except OSError as error:
        name = shown(error.filename) if error.filename else "the standard output" if error.errno in _NO_ROOM else ""
        _refuse(f"{name}: cannot be read or written: {error.strerror}" if name else str(error))
    except MemoryError as error:
        _refuse(f"there is not enough memory{f': {shorten(str(error))}' if str(error) else ''}")
    except Exception as error:
        if follows_interrupt(error):
            leave()
        if os.environ.get("ASMGEN_TRACEBACK"):
            raise
        _refuse(f"{internal_error(error)}; with ASMGEN_TRACEBACK=1 asmgen shows the whole trace")


def _refuse(sentence: str) -> None:
    click.echo(f"asmgen: {printable(sentence)}", err=True)
    sys.exit(WRONG)


if __name__ == "__main__":
    main()
