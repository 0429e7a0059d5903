"""Companions: kernels of a family that are launched with its variants, on one stream, before or after them.

    @GEMM.companion("sum", "the sum of all parts", arguments=(...), grid=ag.GridRule(...), waves=4, when=lambda p: p["split_k"] > 1)
    def add_parts(k):                  # k.variant is the variant that it is launched with, k.p its build parameters
        ...

A build has one code object with all its kernels: parts that are launched together cannot be mixed up between builds, and a user loads one
file. They share parameters, rules and problem; each has arguments, grid, block and axes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING

from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract, Values
from asmgen.author.contract.problem import LaunchWork
from asmgen.author.contract.variant import Variant
from asmgen.isa.arch import LANES
from asmgen.isa.operands import Symbol
from asmgen.isa.records import dataclass
from asmgen.program.program import Instruction, Item, Label

if TYPE_CHECKING:
    from asmgen.author.emit.kernel import Kernel


@dataclass(frozen=True)
class GridRule:
    """The grid in workgroups, (x, y, z), from resolved parameters and variant. In the sentence, `{v.tile[0]}` and the like stand for
    figures of the variant, and `{waves}` for the waves of a workgroup."""

    sentence: str
    compute: Callable[[Values, Variant], tuple[int, int, int]]

    def of(self, variant: Variant, waves: int = 0) -> Formula:
        """The formula for one variant, in workgroups of so many waves: those of the variant where it is 0."""
        return Formula(self.sentence.format(v=variant, waves=waves or variant.wave_count), lambda values: self.compute(values, variant))


@dataclass(frozen=True)
class Companion:
    """A kernel that is launched with the variants of a family where `when` says so of the build parameters, on which its `arguments` may
    depend. `waves` are those of a workgroup, which may depend on the build parameters too, `occupancy` those that its author wants on a
    SIMD.

    `work(values, small)` says how long its workgroups are, where they differ or where one is long: the traced one is the first of the
    smaller problem `small`, which the family's own `work` has made. Without it they are alike."""

    name: str
    title: str
    arguments: tuple[ContractArgument, ...] | Callable[[Variant, Values], tuple[ContractArgument, ...]]
    grid: GridRule
    waves: int | Callable[[Values], int]
    occupancy: int | None
    axes: str
    when: Callable[[Values], bool]
    writer: FunctionType
    work: Callable[[Values, Values], LaunchWork] | None = None

    def contract(self, whole: KernelContract, variant: Variant, build: Values) -> KernelContract:
        """What one build of it promises; `whole` is the contract of the variant that it is launched with."""
        arguments = self.arguments(variant, build) if callable(self.arguments) else self.arguments
        waves = self.waves(build) if callable(self.waves) else self.waves
        return replace(whole, name=f"{whole.name} {self.name}", title=self.title, arguments=arguments,
                       workgroup=(LANES * waves, 1, 1), grid=self.grid.of(variant, waves), lds_bytes=None,
                       stem=f"{whole.stem}_{self.name}", aliases=(), workspaces=(), before=(), after=())


def with_own_labels(kernel: Kernel, name: str) -> Kernel:
    """The kernel with its labels renamed, so that they may stand in one file with those of others."""
    program = kernel.program
    renamed = {label: f"{name}_{label}" for label in program.labels if label != program.entry}

    def item(one: Item) -> Item:
        if isinstance(one, Label):
            return replace(one, name=renamed.get(one.name, one.name))
        if isinstance(one, Instruction) and one.target in renamed:
            operands = tuple(replace(operand, name=renamed[operand.name]) if isinstance(operand, Symbol) else operand
                             for operand in one.operands)
            return replace(one, operands=operands)
        return one

    roles = tuple(renamed.get(role, role) for role in program.roles)
    return replace(kernel, program=replace(program, items=tuple(map(item, program.items)), roles=roles))
