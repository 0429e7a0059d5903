"""Families and variants: what callers of a kernel see, and the code that serves them, each stated once.

    DOUBLE = Family(name="double", title="y = 2 x", arguments=(...), parameters=(...), grid=GridRule(...), problem=problem)

    @DOUBLE.variant("gfx950", tile=(256,), waves=4, schedule="plain")
    @DOUBLE.variant("gfx942", tile=(128,), waves=2, schedule="plain")
    def plain(k):                      # k is a TileBuilder, k.variant says which of the two is asked for, k.p holds the build parameters
        ...

Workgroup, file names, ELF symbol and contract follow from the variant, LDS bytes from what was built. The build parameters `tile` and
`schedule` choose among the variants of an architecture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from asmgen.author.contract.contract import (
    Alias,
    ContractArgument,
    ContractError,
    Formula,
    KernelContract,
    Parameter,
    Rule,
    Value,
    Values,
)
from asmgen.author.contract.problem import LaunchWork, Problem
from asmgen.author.contract.variant import Variant
from asmgen.author.family.writing import write_kernel
from asmgen.isa.arch import ARCHITECTURES, LANES
from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder
    from asmgen.author.emit.kernel import Kernel

Writer = TypeVar("Writer", bound="Callable[[TileBuilder], Kernel | None]")
_SELECTORS = {"tile": "rows x columns x depth of what a workgroup makes in a step", "schedule": "how a step's work is ordered"}


@dataclass(frozen=True)
class GridRule:
    """The grid in workgroups, (x, y, z), from resolved parameters and variant. In the sentence, `{v.tile[0]}` and the like stand for
    figures of the variant."""

    sentence: str
    compute: Callable[[Values, Variant], tuple[int, int, int]]


def first_declared(candidates: Sequence[Variant], values: Values) -> Variant:
    """The usual selection: of the variants that serve a request, the one that was declared first."""
    return candidates[0]


@dataclass(eq=False)
class Family:
    """What callers of a kernel see, and its variants by architecture, the default one first.

    `parameters` are build and run parameters, beside `tile` and `schedule`, which the variants bring; a function of the variant where
    they or their limits depend on it, and so with `arguments`; a build parameter `preload` lets the hardware load the arguments.
    `problem(parameters, seed)` draws random data with a float64 reference. `example` gives the run parameters that have no default. `axes`
    are the workgroup ids that code reads. `selection` chooses among the variants that serve a request, by all values that it gave. `work`
    says how long the workgroups of a launch are, where they differ or where one of them is long. `aliases` say which arguments may share
    memory. `algebra(parameters, inputs)` gives what must come out in exact residues (docs/ALGEBRA.md). `typical` is a problem that fills a
    GPU, in which variants are timed to choose among them; it needs `work`.
    """

    name: str
    title: str
    arguments: tuple[ContractArgument, ...] | Callable[[Variant], tuple[ContractArgument, ...]]
    parameters: Sequence[Parameter] | Callable[[Variant], Sequence[Parameter]]
    grid: GridRule
    problem: Callable[[Values, int], Problem]
    rules: tuple[Rule, ...] = ()
    workspace_bytes: int | Formula = 0
    example: Values = field(default_factory=dict)
    axes: str = "x"
    selection: Callable[[Sequence[Variant], Values], Variant] = first_declared
    work: Callable[[Values, Variant], LaunchWork] | None = None
    aliases: tuple[Alias, ...] = ()
    algebra: Callable[[Values, Any], Mapping[str, Any]] | None = None
    typical: Values = field(default_factory=dict)
    _writers: dict[Variant, FunctionType] = field(default_factory=dict, repr=False)
    _declared: list[Variant] = field(default_factory=list, repr=False)
    _parameters: dict[Variant, Sequence[Parameter]] = field(default_factory=dict, repr=False)  # those that were asked for

    # ---- declaring ----

    def variant(self, arch: str, tile: Sequence[int] = (), waves: int | Sequence[int] = 1, schedule: str = "",
                occupancy: int | None = None, **further: Any) -> Callable[[Writer], Writer]:
        """The decorated function writes the variant; it may return the kernel that it finished itself, else that is done for it.

        Raises ContractError for an unknown architecture, one that exists already, or a function that is none.
        """
        if arch not in ARCHITECTURES:
            raise ContractError(f"{self.name}: a variant is for {' or '.join(ARCHITECTURES)}, not {arch!r}")
        made = Variant(self.name, arch, tuple(tile), (waves,) if isinstance(waves, int) else tuple(waves), schedule, occupancy,
                       tuple(sorted(further.items())))
        try:
            hash(made)
        except TypeError:
            raise ContractError(f"{self.name}: parameters of a variant are frozen values (numbers, names, tuples), got {made}") from None
        fixed = self.fixed(made)
        if any(self.fixed(other) == fixed for other in self._declared if other.arch == arch):
            raise ContractError(f"{self.name} has a variant for {arch} already that no build parameter tells from {made}")

        self._declared.append(made)  # here and not below: of several decorators on one function the first is called first, but applied last

        def declare(writer: Writer) -> Writer:
            if not isinstance(writer, FunctionType):
                raise ContractError(f"{self.name}: a variant is written by a function, not by {writer!r}")
            self.contract_of(made)  # what contradicts itself is refused here
            self._writers[made] = writer
            return writer

        return declare

    # ---- choosing ----

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures that there is code for, in the order of their declaration."""
        return tuple(dict.fromkeys(variant.arch for variant in self.variants()))

    def variants(self, arch: str = "") -> list[Variant]:
        """The variants of an architecture, or all."""
        return [variant for variant in self._declared if variant in self._writers and arch in ("", variant.arch)]

    def check_arch(self, arch: str = "") -> str:
        """`arch`, or the first one where it is empty. Raises ContractError for one that there is no code for."""
        if not self.archs:
            raise ContractError(f"{self.name} has no variants, so no code")
        if arch and arch not in self.archs:
            raise ContractError(f"{self.name} has no code for {arch!r}; {' and '.join(self.archs)} would work")
        return arch or self.archs[0]

    def select(self, arch: str = "", values: Values | None = None) -> Variant:
        """The variant that serves a request; what the request does not give, the variant decides.

        Raises ContractError, with the variants that exist, where there is none.
        """
        arch = self.check_arch(arch)
        given = dict(values or {})
        fixed = {variant: self.fixed(variant) for variant in self.variants(arch)}
        serving = [variant for variant, own in fixed.items() if all(given.get(name, value) == value for name, value in own.items())]
        if not serving:
            wanted = " ".join(f"{name}={value}" for name, value in given.items() if any(name in own for own in fixed.values()))
            known = "; ".join(map(str, fixed))
            raise ContractError(f"{self.name} has no variant {wanted} for {arch}; there are: {known}")
        return self.selection(serving, given)

    def parse(self, arch: str, texts: Iterable[str]) -> dict[str, Value]:
        """The values of "NAME=VALUE" texts by their types; limits depend on the variant and are checked when the values are resolved."""
        contract = self.contract_of(self.variants(self.check_arch(arch))[0])
        opened = tuple(replace(parameter, minimum=None, maximum=None, multiple_of=1, choices=()) for parameter in contract.parameters)
        return replace(contract, parameters=opened).parse(texts)

    def fixed(self, variant: Variant) -> dict[str, Any]:
        """The build parameters that a variant fixes: tile, schedule, and waves and its further ones that are parameters of the family."""
        own = {parameter.name for parameter in self._own(variant) if parameter.kind == "build"}
        named = {name: value for name, value in (("tile", variant.tile_text), ("schedule", variant.schedule)) if value}
        return named | {name: value for name, value in (("waves", variant.wave_count), *variant.further) if name in own}

    def _own(self, variant: Variant) -> Sequence[Parameter]:
        if not callable(self.parameters):
            return self.parameters
        if variant not in self._parameters:
            self._parameters[variant] = self.parameters(variant)
        return self._parameters[variant]

    # ---- contracts and kernels ----

    def contract(self, arch: str = "", values: Values | None = None) -> KernelContract:
        """The contract of the variant that serves a request."""
        return self.contract_of(self.select(arch, values))

    def contract_of(self, variant: Variant) -> KernelContract:
        """The contract of one variant, as far as it is known before the build: LDS bytes are not."""
        fixed = self.fixed(variant)
        selecting = [Parameter(name, "build", str, doc, default=fixed[name]) for name, doc in _SELECTORS.items() if name in fixed]
        parameters = tuple(replace(parameter, default=fixed[parameter.name], choices=(fixed[parameter.name],))
                           if parameter.name in fixed else parameter for parameter in (*selecting, *self._own(variant)))
        grid = Formula(self.grid.sentence.format(v=variant), lambda values: self.grid.compute(values, variant))
        arguments = self.arguments(variant) if callable(self.arguments) else self.arguments
        return KernelContract(self.name, self.title, self.archs or (variant.arch,), parameters, arguments,
                              (LANES * variant.wave_count, 1, 1), grid, None, self.workspace_bytes, self.rules, self.example,
                              self.stem(variant, {}), self.aliases)

    def stem(self, variant: Variant, build: Mapping[str, Value]) -> str:
        """The name of a build's files: FAMILY_ARCH_TILE_SCHEDULE, and a hash of further build parameters that are not the default's."""
        defaults = {parameter.name: parameter.default for parameter in self._own(variant) if parameter.kind == "build"}
        values = defaults | self.fixed(variant) | dict(build)
        other = {name: values[name] for name in sorted(defaults) if values[name] != defaults[name]}
        digest = hashlib.sha256(json.dumps(other).encode()).hexdigest()[:8] if other else ""
        return "_".join(part for part in (self.name, variant.arch, variant.tile_text, variant.schedule, digest) if part)

    def build(self, arch: str = "", values: Values | None = None, verify: bool = True) -> Kernel:
        """Write the kernel for these build parameters; without `verify`, waits and wait states that the author asks to verify are left
        as they are. Raises ContractError for parameters outside of the contract, and what the author's function raises."""
        variant = self.select(arch, values)
        contract = self.contract_of(variant)
        build = contract.resolve_build(values or {})
        named = replace(contract, stem=self.stem(variant, build))
        return write_kernel(self._writers[variant], named, variant, build, self.axes, verify)

    def describe(self, arch: str = "") -> dict[str, Any]:
        """JSON values: the default variant's contract, as far as it is known before the build, with what other variants of the
        architecture offer among the choices, and all variants."""
        arch = self.check_arch(arch)
        document = self.contract(arch).describe()
        for name, parameter in document["parameters"].items():
            fixed = [own[name] for variant in self.variants(arch) if name in (own := self.fixed(variant))]
            if fixed:
                parameter["choices"] = list(dict.fromkeys([*parameter.get("choices", ()), *fixed]))
        return document | {"arch": arch, "variants": [variant.describe() for variant in self.variants()]}
