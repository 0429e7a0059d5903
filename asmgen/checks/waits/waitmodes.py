"""The modes of a kernel and of its blocks: auto inserts, verify checks, off does neither."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.counters.points import POINT
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waits.verify import verify
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Instruction, Program


def apply_waits(program: Program, mode: str, verifying: bool = True) -> Program:
    """The program with its waits in order, `mode` being that of all instructions that have none of their own. Without `verifying`, what
    is to be verified is not.

    Copies of a step share their instructions; here each place gets one of its own, by whose identity findings and the emulator go.
    Raises AsmgenError at the author's line for the first error in a part that is to be verified.
    """
    items = [item.in_mode(item.waits or mode) if isinstance(item, Instruction) else item for item in program.items]
    program = program.with_items(items)
    modes = {instruction.waits for instruction in program.instructions}
    if modes & {"auto", POINT}:
        program = insert_waits(program)
    if verifying and "verify" in modes:
        refuse_errors([found for found in verify(program, notes=False) if found.consumer is not None and found.consumer.waits == "verify"])
    return program


def refuse_errors(findings: Sequence[LintFinding]) -> None:
    """Raises AsmgenError for the first error of a verification, with how many more there are."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        consumer = errors[0].consumer
        raise AsmgenError(f"{errors[0].message}{more}", consumer.where() if consumer is not None else "")
