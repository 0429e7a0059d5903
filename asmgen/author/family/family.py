"""Families and variants: what callers of a kernel see, and the code that serves them, each stated once.

    DOUBLE = Family(name="double", title="y = 2 x", arguments=(...), parameters=(...), grid=GridRule(...), problem=problem)

    @DOUBLE.variant("gfx950", tile=(256,), waves=4, schedule="plain")
    @DOUBLE.variant("gfx942", tile=(128,), waves=2, schedule="plain")
    def plain(k):                      # k is a TileBuilder, k.variant says which of the two is asked for, k.p holds the build parameters
        ...

Workgroup, file names, ELF symbol and contract follow from the variant, LDS bytes from what was built. The build parameters `tile` and
`schedule` choose among the variants of an architecture. `companion` says how several kernels are launched as one.
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
    KernelContract,
    Parameter,
    Rule,
    Value,
    Values,
    Workspace,
)
from asmgen.author.contract.nearbuilds import written
from asmgen.author.contract.problem import LaunchWork, Problem
from asmgen.author.contract.variant import Variant
from asmgen.author.family.companion import Companion, GridRule, with_own_labels
from asmgen.author.family.nearest import nearest_first
from asmgen.author.family.writing import write_kernel
from asmgen.isa.arch import ARCHITECTURES, LANES
from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder
    from asmgen.author.emit.kernel import Kernel

Writer = TypeVar("Writer", bound="Callable[[TileBuilder], Kernel | None]")
_SELECTORS = {"tile": "rows x columns x depth of what a workgroup makes in a step", "schedule": "how a step's work is ordered"}


def first_declared(candidates: Sequence[Variant], values: Values) -> Variant:
    """The usual selection: of the variants that serve a request, the one that was declared first."""
    return candidates[0]


@dataclass(eq=False)
class Family:
    """What callers of a kernel see, and its variants by architecture, the default one first.

    `parameters` are build and run parameters, beside `tile` and `schedule`, which the variants bring; a function of the variant where
    they or their limits depend on it; a build parameter `preload` lets the hardware load the arguments. `arguments`, the workgroup ids
    that code reads (`axes`), `workspaces` and `aliases` may be functions of the variant and the build parameters.
    `problem(parameters, seed)` draws random data with a float64 reference. `example` gives the run parameters that have no default,
    or is a function of the build parameters that does.
    `selection` chooses among the variants that serve a request, by all values that it gave. `work` says how long the workgroups of a launch
    are, where they differ or where one of them is long. `aliases` say which arguments may share memory. `algebra(parameters, inputs)` gives
    what must come out in exact residues (docs/ALGEBRA.md). `typical` is a problem that fills a GPU, in which variants are timed to choose
    among them; it needs `work`; `typical_of(contract)` is what differs in that of a build.
    `settled(parameters)` gives build parameters that follow from those of a problem where they are not given.
    `fitted(variant, declared, parameters)` gives what a variant declares for a request: limits that follow from its build parameters,
    defaults that follow from its sizes.
    `tuned(parameters, variant, units)` gives values of further build parameters, beside the defaults, that are worth a try for a problem
    on so many compute units and compute the same; `timed_as(build)` is a build that stands for others of nearly its times, so that few are
    timed. `fills_argument_wait` lets code that needs no argument move to the front of the family's kernels
    (asmgen/author/loop/argumentwait.py).
    """

    name: str
    title: str
    arguments: tuple[ContractArgument, ...] | Callable[[Variant, Values], tuple[ContractArgument, ...]]
    parameters: Sequence[Parameter] | Callable[[Variant], Sequence[Parameter]]
    grid: GridRule
    problem: Callable[[Values, int], Problem]
    rules: tuple[Rule, ...] = ()
    workspaces: tuple[Workspace, ...] | Callable[[Variant, Values], tuple[Workspace, ...]] = ()
    example: Values | Callable[[Values], Values] = field(default_factory=dict)
    axes: str | Callable[[Variant, Values], str] = "x"
    selection: Callable[[Sequence[Variant], Values], Variant] = first_declared
    work: Callable[[Values, Variant], LaunchWork] | None = None
    aliases: tuple[Alias, ...] | Callable[[Variant, Values], tuple[Alias, ...]] = ()
    algebra: Callable[[Values, Any], Mapping[str, Any]] | None = None
    typical: Values = field(default_factory=dict)
    typical_of: Callable[[KernelContract], Values] | None = None
    settled: Callable[[Values], Values] | None = None
    fitted: Callable[[Variant, tuple[Parameter, ...], Values], tuple[Parameter, ...]] | None = None
    tuned: Callable[[Values, Variant, int], Sequence[Values]] | None = None
    timed_as: Callable[[Values], Values] | None = None
    fills_argument_wait: bool = False
    _writers: dict[Variant, FunctionType] = field(default_factory=dict, repr=False)
    _declared: list[Variant] = field(default_factory=list, repr=False)
    _parameters: dict[Variant, Sequence[Parameter]] = field(default_factory=dict, repr=False)  # those that were asked for
    _fixed: dict[Variant, dict[str, Any]] = field(default_factory=dict, init=False, repr=False)
    _of_some: dict[int, dict[str, Parameter | None]] = field(default_factory=dict, init=False, repr=False)  # by the number of variants
    _before: list[Companion] = field(default_factory=list, repr=False)
    _after: list[Companion] = field(default_factory=list, repr=False)

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

    def companion(self, name: str, title: str,
                  arguments: tuple[ContractArgument, ...] | Callable[[Variant, Values], tuple[ContractArgument, ...]], grid: GridRule,
                  waves: int | Callable[[Values], int] = 1, occupancy: int | None = None, axes: str = "x",
                  when: Callable[[Values], bool] = lambda build: True, first: bool = False,
                  work: Callable[[Values, Values], LaunchWork] | None = None) -> Callable[[Writer], Writer]:
        """The decorated function writes a kernel that is launched after the variants of those build parameters, or before them (`first`),
        in the order of the functions in the file; `work` is that of `Companion`. Raises ContractError for a name that exists already, or a
        function that is none."""
        among = self._before if first else self._after
        if any(one.name == name for one in (*self._before, *self._after)):
            raise ContractError(f"{self.name} has a kernel {name!r} beside its variants already; another name would do")

        def declare(writer: Writer) -> Writer:
            if not isinstance(writer, FunctionType):
                raise ContractError(f"{self.name}: the kernel {name!r} is written by a function, not by {writer!r}")
            among.append(Companion(name, title, arguments, grid, waves, occupancy, axes, when, writer, work))
            for variant in self.variants():
                self.contract_of(variant)  # what contradicts itself is refused here
            return writer

        return declare

    def companions(self, build: Values) -> tuple[tuple[Companion, ...], tuple[Companion, ...]]:
        """The kernels that are launched before and after the variants, for resolved build parameters."""
        before, after = (tuple(one for one in some if one.when(build)) for some in (self._before, self._after))
        return before, after

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

        Raises ContractError where there is none, with the variants that exist, the nearest first, and with another architecture that has
        one.
        """
        arch = self.check_arch(arch)
        given = dict(values or {})
        fixed = {variant: self.fixed(variant) for variant in self.variants(arch)}
        serving = [variant for variant, own in fixed.items() if _agrees(own, given)]
        lacking = {variant: self.lacking(variant, given) for variant in fixed}
        taking = [variant for variant in serving if not lacking[variant]]
        missed = {name for one in serving for name in lacking[one]}
        others = missed & self._partial().keys()
        if not taking and (others or any(own.get(name) == given[name] for own in fixed.values() for name in missed)):
            serving = []  # another variant has what these do not take
        elsewhere = "" if taking else "".join(
            f"; {other} has {one}" for other in self.archs if other != arch and (one := self._server(other, given)))
        if serving and elsewhere and (sentences := self._refused(serving[0], given)):
            raise ContractError(f"{self.name} for {arch}: {sentences[0]}{elsewhere}")
        if not serving:
            lacking = {one: names or self._refused(one, given) for one, names in lacking.items()}
            wanted = written({name: value for name, value in given.items() if name in others or any(name in own for own in fixed.values())})
            known = "; ".join(map(str, nearest_first(fixed, lacking, given)))
            raise ContractError(f"{self.name} has no variant {wanted} for {arch}{elsewhere}; there are, the nearest first: {known}")
        chosen = self.selection(taking or serving, given)
        if len(taking) > 1 and self._refused(chosen, given):
            chosen = self.selection([one for one in taking if not self._refused(one, given)] or taking, given)
        return chosen

    def nearest(self, arch: str, values: Values) -> dict[str, Any]:
        """Build parameters that are served, nearest to some that may be: what the sentence names first that refuses these. Raises
        ContractError where no variant serves any that are near."""
        fixed = {one: self.fixed(one) for one in self.variants(arch)}
        refused = {one: self.lacking(one, values) or self._refused(one, values) for one in fixed}
        try:
            variant = self.select(arch, values)
            given = dict(values)
        except ContractError:
            variant = nearest_first(fixed, refused, values)[0]
            given = {**values, **fixed[variant]}
        contract = self.contract_of(variant, given)
        build = {one.name: given.get(one.name, one.default) for one in contract.parameters if one.kind == "build"}
        near = contract.near_builds(build)
        return contract.resolve_build({**build, **(near[0] if near else {})})

    def _server(self, arch: str, given: Values) -> Variant | None:
        """The first variant of an architecture that serves a request, or nothing."""
        return next((one for one in self.variants(arch) if _agrees(self.fixed(one), given) and not self.lacking(one, given)
                     and not self._refused(one, given)), None)

    def _refused(self, variant: Variant, given: Values) -> list[str]:
        """Why a variant refuses the build parameters among some values that it does not fix."""
        build: dict[str, Any] = dict(self.fixed(variant))
        try:
            build |= {one.name: one.check(given.get(one.name, one.default)) for one in self._own(variant)
                      if one.kind == "build" and one.name not in build}
        except ContractError as error:
            return [error.sentence]
        return [rule.sentence for rule in self.rules if build.keys() >= set(rule.reads) and not rule.holds(build)]

    def lacking(self, variant: Variant, given: Values) -> list[str]:
        """The build parameters for which a variant, which does not fix them, has other choices than what is asked, and those that are
        asked and that other variants have alone, but for switches that are off."""
        fixed, own = self.fixed(variant), self._own(variant)
        alone = [name for name, switch in self._partial().items() if name in given and (given[name] is not False or switch is None)]
        return [*(one.name for one in own if one.kind == "build" and one.choices and one.name not in fixed
                  and given.get(one.name, one.default) not in one.choices),
                *(name for name in alone if all(one.name != name for one in own))]

    def _partial(self) -> Mapping[str, Parameter | None]:
        """The parameters that some variants have, not all; of build parameters that are switches, off by default, the parameter: variants
        without it do what it asks where it is off."""
        known = len(self._writers)
        if known not in self._of_some:  # asked for each variant of each request
            own = [{one.name: one for one in self._own(variant)} for variant in self.variants()] if callable(self.parameters) else []
            first = {name: one for some in reversed(own) for name, one in some.items()}  # as the first variant has it that has it
            self._of_some[known] = {name: one if one.kind == "build" and one.default is False else None for name, one in first.items()
                                    if any(name not in some for some in own)}
        return self._of_some[known]

    def _switches_off(self, variant: Variant, given: Values) -> tuple[Parameter, ...]:
        """The switches that a request turns off and that a variant does not have."""
        own = {one.name for one in self._own(variant)}
        return tuple(replace(switch, choices=(False,)) for name, switch in sorted(self._partial().items())
                     if switch is not None and name not in own and given.get(name) is False)

    def parse(self, arch: str, texts: Iterable[str]) -> dict[str, Value]:
        """The values of "NAME=VALUE" texts by their types; which variants have a parameter, and its limits, depend on the other values and
        are checked when the values are resolved."""
        contract = self.contract_of(self.variants(self.check_arch(arch))[0])
        known = {one.name: one for one in contract.parameters}
        for one in (one for variant in self.variants() for one in self._own(variant)):
            known.setdefault(one.name, one)
        opened = tuple(replace(parameter, minimum=None, maximum=None, multiple_of=1, choices=()) for parameter in known.values())
        return replace(contract, parameters=opened).parse(texts)

    def fixed(self, variant: Variant) -> dict[str, Any]:
        """The build parameters that a variant fixes: tile, schedule, and waves and its further ones that are parameters of the family."""
        found = self._fixed.get(variant)
        if found is None:  # asked of every variant for each contract
            own = {parameter.name for parameter in self._own(variant) if parameter.kind == "build"}
            named = {name: value for name, value in (("tile", variant.tile_text), ("schedule", variant.schedule)) if value}
            found = self._fixed[variant] = named | {name: value for name, value in (("waves", variant.wave_count), *variant.further)
                                                    if name in own}
        return dict(found)

    def _own(self, variant: Variant) -> Sequence[Parameter]:
        if not callable(self.parameters):
            return self.parameters
        if variant not in self._parameters:
            self._parameters[variant] = self.parameters(variant)
        return self._parameters[variant]

    # ---- contracts and kernels ----

    def contract(self, arch: str = "", values: Values | None = None) -> KernelContract:
        """The contract of the variant that serves a request."""
        return self.contract_of(self.select(arch, values), values)

    def typical_for(self, contract: KernelContract) -> dict[str, Any]:
        """The values of `typical`, with those that differ for this build, as far as a variant takes them."""
        found = {}
        for name, value in {**self.typical, **(self.typical_of(contract) if self.typical_of is not None else {})}.items():
            most = contract.parameter(name).maximum
            found[name] = value if most is None or not isinstance(value, int) else min(value, int(most))
        return found

    def contract_of(self, variant: Variant, values: Values | None = None) -> KernelContract:
        """The contract of one variant with the build parameters among `values`, as far as it is known before the build: LDS bytes are not.

        Raises ContractError for a build parameter that it does not take.
        """
        fixed = self.fixed(variant)
        selecting = [Parameter(name, "build", str, doc, default=fixed[name]) for name, doc in _SELECTORS.items() if name in fixed]
        parameters = tuple(replace(parameter, default=fixed[parameter.name], choices=(fixed[parameter.name],), tried=())
                           if parameter.name in fixed else parameter for parameter in (*selecting, *self._own(variant)))
        given = values or {}
        parameters += self._switches_off(variant, given)
        if self.fitted is not None:
            parameters = self.fitted(variant, parameters, given)
        build = {one.name: one.check(given.get(one.name, one.default)) for one in parameters if one.kind == "build"}
        arguments = self.arguments(variant, build) if callable(self.arguments) else self.arguments
        workspaces = self.workspaces(variant, build) if callable(self.workspaces) else self.workspaces
        example = self.example(build) if callable(self.example) else self.example
        alone = KernelContract(self.name, self.title, self.archs or (variant.arch,), parameters, arguments,
                               (LANES * variant.wave_count, 1, 1), self.grid.of(variant), None, self.rules, example,
                               self.stem(variant, build))
        before, after = (tuple(one.contract(alone, variant, build) for one in some) for some in self.companions(build))
        aliases = self.aliases(variant, build) if callable(self.aliases) else self.aliases
        return replace(alone, aliases=aliases, workspaces=workspaces, before=before, after=after)

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
        contract = self.contract_of(variant, values)
        build = contract.resolve_build(values or {})
        axes = self.axes(variant, build) if callable(self.axes) else self.axes
        fills = self.fills_argument_wait
        kernel = write_kernel(self._writers[variant], contract, variant, build, axes, variant.occupancy, verify, fills)
        before, after = (tuple(
            with_own_labels(write_kernel(one.writer, its, variant, build, one.axes, one.occupancy, verify, fills), one.name)
            for one, its in zip(some, contracts, strict=True))
            for some, contracts in zip(self.companions(build), (contract.before, contract.after), strict=True))
        return kernel.launched_with(before, after)

    def describe(self, arch: str = "") -> dict[str, Any]:
        """JSON values: the default variant's contract, as far as it is known before the build, with what other variants of the
        architecture offer among the choices, the parameters that only those have, and all variants."""
        arch = self.check_arch(arch)
        document = self.contract(arch).describe()
        for parameter in (one for variant in self.variants(arch) for one in self._own(variant)):
            document["parameters"].setdefault(parameter.name, parameter.describe() | {"doc": f"{parameter.doc} (some variants alone)"})
        for name, parameter in document["parameters"].items():
            fixed = [own[name] for variant in self.variants(arch) if name in (own := self.fixed(variant))]
            if fixed:
                parameter["choices"] = list(dict.fromkeys([*parameter.get("choices", ()), *fixed]))
        return document | {"arch": arch, "variants": [variant.describe() for variant in self.variants()]}


def _agrees(fixed: Values, given: Values) -> bool:
    """Whether a request leaves what a variant fixes as it is."""
    return all(given.get(name, value) == value for name, value in fixed.items())
