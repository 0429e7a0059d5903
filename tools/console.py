"""The console script: nothing is loaded before Ctrl-C is watched."""

from __future__ import annotations

from asmgen.interrupts import watch


def main() -> None:
    """`asmgen`, from the process's command line. Never returns: exits with the status."""
    watch()
    from asmgen.tools.cli import main as command

    command()
