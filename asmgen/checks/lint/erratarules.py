"""Errata that show in one instruction's operands (isa/errata.py). Those of wait states are judged with the other wait states."""

from __future__ import annotations

from collections.abc import Iterator

from asmgen.checks.finding.finding import LintFinding
from asmgen.isa.errata import PACKED_ODD_LOW, odd_low_reads
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program


def erratum_findings(program: Program, flow: ControlFlow, runs: frozenset[int]) -> Iterator[LintFinding]:
    """Each packed f32 instruction that the erratum may hit. `runs` are the blocks that can run."""
    erratum = PACKED_ODD_LOW
    if program.arch not in erratum.archs:
        return
    found = [(position, instruction, reads) for position, instruction in enumerate(program.instructions)
             if instruction.name in erratum.mnemonics and flow.block_of[position] in runs
             and (reads := odd_low_reads(program.arch, instruction.name, instruction.operands, instruction.modifiers))]
    if not found:
        return
    matrix = next((instruction for position, instruction in enumerate(program.instructions)
                   if "mfma" in instruction.opcode.classes and flow.block_of[position] in runs), None)
    for position, instruction, reads in found:
        suspects = [read for read in reads if not read.exchanged]
        severity = "error" if suspects and matrix is not None else "warning"
        registers = ", ".join(f"v{read.source.index + 1} of {read.source}" for read in suspects or reads)
        why = "the kernel has matrix instructions" if matrix is not None else "the kernel has no matrix instruction, another wave of the " \
                                                                              "SIMD may have"
        form = "" if suspects else "; the pair is exchanged, a form that has not been seen to fail"
        yield LintFinding(erratum.id, severity, f"{instruction.text} takes {registers} for its low half, where {program.arch} may use a "
                          f"stale value beside a matrix instruction ({why}{form}); {erratum.cure}", None, instruction, position=position)
