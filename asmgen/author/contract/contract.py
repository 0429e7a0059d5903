"""What a kernel declares as data: parameters, arguments, rules, grid, LDS, workspace. Commands, tests and documentation read it.

A *build* parameter changes the code and has a default; a *run* parameter is a property of one launch (a shape, a stride). `build`
refuses run parameters. A launch outside the declared limits is refused with a sentence that says what would work.

This file is on the path of every build: it imports neither numpy nor anything that does.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from asmgen.author.contract.nearbuilds import near_values, written
from asmgen.codeobject.arguments import natural_offsets, scalar_type
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

SCHEMA = "asmgen-contract"
SCHEMA_VERSION = 2

Value = int | float | str | bool
# Rules and formulas compare and multiply values whose types the parameters guarantee, hence Any and not Value.
Values = Mapping[str, Any]

_TYPE_NAMES = {int: "a whole number", float: "a finite number", str: "a name", bool: "true or false"}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class ContractError(AsmgenError):
    """A request outside of a kernel's contract, or a contract that contradicts itself."""


@dataclass(frozen=True)
class Formula:
    """A quantity that depends on parameters, and the sentence that tells a reader how."""

    sentence: str
    compute: Callable[[Values], Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter. `minimum` and `maximum` (inclusive) bind numbers, `multiple_of` whole ones, `choices` any type.

    `kind` is "build" or "run", `type` is int, float, str or bool. A run parameter without a default must be given; `default_from` names an
    earlier parameter whose value it takes instead (a row stride that defaults to the row length), or is a formula of earlier ones.
    `tried` are values of a build parameter without choices that checks of all builds try beside the default.
    """

    name: str
    kind: str
    type: type[int] | type[float] | type[str] | type[bool]
    doc: str
    default: Value | None = None
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: int = 1
    choices: tuple[Value, ...] = ()
    default_from: str | Formula = ""
    tried: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("build", "run"):
            raise ContractError(f"parameter {self.name} is of kind {self.kind!r}; a parameter is of kind build or run")
        if self.type not in _TYPE_NAMES:
            raise ContractError(f"parameter {self.name} has type {self.type!r}; a parameter is int, float, str or bool")
        if self.type not in (int, float) and (self.minimum is not None or self.maximum is not None):
            raise ContractError(f"parameter {self.name} is not a number, so it can have choices but no range")
        if self.type is not int and self.multiple_of != 1:
            raise ContractError(f"parameter {self.name} is not a whole number, so it cannot be a multiple of anything")
        if self.multiple_of < 1:
            raise ContractError(f"parameter {self.name} is to be a multiple of {self.multiple_of}; that must be 1 or more")
        if self.kind == "build" and self.default is None:
            raise ContractError(f"build parameter {self.name} has no default; every build parameter has one")
        if self.default_from and (self.kind == "build" or self.default is not None):
            wrong = "is a build parameter" if self.kind == "build" else f"has the default {self.default}"
            raise ContractError(f"parameter {self.name} {wrong}, so it cannot take its default from {self.default_text}")
        for value in (*self.choices, *self.tried, *(() if self.default is None else (self.default,))):
            self.check(value)

    def parse(self, text: str) -> Value:
        """The value that `text` writes, checked. Whole numbers may be decimal or 0x..., booleans true/false, yes/no, on/off, 1/0."""
        stripped = text.strip()
        if self.type is str:
            return self.check(stripped)
        value: Value | None
        if self.type is bool:
            value = _BOOLEANS.get(stripped.lower())
        else:
            try:
                hexadecimal = self.type is int and stripped.lower().startswith(("0x", "-0x"))
                value = float(stripped) if self.type is float else int(stripped, 16 if hexadecimal else 10)
            except ValueError:
                value = None
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise ContractError(f"{self.name} must be {_TYPE_NAMES[self.type]}, got {_short(text)}")
        return self.check(value)

    def check(self, value: Any) -> Value:
        """`value` as the parameter's Python type; ContractError where its type, range or choice is wrong."""
        checked = self._typed(value)
        if self.choices and checked not in self.choices:
            raise ContractError(f"{self.name} must be {_one_of(self.choices)}, got {_short(value)}")
        if isinstance(checked, int | float) and not isinstance(checked, bool):
            self._check_range(checked)
        return checked

    def _typed(self, value: Any) -> Value:
        if self.type is int and not isinstance(value, bool):
            try:
                return operator.index(value)
            except TypeError:
                pass
        elif self.type is float:
            if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
                return float(value)
        elif self.type is not int and isinstance(value, self.type):
            typed: Value = value
            return typed
        raise ContractError(f"{self.name} must be {_TYPE_NAMES[self.type]}, got {_short(value)}")

    def _check_range(self, value: float) -> None:
        wrong = []
        if self.minimum is not None and value < self.minimum:
            wrong.append(f"at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            wrong.append(f"at most {self.maximum}")
        if self.type is int and value % self.multiple_of:
            wrong.append(f"a multiple of {self.multiple_of}")
        if wrong:
            near = self._near(value)
            works = f"; {' and '.join(map(str, near))} would work" if near else ""
            raise ContractError(f"{self.name} must be {' and '.join(wrong)}, got {value}{works}")

    def _near(self, value: float) -> list[float]:
        """The legal values next to an illegal one, at most one on either side."""
        if self.type is float:
            bounds = ((self.minimum, value), (value, self.maximum))
            return [low if low != value else high for low, high in bounds if low is not None and high is not None and low > high]
        step = self.multiple_of
        lowest = None if self.minimum is None else -(-self.minimum // step) * step
        highest = None if self.maximum is None else self.maximum // step * step
        if lowest is not None and highest is not None and lowest > highest:
            return []
        near = {value // step * step, -(-value // step) * step}
        near = {number if lowest is None else max(number, lowest) for number in near}
        return sorted({number if highest is None else min(number, highest) for number in near})

    def describe(self) -> dict[str, Any]:
        """What KERNEL.json says of the parameter."""
        row: dict[str, Any] = {"kind": self.kind, "type": self.type.__name__, "doc": self.doc}
        for key in ("default", "minimum", "maximum"):
            if getattr(self, key) is not None:
                row[key] = getattr(self, key)
        if self.multiple_of != 1:
            row["multiple_of"] = self.multiple_of
        if self.choices:
            row["choices"] = list(self.choices)
        if self.default_from:
            row["default_from"] = self.default_text
        return row

    @property
    def tries(self) -> tuple[Value, ...]:
        """The values of a build parameter that checks of all builds try, the default first: all, where they can be listed."""
        others = self.choices or self.tried or ((False, True) if self.type is bool else ())
        return tuple(dict.fromkeys((*(() if self.default is None else (self.default,)), *others)))

    @property
    def default_text(self) -> str:
        """What the default is taken from, in words."""
        return self.default_from.sentence if isinstance(self.default_from, Formula) else self.default_from


@dataclass(frozen=True)
class ContractArgument:
    """One explicit argument of the kernel, in order: `type` is "pointer" or a scalar of `asmgen.codeobject.arguments.SCALAR_TYPES`.

    `brief` ones, the last of a kernel, lie in registers of their own, which end with `KernelBuilder.end_brief_arguments`."""

    name: str
    type: str
    doc: str
    brief: bool = False

    def __post_init__(self) -> None:
        scalar_type(self.type)

    def describe(self, offset: int) -> dict[str, Any]:
        """What KERNEL.json says of the argument, `offset` and size in bytes."""
        return {"name": self.name, "type": self.type, "offset": offset, "size": scalar_type(self.type).size, "doc": self.doc}


@dataclass(frozen=True)
class Rule:
    """A condition between parameters. `reads` names them: a rule that reads build parameters only is checked by build already.

    `sentence` completes the error, in the form "lda must be at least k".
    """

    sentence: str
    reads: tuple[str, ...]
    holds: Callable[[Values], bool]


@dataclass(frozen=True)
class Alias:
    """Pointer arguments that may be one address, under a condition: "ldc is ldd". What a kernel writes overlaps nothing else."""

    arguments: tuple[str, ...]
    where: str

    def describe(self) -> dict[str, Any]:
        """What KERNEL.json says of it."""
        return {"arguments": list(self.arguments), "where": self.where}


@dataclass(frozen=True)
class Workspace:
    """Memory that kernels of one contract hand to each other: the pointer argument `name` of some of them, of which callers see nothing.

    `nbytes` is a constant or a formula. Where it is `zeroed`, whoever runs the launches sets it to zero before the first of them, each
    time; else its contents are undefined then.
    """

    name: str
    doc: str
    nbytes: int | Formula
    zeroed: bool = False

    def describe(self, example: Values) -> dict[str, Any]:
        """What KERNEL.json says of it."""
        return {"name": self.name, "doc": self.doc, "bytes": _described(self.nbytes, example), "zeroed": self.zeroed}


@dataclass(frozen=True)
class KernelContract:
    """All that a kernel promises and asks for.

    `workgroup` is the block in work-items. `grid` computes (x, y, z) in workgroups. `lds_bytes` is a constant or a formula, None until the
    build has shown it. `stem` names the files of a build, `name` where it is empty. `example` gives the run parameters without default for
    the evaluated examples of the .json; it must be a legal launch. `aliases` are the arguments that may share memory although the kernel
    writes some of them.

    `before` and `after` are the contracts of kernels that are launched with it, on one stream, in order; all of them have its parameters.
    `workspaces` is what they hand to each other.
    """

    name: str
    title: str
    archs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    arguments: tuple[ContractArgument, ...]
    workgroup: tuple[int, int, int]
    grid: Formula
    lds_bytes: int | Formula | None = 0
    rules: tuple[Rule, ...] = ()
    example: Values = field(default_factory=dict, hash=False)
    stem: str = ""
    aliases: tuple[Alias, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    before: tuple[KernelContract, ...] = ()
    after: tuple[KernelContract, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for parameter in self.parameters:
            if parameter.name in seen:
                raise ContractError(f"{self.name} declares parameter {parameter.name} twice")
            if isinstance(parameter.default_from, str) and parameter.default_from and parameter.default_from not in seen:
                source = f"{parameter.default_from}, which is no parameter declared before it"
                raise ContractError(f"{self.name}: {parameter.name} takes its default from {source}")
            seen.add(parameter.name)
        for rule in self.rules:
            for name in rule.reads:
                if name not in seen:
                    raise ContractError(f"{self.name}: the rule {rule.sentence!r} reads {name}, which is no parameter")
        names = [argument.name for argument in self.arguments]
        if len(set(names)) != len(names):
            raise ContractError(f"{self.name} declares an argument twice: {', '.join(names)}")
        types = {argument.name: argument.type for one in (*self.before, *self.after) for argument in one.arguments}
        for argument in self.arguments:
            if types.setdefault(argument.name, argument.type) != argument.type:
                raise ContractError(f"{self.name}: {argument.name} is a {argument.type} of one kernel and a {types[argument.name]} of "
                                    "another that is launched with it; give one of them another name")
        pointers = [name for name, type_ in types.items() if type_ == "pointer"]
        for workspace in self.workspaces:
            if workspace.name not in pointers:
                raise ContractError(f"{self.name}: the workspace {workspace.name} is no pointer argument; "
                                    f"{did_you_mean(workspace.name, pointers)}")
        for name in (name for alias in self.aliases for name in alias.arguments):
            if name not in pointers:
                raise ContractError(f"{self.name} says what {name} may share memory with, but that is no pointer; "
                                    f"{did_you_mean(name, pointers)}")

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name; ContractError with the nearest known name for any other."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        known = [parameter.name for parameter in self.parameters]
        raise ContractError(f"{self.name} has no parameter {_short(name)}; {did_you_mean(name, known)}")

    def check_arch(self, arch: str) -> str:
        """`arch` if the kernel has code for it; ContractError with those that would work otherwise."""
        if arch not in self.archs:
            raise ContractError(f"{self.name} has no code for {arch!r}; {' and '.join(self.archs)} would work")
        return arch

    def parse(self, texts: Iterable[str]) -> dict[str, Value]:
        """The values of "NAME=VALUE" texts, each checked alone; rules and missing ones are left to `resolve_build` and `resolve_run`."""
        values: dict[str, Value] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals or not name:
                raise ContractError(f"a parameter is written NAME=VALUE, got {_short(text)}")
            parameter = self.parameter(name)
            if name in values:
                raise ContractError(f"{name} is given twice, as {values[name]} and as {_short(value)}; give it once")
            values[name] = parameter.parse(value)
        return values

    def resolve_build(self, values: Values) -> dict[str, Value]:
        """All build parameters, defaults filled in. A run parameter, an unknown one or a broken rule is a ContractError."""
        for name in values:
            if self.parameter(name).kind == "run":
                raise ContractError(f"{name} is a run parameter of {self.name}: one code object serves every legal {name}, so build does "
                                    "not take it; give it to asmgen run instead")
        resolved = self._resolve(values, ("build",))
        self._check_rules(resolved)
        return resolved

    def resolve_run(self, values: Values, near: bool = True) -> dict[str, Value]:
        """All parameters of a launch, build and run, defaults filled in.

        A missing, unknown or illegal one and a broken rule are ContractErrors, which say build parameters that would work if `near` is set.
        """
        known = {parameter.name for parameter in self.parameters}
        for name in values:
            if name not in known:
                self.parameter(name)  # says what is known
        resolved = self._resolve(values, ("build", "run"))
        self._check_rules(resolved, near)
        return resolved

    def _resolve(self, values: Values, kinds: tuple[str, ...]) -> dict[str, Value]:
        resolved: dict[str, Value] = {}
        missing = []
        for parameter in self.parameters:
            if parameter.kind not in kinds:
                continue
            if parameter.name in values:
                resolved[parameter.name] = parameter.check(values[parameter.name])
            elif parameter.default is not None:
                resolved[parameter.name] = parameter.default
            elif not parameter.default_from:
                missing.append(parameter)
            elif isinstance(parameter.default_from, Formula):
                if not missing:
                    resolved[parameter.name] = parameter.check(parameter.default_from.compute(resolved))
            elif parameter.default_from in resolved:
                resolved[parameter.name] = parameter.check(resolved[parameter.default_from])
        if missing:
            needs = ", ".join(f"{parameter.name} ({parameter.doc})" for parameter in missing)
            raise ContractError(f"{self.name} needs {needs}; give {' '.join(f'-p {parameter.name}=VALUE' for parameter in missing)}")
        return resolved

    def _check_rules(self, resolved: Values, near: bool = True) -> None:
        for rule in self.rules:
            if all(name in resolved for name in rule.reads) and not rule.holds(resolved):
                builds = " or ".join(map(written, self.near_builds(resolved) if near else ()))
                raise ContractError(f"{rule.sentence}, got {', '.join(f'{name}={resolved[name]}' for name in rule.reads)}"
                                    f"{f'; {builds} would work' if builds else ''}")

    def near_builds(self, resolved: Values) -> list[dict[str, Any]]:
        """The smallest changes of build parameters after which no rule is broken."""
        known = [(set(rule.reads), rule.holds) for rule in self.rules if resolved.keys() >= set(rule.reads)]
        return near_values({one.name: one.tries for one in self.parameters if one.kind == "build"}, known, resolved)

    def grid_of(self, resolved: Values) -> tuple[int, int, int]:
        """The grid in workgroups for resolved parameters; ContractError where a dimension is below 1."""
        x, y, z = self.grid.compute(resolved)
        if min(x, y, z) < 1:
            raise ContractError(f"{self.name} has nothing to do: its grid is {x} x {y} x {z} workgroups ({self.grid.sentence})")
        return (x, y, z)

    def lds_bytes_of(self, resolved: Values) -> int:
        """Static LDS of one workgroup, in bytes. Raises ContractError before the build, which shows it."""
        if self.lds_bytes is None:
            raise ContractError(f"how much LDS {self.name} takes is known once it is built")
        return int(_evaluate(self.lds_bytes, resolved))

    @property
    def launches(self) -> tuple[KernelContract, ...]:
        """The contracts of all kernels that are launched, in order; of most kernels it is this one alone."""
        return (*self.before, self, *self.after)

    @property
    def given(self) -> tuple[ContractArgument, ...]:
        """The arguments that a caller gives, of all launches, each once: workspaces are none of them."""
        own = {workspace.name for workspace in self.workspaces}
        found = {argument.name: argument for one in self.launches for argument in one.arguments if argument.name not in own}
        return tuple(found.values())

    def workspace_bytes_of(self, resolved: Values) -> dict[str, int]:
        """Bytes of each workspace for resolved parameters."""
        return {workspace.name: int(_evaluate(workspace.nbytes, resolved)) for workspace in self.workspaces}

    def check_workspace(self, name: str, nbytes: int, resolved: Values) -> None:
        """Raises ContractError for memory that is too small for the workspace of that name, or where there is no such workspace."""
        needed = self.workspace_bytes_of(resolved)
        if name not in needed:
            raise ContractError(f"{self.name} has no workspace {_short(name)}; {did_you_mean(name, needed)}")
        if nbytes < needed[name]:
            (formula,) = (one.nbytes for one in self.workspaces if one.name == name)
            why = f" ({formula.sentence})" if isinstance(formula, Formula) else ""
            raise ContractError(f"{name} of {self.name} must have at least {needed[name]} bytes{why}, got {nbytes}")

    def describe(self, arch: str = "", build: Values | None = None) -> dict[str, Any]:
        """The contract as JSON values; with `arch` and `build` those of one build. Formulas stand as sentence and evaluated example.

        `launches` has the kernels in order. Of a kernel that is launched alone the same stands in the document itself.
        """
        chosen = self.resolve_build(build or {})
        example = self.resolve_run({**chosen, **self.example})
        launches = [one.describe_launch(example) for one in self.launches]
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "kernel": self.name,
            "title": self.title,
            "archs": sorted(self.archs),
            "build": chosen,
            "parameters": {parameter.name: parameter.describe() for parameter in self.parameters},
            "rules": [{"sentence": rule.sentence, "reads": list(rule.reads)} for rule in self.rules],
            "aliases": [alias.describe() for alias in self.aliases],
            "workspaces": [workspace.describe(example) for workspace in self.workspaces],
            "launches": launches,
            "example": example,
        }
        if len(launches) == 1:
            document |= {name: value for name, value in launches[0].items() if name != "title"}
        if arch:
            document["arch"] = self.check_arch(arch)
        return document

    def describe_launch(self, example: Values) -> dict[str, Any]:
        """What KERNEL.json says of one of the launches."""
        offsets = natural_offsets(argument.type for argument in self.arguments)
        row: dict[str, Any] = {
            "title": self.title,
            "arguments": [argument.describe(offset) for argument, offset in zip(self.arguments, offsets, strict=True)],
            "workgroup": list(self.workgroup),
            "grid": _described(Formula(self.grid.sentence, lambda resolved: list(self.grid_of(resolved))), example),
        }
        return row if self.lds_bytes is None else row | {"lds_bytes": _described(self.lds_bytes, example)}

    def to_json(self, arch: str = "", build: Values | None = None) -> str:
        """The text of KERNEL.json: keys sorted, the same bytes for the same contract, one newline at the end."""
        import json

        return json.dumps(self.describe(arch, build), sort_keys=True, indent=1) + "\n"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The half sentence "did you mean 'k'? (known are m, n, k)", without the question where no known name is near."""
    import difflib

    names = list(known)
    listing = f"known are {', '.join(names)}" if names else "it has none"
    by_folded = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), list(by_folded), n=1, cutoff=0.5)
    return f"did you mean {by_folded[near[0]]!r}? ({listing})" if near else listing


def _evaluate(quantity: int | Formula, resolved: Values) -> Any:
    return quantity.compute(resolved) if isinstance(quantity, Formula) else quantity


def _described(quantity: int | Formula, example: Values) -> Any:
    if not isinstance(quantity, Formula):
        return quantity
    return {"sentence": quantity.sentence, "example": quantity.compute(example)}


def _one_of(choices: tuple[Value, ...]) -> str:
    texts = [str(choice) for choice in choices]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
