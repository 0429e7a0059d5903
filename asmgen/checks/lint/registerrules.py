"""Register rules: beyond the allocation, dead writes, loads never read, near an occupancy step, read before written."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.unwritten import unwritten_findings
from asmgen.isa.arch import LANES, architecture
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT, VGPR_COUNT, mask_names
from asmgen.program.controlflow import ControlFlow
from asmgen.program.live import program_liveness
from asmgen.program.program import Program
from asmgen.regalloc.liveness import Liveness

_NEAR = 8
# SCC and the halves of EXEC, M0 and the like are by-products or act without being read.
_ACTING = NAMED["exec"].mask | NAMED["m0"].mask | NAMED["flat_scratch"].mask | NAMED["xnack_mask"].mask
_IGNORED = _ACTING | 1 << SCC_BIT
_VECTOR = (1 << SGPR_BIT) - 1


def register_findings(program: Program, flow: ControlFlow, runs: frozenset[int], facts: KernelFacts) -> Iterator[LintFinding]:
    """R001 to R005. `runs` are the blocks that can run."""
    liveness = program_liveness(program, flow, lanes_kept=True)
    yield from _beyond(program, flow, runs, facts)
    yield from _dead(program, flow, runs, liveness)
    yield from unwritten_findings(program, flow, liveness, facts.filled)
    yield from _occupancy(program, facts)


def _beyond(program: Program, flow: ControlFlow, runs: frozenset[int], facts: KernelFacts) -> Iterator[LintFinding]:
    if facts.vgprs is None:
        return
    arch_vgprs = min(facts.vgprs, VGPR_COUNT)
    acc = min(max(0, facts.vgprs - (facts.accum_offset if facts.accum_offset is not None else facts.vgprs)), VGPR_COUNT)
    if facts.accum_offset is None:
        allowed = (1 << arch_vgprs) - 1 | _VECTOR >> VGPR_COUNT << VGPR_COUNT
    else:
        allowed = (1 << arch_vgprs) - 1 | ((1 << acc) - 1) << VGPR_COUNT
    forbidden = _VECTOR & ~allowed
    if not program.registers & forbidden:
        return
    guessed = program.labels[program.guessed] if program.guessed else len(program.instructions)
    split = f" split at {facts.accum_offset}" if facts.accum_offset is not None else ""
    for position, instruction in enumerate(program.instructions):
        beyond = (instruction.reads | instruction.writes) & forbidden
        if not beyond or flow.block_of[position] not in runs:
            continue
        severity, why = "error", ""
        if position >= guessed:
            severity, why = "note", " (a call whose target is not known may reach this function, or never does)"
        yield LintFinding("R001", severity, f"{instruction.name} uses {', '.join(mask_names(beyond))}, but the kernel has {facts.vgprs} "
                          f"vector registers{split}{why}", None, instruction, facts.vgprs, _total(beyond, facts.accum_offset or 0),
                          position)


def _total(mask: int, split: int) -> int:
    """How many registers an allocation that has them all would need."""
    high = mask >> VGPR_COUNT & (1 << VGPR_COUNT) - 1
    return max((mask & (1 << VGPR_COUNT) - 1).bit_length(), split + high.bit_length() if high else 0)


def _dead(program: Program, flow: ControlFlow, runs: frozenset[int], liveness: Liveness) -> Iterator[LintFinding]:
    instructions = program.instructions
    names: dict[int, str] = {}
    for dead in liveness.dead_writes(_ACTING):
        instruction = instructions[dead.position]
        if flow.block_of[dead.position] not in runs or instruction.writes != dead.mask or not dead.mask & ~_IGNORED:
            continue
        memory = instruction.opcode.memory
        if memory is not None and memory.kind == "atomic" or "branch" in instruction.opcode.classes:
            continue
        what = names.get(dead.mask) or names.setdefault(dead.mask, ", ".join(mask_names(dead.mask & ~_IGNORED)))
        if memory is not None:
            yield LintFinding("R003", "note", f"{what} of {instruction.name} {'are' if (dead.mask & ~_IGNORED).bit_count() > 1 else 'is'} "
                                          f"never read", None, instruction, position=dead.position)
        else:
            yield LintFinding("R002", "note", f"{instruction.name} writes {what}, which nobody reads", None, instruction,
                              position=dead.position)


def _occupancy(program: Program, facts: KernelFacts) -> Iterator[LintFinding]:
    if facts.wanted is None:
        return
    profile = architecture(program.arch)
    waves = profile.waves_for_vgprs(facts.wanted)
    most = profile.waves_per_simd
    if facts.lds and facts.block:  # the largest workgroup: smaller ones have fewer waves in the same LDS
        most = profile.waves_for_lds(facts.lds, -(-prod(facts.block) // LANES))
    if waves < most:
        step = profile.vgprs_for_waves(waves + 1)
        if 0 < facts.wanted - step <= _NEAR:
            yield LintFinding("R004", "note", f"{facts.wanted} vector registers give {waves} wave{'s' * (waves > 1)} per SIMD; with "
                          f"{facts.wanted - step} fewer there would be {waves + 1}", None, None, facts.wanted, step)
