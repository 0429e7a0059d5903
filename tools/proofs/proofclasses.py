"""The launches that a proof runs: of several workgroups with whole and cut tiles, small ones, and loops of each length until they are
steady."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any

from asmgen.author.contract.contract import Formula, KernelContract, Parameter, Value, Values
from asmgen.isa.errors import AsmgenError
from asmgen.tools.running.smalllaunches import APART, REFUSED, apart, drawn_launches, groups_of, launches

_MOST_GROUPS = 12
_DOUBLED = 7
"""How often a size is doubled to find one that takes another workgroup."""
_MOST_DRAWN = 60
_MOST_STEPS, _MOST_PERIOD, _LEAST_STEPS = 30, 8, 6
_COUNTED = 3
"""Of what is one by default: two would not tell one more from twice as many."""
_PART = 4
_BYTES = 16
"""Of a load of a lane, as elements of a byte."""
_TURNS = 5
"""Tiles or rows of launches of two and three workgroups, which neither divides."""


@dataclass(frozen=True)
class Lengths:
    """Launches of one workgroup that differ in one size: by what the contract allows, and by an edge of a tile each time."""

    name: str
    fine: tuple[dict[str, Value], ...]
    coarse: tuple[dict[str, Value], ...]


def given_launches(contract: KernelContract, build: Values) -> list[dict[str, Value]]:
    """One of several workgroups first, then the given ones of `smalllaunches`."""
    given = launches(contract, build)
    several = several_workgroups(contract, build, given)
    return [*([several] if several is not None else []), *given]


def several_numbers(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """The launch of several workgroups with each value of numbers that are no sizes, as it is and with tiles whole: the kernel that adds
    parts of tiles reads C by other code where rows are whole."""
    given = launches(contract, build)
    several = several_workgroups(contract, build, given)
    if several is None:
        return
    whole = _whole(contract, build, several, given[min(1, len(given) - 1)])
    found: list[dict[str, Value]] = []
    for launch in given:
        numbers = {name: launch[name] for name in _numbers(contract) if name in launch}
        if numbers not in found:
            found.append(numbers)
            yield {**several, **numbers}
            if groups_of(contract, build, whole) == groups_of(contract, build, several):
                yield {**whole, **numbers}


def counted_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """Launches of three of what is one by default and takes more workgroups, as the matrices of a batch are, with all numbers that follow
    from sizes, as strides do, further apart, each by another amount; with tiles cut and whole, with numbers that are no sizes, and of two
    and three workgroups that take them in turn. The first one has heads and batches, where the contract has such (`_shared`)."""
    given = launches(contract, build)
    full = given[min(1, len(given) - 1)]
    shared = _shared(contract, build, full)
    if shared:
        yield apart(contract, build, full | shared)
    several = several_workgroups(contract, build, given) or given[-1]
    own = [one.name for one in contract.parameters if one.kind == "run" and one.default == 1 and type(one.default) is int
           and groups_of(contract, build, several) < groups_of(contract, build, several | {one.name: 2}) < REFUSED]
    if not own:
        return
    numbers = {name: value for launch in given for name, value in launch.items() if name in _numbers(contract)}
    for base in (several, _whole(contract, build, several, full)):
        counted = _counted(contract, build, base, own)
        launch = apart(contract, build, counted)
        yield launch
        if numbers:
            yield {**launch, **numbers}
        yield from _in_turn(contract, build, [counted])


def _counted(contract: KernelContract, build: Values, base: dict[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """A launch with three of each of these. Where the contract refuses the strides of an only one, they follow from sizes again."""
    counted = base | dict.fromkeys(own, _COUNTED)
    if groups_of(contract, build, counted) < REFUSED:
        return counted
    return {name: value for name, value in counted.items() if not contract.parameter(name).default_from}


def _shared(contract: KernelContract, build: Values, full: dict[str, Any]) -> dict[str, Any]:
    """Where one size of the example follows from another, as heads of K do, of which one more takes more workgroups: three of it and six of
    the other, and three of each other size of the example of which one more does. Sizes that tiles divide are a part of one."""
    found, pairs = dict[str, Any](), False
    for one in contract.parameters:
        if one.kind != "run" or one.type is not int or one.name not in contract.example or one.default_from or full.get(one.name) != 1:
            continue
        sizes = [groups_of(contract, build, full | {one.name: count}) for count in (1, 2, 3)]
        if sizes[0] < sizes[1] < sizes[2] < REFUSED:
            follow = [other.name for other in contract.parameters if other.default_from == one.name and other.name in contract.example]
            twice = found | {one.name: 2 * _COUNTED} | dict.fromkeys(follow, _COUNTED)
            fits = bool(follow) and groups_of(contract, build, full | twice) < REFUSED
            found, pairs = twice if fits else found | {one.name: _COUNTED}, pairs or fits
    parts = {name: max(1, size // _PART) for name, size in full.items() if type(size) is int and name not in found
             and contract.parameter(name).multiple_of == 1 and _more_tiles(contract, build, full, name)}
    return {**parts, **found} if pairs else {}


def _numbers(contract: KernelContract) -> list[str]:
    """Run parameters that are numbers and no sizes."""
    return [one.name for one in contract.parameters if one.kind == "run" and isinstance(one.default, float)]


def _whole(contract: KernelContract, build: Values, several: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """A launch of several workgroups with tiles whole; `full` has one."""
    return several | {name: -(-size // full[name]) * full[name] for name, size in several.items()
                      if type(size) is int and type(full.get(name)) is int and full[name]
                      and contract.parameter(name).multiple_of == 1 and _more_tiles(contract, build, full, name)}


def more_launches(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """Drawn ones."""
    yield from islice(drawn_launches(contract, build), _MOST_DRAWN)


def lengths(contract: KernelContract, build: Values, steps: Callable[[Values], Sequence[int]] | None = None) -> Iterator[Lengths]:
    """For each size of which more takes no more workgroups; `steps` says of parameters what steps workgroups have, where that is known:
    then for those of which more makes more of these."""
    base = max(launches(contract, build), key=lambda launch: len(launch))
    resolved = _resolved(contract, build, base) or {}
    sizes = [parameter for parameter in contract.parameters if parameter.kind == "run" and parameter.type is int
             and (not parameter.default_from or isinstance(parameter.default_from, str))]
    pinned: dict[str, Any] = {parameter.name: resolved[parameter.name] for parameter in sizes if parameter.name in resolved}
    for parameter in sizes:
        if parameter.name not in pinned or parameter.default is not None and not parameter.default_from:
            continue  # what has a default is an option, as the sides of a window
        strides = {one.name for one in sizes if one.default_from in (parameter.name,)}
        fixed = {name: value for name, value in pinned.items() if name not in strides or name in contract.example}
        most = groups_of(contract, build, pinned)
        by_step = []
        for step in (parameter.multiple_of, _step(contract, build, fixed, parameter, steps)):
            found = [fixed | {parameter.name: step * count} for count in range(1, _MOST_STEPS + 1)]
            by_step.append(tuple(launch for launch in found if groups_of(contract, build, launch) == most))
        if len(by_step[1]) >= _LEAST_STEPS and (steps is None or _decides(contract, build, by_step[1], steps)):
            yield Lengths(parameter.name, *by_step)


def longer_loops(contract: KernelContract, build: Values, steps: Callable[[Values], Sequence[int]] | None = None,
                 order: Callable[[Lengths], int] | None = None) -> Iterator[dict[str, Value]]:
    """All launches of `lengths`, a step longer each time: prologues, a loop's phases and what follows it. Of sizes those come first of
    which `order` is least."""
    sizes = lengths(contract, build, steps)
    for size in sizes if order is None else sorted(sizes, key=order):
        yield from size.fine[:2]
        yield from (launch for launch in size.coarse if launch not in size.fine[:2])


def cut_steps(contract: KernelContract, build: Values, steps: Callable[[Values], Sequence[int]] | None = None) -> Iterator[dict[str, Any]]:
    """Launches whose last step is a part of one: an element to 16 bytes of them more than each quarter of a step, which waves and lanes
    share, in rows as far apart as whole steps are. Each part may have code of its own. Elements of a byte come last: others have fewer."""
    for size in lengths(contract, build, steps):
        step = int(size.coarse[1][size.name]) - int(size.coarse[0][size.name])
        parts = chain.from_iterable(product((2, 0, 3, 1), rests) for rests in (range(APART, 0, -1), range(_BYTES, APART, -1)))
        for quarter, rest in parts if step > contract.parameter(size.name).multiple_of else ():
            whole = _resolved(contract, build, size.coarse[0]) or {}
            rows = {one.name: whole[one.name] for one in contract.parameters
                    if one.kind == "run" and one.default_from and one.name in whole}
            cut: dict[str, Any] = {**rows, **size.coarse[0], size.name: step * quarter // 4 + rest}
            if groups_of(contract, build, cut) < REFUSED:
                yield cut


def repeated_rows(contract: KernelContract, build: Values) -> Iterator[Lengths]:
    """Launches of one workgroup that takes one tile or row after another, where an option makes it do so: with each size that else takes
    more workgroups in steps of what one takes at once, and one element short."""
    for full, name in _repeating(contract, build):
        found = [full | {name: full[name] * count} for count in range(1, _MOST_STEPS + 1)]
        found = [launch for launch in found if groups_of(contract, build, launch) == 1]
        yield Lengths(name, tuple(found), tuple(found))
        cut = full | {name: 3 * full[name] - 1}
        if groups_of(contract, build, cut) == 1:
            yield Lengths(name, (cut,), (cut,))


def repeated_edges(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """Others of these: two or three tiles or rows, with each other size that tiles divide whole and an element short, and long and
    short loops of an even and an odd number of steps. Where longer loops take more workgroups, they are as long as in full launches and a
    step longer."""
    known: list[dict[str, Any]] = [{}]
    for one in lengths(contract, build):
        known = [{**loop, one.name: one.coarse[place][one.name]} for loop in known for place in (5, 4, 0, 1)]
    for full, name in _repeating(contract, build):
        loops = known
        for other, size in full.items():
            step = contract.parameter(other).multiple_of
            if type(size) is int and step > 1 and other not in (name, *known[0]):
                loops = [{**loop, other: longer} for loop in loops for longer in (size + step, size)]
        edges: list[dict[str, Any]] = [{}]
        for other, size in full.items():
            if other != name and type(size) is int and size > 1 and contract.parameter(other).multiple_of == 1 \
                    and _more_tiles(contract, build, full, other):
                edges += [{**edge, other: size - 1} for edge in edges]
        for edge, loop, count in product(reversed(edges), loops, (3, 2)):
            launch = {**full, name: count * full[name], **edge, **loop}
            if groups_of(contract, build, launch) == 1:
                yield launch


def _more_tiles(contract: KernelContract, build: Values, launch: dict[str, Any], name: str) -> bool:
    """Whether tiles divide that size, whatever workgroups there are: without options twice of it takes more workgroups."""
    own = {one.name for one in contract.parameters if type(one.default) is int or isinstance(one.default_from, Formula)}
    plain = {key: value for key, value in launch.items() if key not in own or key in contract.example}
    return groups_of(contract, build, plain | {name: 2 * launch[name]}) > groups_of(contract, build, plain)


def several_rounds(contract: KernelContract, build: Values) -> Iterator[dict[str, Value]]:
    """Launches of two and of three workgroups that an option makes take one tile or row after another: which one is a workgroup's next
    shows neither where one workgroup takes all nor where each takes one."""
    several = several_workgroups(contract, build, launches(contract, build))
    longer = [full | {name: _TURNS * full[name]} for full, name in _repeating(contract, build)]
    if several is not None:
        yield from _in_turn(contract, build, [several, *longer])


def _in_turn(contract: KernelContract, build: Values, bases: Sequence[dict[str, Any]]) -> Iterator[dict[str, Value]]:
    """For each option, of the first base of which it makes two or three workgroups take all."""
    for option in _options(contract):
        for base in bases:
            launch = {name: value for name, value in base.items() if name != option.name}
            most, steps = groups_of(contract, build, launch), range(_MOST_STEPS, 0, -1)
            fewer = {groups_of(contract, build, found): found for found in (launch | {option.name: value} for value in steps)}
            counts = [count for count in (2, 3) if count in fewer and count < most]
            yield from (fewer[count] for count in counts)
            if counts:
                break


def _options(contract: KernelContract) -> Iterator[Parameter]:
    """Run parameters that are a number by default, or follow from others by a formula."""
    for option in contract.parameters:
        if option.kind == "run" and option.type is int and (type(option.default) is int or isinstance(option.default_from, Formula)):
            yield option


def _repeating(contract: KernelContract, build: Values) -> Iterator[tuple[dict[str, Any], str]]:
    """(launch, size): of one workgroup that an option makes take more than one tile or row, if there is more of the size."""
    given = launches(contract, build)
    several = several_workgroups(contract, build, given)
    full: dict[str, Any] = given[min(1, len(given) - 1)]
    for option in _options(contract) if several is not None else ():
        own: list[dict[str, Any]] = [{option.name: value} for value in (1, _MOST_STEPS)]
        many = groups_of(contract, build, several or {})
        one = next((values for values in own if groups_of(contract, build, {**(several or {}), **values}) < many), None)
        for name, step in full.items() if one is not None else ():
            if type(step) is not int or groups_of(contract, build, {**full, name: 2 * step}) == groups_of(contract, build, full):
                continue
            yield {**full, **(one or {})}, name


def _decides(contract: KernelContract, build: Values, found: Sequence[Values],
             steps: Callable[[Values], Sequence[int]] | None) -> bool:
    resolved = [_resolved(contract, build, launch) for launch in (found[0], found[-1])]
    return steps is not None and None not in resolved and list(steps(resolved[0])) != list(steps(resolved[1]))  # type: ignore[arg-type]


def _step(contract: KernelContract, build: Values, fixed: Values, parameter: Parameter,
          steps: Callable[[Values], Sequence[int]] | None) -> int:
    """The smallest edge of a tile of which a size may be a multiple, and of which one more makes one step more, where steps are known."""
    edges = sorted(int(edge) for edge in str(build.get("tile", "")).split("x") if edge.isdigit() and int(edge) % parameter.multiple_of == 0)
    for edge in edges if steps is not None else ():
        if _decides(contract, build, [{**fixed, parameter.name: edge * count} for count in (1, 2)], steps):
            return edge
    return min(edges, default=parameter.multiple_of)


def steady(counts: Sequence[Sequence[int]]) -> int | None:
    """After how many steps more a loop executes the same code once more, as two rounds in a row show; None where they do not."""
    if len(counts) < _LEAST_STEPS:
        return None
    for period in range(1, min(_MOST_PERIOD, len(counts) // 3) + 1):
        last = [_more(counts[-1 - place], counts[-1 - place - period]) for place in range(2 * period)]
        if all(one == last[0] for one in last) and any(last[0]):
            return period
    return None


def _more(after: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    return tuple(one - other for one, other in zip(after, before, strict=True))


def several_workgroups(contract: KernelContract, build: Values, given: list[dict[str, Value]]) -> dict[str, Value] | None:
    """A launch in which each size that tiles divide takes a whole tile and a cut one, no two of them alike; as many sizes as keep
    workgroups few. None where no size takes more workgroups than one."""
    values: dict[str, Any] = dict(given[-1])
    one = groups_of(contract, build, values)
    for parameter in contract.parameters:
        by_default = parameter.default if parameter.default != 1 else None  # what is 1 by default is for `counted_launches`
        size = values.get(parameter.name, by_default)
        if parameter.kind != "run" or parameter.type is not int or parameter.default_from or not isinstance(size, int) or not size:
            continue
        step, fewer = parameter.multiple_of, groups_of(contract, build, values)
        for more in (max(size // 3, step), *(size << doubled for doubled in range(_DOUBLED))):  # a tile may have room for many
            larger = values | {parameter.name: (size + more) // step * step}
            if larger[parameter.name] not in values.values() and groups_of(contract, build, larger) > fewer:
                if groups_of(contract, build, larger) <= _MOST_GROUPS * one:
                    values = larger
                break
    return values if groups_of(contract, build, values) > one else None


def _resolved(contract: KernelContract, build: Values, values: Values) -> dict[str, Any] | None:
    try:
        return dict(contract.resolve_run({**build, **values}, near=False))
    except AsmgenError:
        return None
