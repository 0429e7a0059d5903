"""What the commands share: options, exit statuses, and how they print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from asmgen.isa.quote import printable

if TYPE_CHECKING:
    from asmgen.checks.finding.finding import LintFinding
    from asmgen.tools.running.build import Built

GOOD, FAILED, WRONG = 0, 1, 2


def say(sentence: str) -> None:
    """Print a line of asmgen on stderr."""
    click.echo(f"asmgen: {sentence}", err=True)


def document(value: Any) -> None:
    """Print the JSON document of a command."""
    click.echo(json.dumps(value, indent=1))


parameters_option = click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A kernel parameter; may be repeated.")
verify_option = click.option("--no-verify", "verify", is_flag=True, flag_value=False, default=True,
                             help="Take a kernel in which lint finds errors, too.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
memory_option = click.option("--memory-limit", default=2 << 30, show_default=True, type=click.IntRange(0), metavar="BYTES",
                             help="What the buffers of the launch may have together.")
allow_option = click.option("--allow", multiple=True, type=click.Choice(["races"]),
                            help="Races between different values are warnings, not errors.")


def errors_in(built: Built) -> list[LintFinding]:
    """What lint calls an error in a kernel, told on stderr."""
    from asmgen.tools.running.build import lint_errors

    errors = lint_errors(built)
    for error in errors:
        click.echo(printable(error.sentence()), err=True)
    if errors:
        say(f"{built.kernel.name} has {len(errors)} error{'s' * (len(errors) > 1)}, so it is not taken; --no-verify takes it as it is")
    return errors
