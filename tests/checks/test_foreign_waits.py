"""The library's kernels as a stranger's files, without tokens: every wait that is deleted is missed, but those before barriers without
which no two waves race, as is proven; and none that lint calls idle."""

from __future__ import annotations

import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.checks.barrierraces import ldslocations
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts, facts_of_text
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.mutants.mutants import Mutant
from asmgen.checks.raceproofs.outcome import PROVEN
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.checks.waits.verify import verify
from asmgen.checks.waitstates.passes import verify as wait_states
from asmgen.codeobject.textmetadata import text_metadata
from asmgen.isa.check import resolve
from asmgen.isa.errata import odd_low_reads
from asmgen.isa.operands import Waitcnt
from asmgen.isa.table import opcode
from asmgen.kernels.registry import family, names
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Instruction, Item, Program
from asmgen.reader.assembly import read_text
from asmgen.tools.mutantruns import Runs
from asmgen.tools.mutate import on_emulator
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.smalllaunches import launches

pytestmark = pytest.mark.slow
ALL = os.environ.get("ASMGEN_FOREIGN_WAITS") == "all"
"""Whether each wait of each build is tried (`make test-waits`); else MOST_WAITS a kernel, drawn by its name, and one build of
each schedule for idle ones."""
MOST_WAITS = 3
_FOUND = {"W001", "W002", "W003", "W004", "W009", "W011"}


def usual_builds(library: Family, arch: str) -> Iterator[dict[str, object]]:
    """Those of `mutate.builds` that differ in nothing but preloading: each variant's defaults, and the other way to get the arguments."""
    for variant in library.variants(arch):
        defaults = library.contract_of(variant).resolve_build({})
        yield dict(defaults)
        if "preload" in defaults:
            other = {**defaults, "preload": not defaults["preload"]}
            with suppress(ContractError):
                yield dict(library.contract(arch, other).resolve_build(other))


def library() -> Iterator[tuple[str, str, dict[str, object]]]:
    """The builds of one variant for each schedule and architecture, that of the first schedule with preloading too, whose code is the same
    in all; `asmgen.tools.mutate` takes them all."""
    for name in names():
        for arch in family(name).archs:
            first: dict[object, object] = {}
            usual: dict[object, dict[str, object]] = {}
            for build in usual_builds(family(name), arch):
                tile, schedule = build.get("tile"), build.get("schedule")
                default = usual.setdefault((tile, schedule), build)
                again = build is not default and len(first) > 1
                if first.setdefault(schedule, tile) == tile and {**build, "preload": None} == {**default, "preload": None} and not again:
                    yield name, arch, build


LIBRARY = tuple(library())


def of_each_schedule() -> Iterator[tuple[str, str, dict[str, object]]]:
    """One build for each schedule of a family: what its waits are for does not depend on the architecture."""
    seen = set()
    for name, arch, build in LIBRARY:
        schedule = name, arch if ALL else "", build.get("schedule"), build.get("tile") if ALL else ""
        if schedule not in seen and not any(value is True for value in build.values()):
            seen.add(schedule)
            yield name, arch, build


def foreign(text: str, arch: str) -> list[Program]:
    """The kernels of a text whose comments, and so their tokens, are gone."""
    programs = read_text(re.sub(r"\s*(;|//).*$", "", text, flags=re.MULTILINE), arch, "foreign")
    assert not any(instruction.tokens for program in programs for instruction in program.instructions)
    return programs


def kernels_of(built: Built, arch: str) -> Iterator[tuple[Kernel, Program]]:
    """The kernels that are launched as one, each with what a stranger reads of it."""
    programs = {program.name: program for program in foreign(built.text, arch)}
    assert len(programs) == len(built.kernel.launches)
    for kernel in built.kernel.launches:
        yield kernel, programs[kernel.resources.name]


def without(program: Program, gone: set[int]) -> Program:
    return program.with_items([item for item in program.items if id(item) not in gone])


def as_nops(program: Program, gone: set[int]) -> Program:
    row = opcode("s_nop")
    return program.with_items([Instruction(row, resolve(row, (0,), {}, program.arch), (0,)) if id(item) in gone else item
                               for item in program.items])


def findings(program: Program, facts: KernelFacts) -> set[tuple[str, int, int, str]]:
    return keys(lint_program(program, facts=facts))


def quick_findings(program: Program, facts: KernelFacts) -> set[tuple[str, int, int, str]]:
    """Those of lint's findings that are the quickest to find."""
    return keys(verify(program, notes=False, block=facts.block))


def keys(rows: Iterable[LintFinding]) -> set[tuple[str, int, int, str]]:
    return {(row.rule, id(row.producer), id(row.consumer), re.sub(r"vmcnt\(\d+\)|, \d+ newer", "", row.message))
            for row in rows if row.rule in _FOUND}


def waits_of(program: Program) -> list[Instruction]:
    """All but those with which shared cold blocks begin: no code needs them, but the code after the blocks may wait for less."""
    settling = {position for label, position in program.labels.items() if label.startswith("shared_")}
    return [instruction for position, instruction in enumerate(program.instructions)
            if instruction.name == "s_waitcnt" and position not in settling]


@cache
def made(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(family(name), arch, dict(build))


def nothing_is_missing(program: Program) -> None:
    """No wait, barrier or wait state of a kernel with tokens, and no erratum hits it."""
    assert verify(program, notes=False) == [] and list(wait_states(program)) == []
    assert not any(odd_low_reads(program.arch, one.name, one.operands, one.modifiers) for one in program.instructions)


def find_places_once(monkeypatch: pytest.MonkeyPatch, program: Program, block: tuple[int, int, int] | None) -> None:
    """Which bytes of LDS are touched follows from values, which no wait changes: mutants have the program's. Finding them is most of the
    time of a reading; it is done for the program and the first mutant."""
    usual = ldslocations.LdsLocations
    blocks = len(control_flow(program).blocks)
    whole = usual(program, control_flow(program), block)
    found = {id(program.instructions[position]): places for position, places in whole.known.items()}
    compared: list[Program] = []

    def known(mutant: Program, flow: ControlFlow, block: tuple[int, int, int] | None) -> object:
        if len(flow.blocks) != blocks:  # more rounds of a loop
            return usual(mutant, flow, block)
        places = {position: found[id(one)] for position, one in enumerate(mutant.instructions) if id(one) in found}
        if not compared:
            exact = usual(mutant, flow, block)
            assert places == exact.known and all(map(np.array_equal, whole.values.takes, exact.values.takes))
            compared.append(mutant)
        return SimpleNamespace(known=places, values=whole.values)

    monkeypatch.setattr(ldslocations, "LdsLocations", known)


@pytest.mark.parametrize(("name", "arch", "build"), LIBRARY, ids=lambda value: str(value).replace(" ", ""))
def test_every_deleted_wait_is_missed(name: str, arch: str, build: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is missing (test_library_verified.py takes the variants that are not built here)."""
    built = made(name, arch, tuple(build.items()))
    for kernel, program in kernels_of(built, arch):
        nothing_is_missing(kernel.program)
        assert text_metadata(built.text)[program.name][".max_flat_workgroup_size"] == math.prod(kernel.contract.workgroup)
        emulates = on_emulator(family(name), built, kernel)
        facts = facts_of_text(built.text, arch)[program.name]
        before = quick_findings(program, facts)
        survivors = []
        with monkeypatch.context() as patched:
            find_places_once(patched, program, facts.block)
            waits = waits_of(program)
            for wait in random.Random(program.name).sample(waits, len(waits) if ALL else min(MOST_WAITS, len(waits))):
                mutant = without(program, {id(wait)})
                if not quick_findings(mutant, facts) - before and not findings(mutant, facts) - findings(program, facts) \
                        and not emulates(Mutant("wait", "deleted", wait, mutant)) \
                        and not (is_before_barrier(program, wait) and prove_races(mutant, facts.block).status == PROVEN):
                    survivors.append(wait)
        assert waits_of(program) and not survivors


def is_before_barrier(program: Program, wait: Instruction) -> bool:
    """Whether it lets data of LDS settle for other waves, and for nothing else in between."""
    at = next(number for number, one in enumerate(program.instructions) if one is wait)
    return program.instructions[at + 1].name == "s_barrier"


def padded(program: Program, seed: int) -> Program:
    """The same with waits of any count in any place, which change nothing but time."""
    chance = random.Random(seed)
    row = opcode("s_waitcnt")
    items: list[Item] = []
    for item in program.items:
        if isinstance(item, Instruction) and chance.random() < 0.15:
            operand = Waitcnt(vmcnt=chance.choice((None, 0, 1, 2, 5, 9, 20)), lgkmcnt=chance.choice((None, 0, 1, 3, 6)))
            items.append(Instruction(row, resolve(row, (operand,), {}, program.arch), (operand,)))
        items.append(item)
    return program.with_items(items)


def idle_waits(program: Program) -> tuple[set[int], set[int]]:
    """Waits of which lint says of every counter that it is not needed: those that may go, and those that are wait states."""
    rows = [row for row in lint_program(program) if row.rule == "W006"]
    said, kept = Counter(id(row.consumer) for row in rows), {id(row.consumer) for row in rows if "is a wait state" in row.message}
    found = set()
    for wait in waits_of(program):
        (operand,) = wait.operands
        assert isinstance(operand, Waitcnt)
        if said[id(wait)] == (operand.vmcnt is not None) + (operand.lgkmcnt is not None) > 0:
            found.add(id(wait))
    assert kept <= found
    return found - kept, kept


@pytest.mark.parametrize(("name", "arch", "build"), list(of_each_schedule()), ids=lambda value: str(value).replace(" ", ""))
def test_waits_that_lint_calls_idle_are(name: str, arch: str, build: dict[str, object]) -> None:
    """All of them at once are deleted, or become nops where lint says that they are wait states, in the kernel with superfluous ones before
    every seventh instruction: a fifth of those at least."""
    built = made(name, arch, tuple(build.items()))
    mutants = []
    for _, unpadded in kernels_of(built, arch):
        program = padded(unpadded, len(str(build)))
        idle, states = idle_waits(program)
        assert len(idle) > min(20, len(program) * 0.15 / 5)
        mutants.append(without(as_nops(program, states), idle))
        assert len(wait_states(mutants[-1])) <= len(wait_states(program))
    runs, contract = Runs(family(name), built), built.kernel.contract
    for number, launch in enumerate(islice(launches(contract, built.kernel.parameters), None if ALL else 2)):
        report = runs.run(launch, True, mutants, seed=number // 2 % 2)
        assert report.passed and not any(finding.severity == "error" for finding in report.findings)


@pytest.mark.parametrize(("code", "finds"), [
    ("global_load_dword v1, v2, s[8:9]\ns_setpc_b64 s[30:31]\n", True),
    ("global_load_dword v1, v2, s[8:9]\ns_waitcnt vmcnt(0)\ns_setpc_b64 s[30:31]\n", False),
    ("global_store_dword v2, v1, s[8:9]\ns_setpc_b64 s[30:31]\n", False),
    ("s_getpc_b64 s[30:31]\ns_add_u32 s30, s30, s4\nglobal_load_dword v1, v2, s[8:9]\ns_setpc_b64 s[30:31]\n", False)])
def test_code_that_is_called_waits_for_its_loads_before_it_returns(code: str, finds: bool) -> None:
    """Not for stores, and not before a jump into a table."""
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nf:\n.type f,@function\n{code}.size f, .-f\n', None, "f", "f.s")
    found = [finding for finding in verify(program) if "returns while" in finding.message]
    assert [(finding.rule, finding.severity) for finding in found] == [("W001", "warning")] * finds
