"""`asmgen banks KERNEL|SPEC.json`: LDS bank conflicts of each access of a run, by the phase tables from the emulator's addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.author.family.family import Family
from asmgen.emulator.memory.ldsops import BankedAccess
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.isa.bankcost import Cost, bank_cost
from asmgen.isa.errors import AsmgenError
from asmgen.isa.lds import rule
from asmgen.launch.specrun import trace_launch_spec
from asmgen.program.program import Instruction
from asmgen.tools.banks import bank_map
from asmgen.tools.running.build import Built
from asmgen.tools.running.runner import emulator, launch
from asmgen.tuning.traced import smaller


@dataclass(frozen=True)
class RunAccess:
    """One LDS instruction: where it stands, how often waves executed it, the cycles that conflicts cost all of them, the worst of them."""

    instruction: str
    op: str
    line: str | None
    address: int | None
    executed: int
    extra: int
    cost: Cost
    assumed: bool
    lanes: tuple[int, ...] | tuple[tuple[int, int], ...]
    bits: int
    active: int

    def as_json(self) -> dict[str, Any]:
        """A row of `accesses`: cycles, ways and lanes are of the worst execution, `extra` is the sum over all."""
        return {"instruction": self.instruction, "line": self.line, "address": self.address, "cycles": self.cost.cycles,
                "ideal": self.cost.ideal, "ways": self.cost.ways, "lanes": list(self.cost.lanes) if self.cost.lanes else None,
                "executed": self.executed, "extra": self.extra, "assumed": self.assumed}


@dataclass(frozen=True)
class RunBanks:
    """All accesses of a run by addresses of lanes; loads straight into LDS have none of their own and no conflicts."""

    kernel: str
    arch: str
    accesses: tuple[RunAccess, ...]

    def as_json(self) -> dict[str, Any]:
        """The document of `asmgen banks --json`."""
        return {"kernel": self.kernel, "arch": self.arch, "extra": sum(access.extra for access in self.accesses),
                "accesses": [access.as_json() for access in self.accesses]}

    def text(self) -> str:
        """For people: a line for each instruction, those with conflicts first, and the banks of the worst."""
        total = sum(access.extra for access in self.accesses)
        ranked = sorted(self.accesses, key=lambda access: -access.extra)
        width = max(len(access.instruction) for access in ranked)
        lines = [f"{self.kernel} ({self.arch}): {len(ranked)} LDS accesses, {total} extra cycles by conflicts of all waves (predicted, "
                 "from the emulator's addresses)", "",
                 f"{'instruction'.ljust(width)}  executed  cycles  ideal  ways  extra  lanes that collide  line"]
        for access in ranked:
            lanes = f"{access.cost.lanes[0]} and {access.cost.lanes[1]}" if access.cost.lanes else "-"
            note = "  (phases assumed)" if access.assumed else ""
            lines.append(f"{access.instruction.ljust(width)}  {access.executed:8d}  {access.cost.cycles:6d}  {access.cost.ideal:5d}  "
                         f"{access.cost.ways:4d}  {access.extra:5d}  {lanes.ljust(18)}  {access.line or '-'}{note}")
        worst = ranked[0]
        return "\n".join([*lines, "", *bank_map(self.arch, worst.op, worst.instruction, worst.lanes, worst.bits, worst.active)]) + "\n"


def banks_of_kernel(family: Family, built: Built, parameters: Mapping[str, Any]) -> RunBanks:
    """Run a built kernel on the emulator, on a problem of few workgroups, and count. Raises AsmgenError where it touches no LDS."""
    options = Options(checks=False, count_banks=True)
    arch, contract = built.kernel.resources.arch, built.kernel.contract
    chosen = smaller(contract, parameters)
    with emulator(built, arch, options, lambda sentence: None, None) as device:
        launch(device, built, family.problem(chosen, 0), chosen)
        result = device.launches[len(built.kernel.before)]
    return _counted(family.name, arch, result, built.kernel.program.instructions)


def banks_of_spec(path: Path) -> RunBanks:
    """The same of any code object on the data of a launch specification, of several launches the one with the most conflicts; nothing is
    saved."""
    launches = trace_launch_spec(path, Options(checks=False, count_banks=True))
    found = max(launches, key=lambda one: (sum(one.result.bank_conflicts.values()), bool(one.result.bank_accesses)))
    return _counted(found.kernel, found.arch, found.result, ())


def _counted(kernel: str, arch: str, result: LaunchResult, written: tuple[Instruction, ...]) -> RunBanks:
    """`written` is the builder's program, which knows lines."""
    if not result.bank_accesses:
        raise AsmgenError(f"{kernel} makes no access to LDS by addresses of lanes in this run, so there are no conflicts to count")
    return RunBanks(kernel, arch, tuple(_access(arch, access, written[position] if position < len(written) else None)
                                        for position, access in sorted(result.bank_accesses.items())))


def _access(arch: str, found: BankedAccess, written: Instruction | None) -> RunAccess:
    instruction = found.instruction
    source = written.source if written is not None and written.name == instruction.name else instruction.source
    lanes = found.addresses.tolist()
    addresses = tuple((first, second) for first, second in lanes) if found.addresses.ndim > 1 else tuple(lanes)
    cost = bank_cost(arch, instruction.name, addresses, found.bits, found.active)
    return RunAccess(instruction.text, instruction.name, str(source) if source is not None else None, instruction.address, found.executed,
                     found.extra, cost, rule(arch, instruction.name).assumed,
                     addresses, found.bits, found.active)
