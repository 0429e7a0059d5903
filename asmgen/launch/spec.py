"""The launch specification (docs/FORMATS.md section 3): one JSON file that says what to launch on what data, read and checked.

It has one launch, or a list of them, which share buffers by name.

A specification is complete when it is read: every path, size and offset that the file alone decides is right. What the
code object decides (its kernels, its architecture, the size of its arguments) is checked where it is launched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asmgen.codeobject.arguments import SCALAR_TYPES, ArgumentError, encode, scalar_type
from asmgen.emulator.arrival.findings import CHECKS
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted, shown

Size = tuple[int, int, int]

_WHOLE = ("code_object", "arch", "order", "checks")
_LAUNCH = ("kernel", "grid", "block", "dynamic_lds", "args")
_PROBLEMS = {"product": (("m", "n", "k"), ("b",)), "attention": (("b", "hq", "hkv", "sq", "sk", "d"), ())}  # needed, and those that are 1
_FLAGS = ("causal", "backward")  # of attention
_KINDS = {"buffer": ("save", "name"), "zeros": ("save", "name"), "undefined": ("name",), "scalar": ("value",), "bytes": (),
          "same_as": ("at",)}
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character, which no file's name has
POINTER_BYTES = 8
"""Size and alignment of a pointer in the kernarg segment."""
_ORDER = re.compile(r"lockstep|serial|random:[0-9]{1,18}")
_TILE = re.compile(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})x([1-9][0-9]{0,5})")
_MAX_BYTES = 1 << 40
_SHOWN_OWNERS = 20
_MOST_DIGITS = 1000  # a float may be written so: the largest has 309


class SpecError(AsmgenError):
    """A launch specification cannot be read or makes no sense: which file, which entry, what would work."""


@dataclass(frozen=True)
class BufferArgument:
    """A pointer to bytes: the payload of `source` (a .npy file, or any other as it is), or `zeros` zero bytes, which are `undefined` where
    launches hand them to each other and the first has to write them.

    `save` is where the bytes go after the launch, `name` what other launches call the buffer.
    """

    offset: int | None
    source: Path | None
    zeros: int
    save: Path | None
    undefined: bool = False
    name: str = ""


@dataclass(frozen=True)
class AliasArgument:
    """A pointer into the buffer of argument number `target` of launch number `launch`, `at` bytes after its start."""

    offset: int | None
    target: int
    at: int
    launch: int = 0


@dataclass(frozen=True)
class ValueArgument:
    """Bytes that stand in the kernarg segment themselves; `align` counts where there is no offset."""

    offset: int | None
    data: bytes
    align: int


@dataclass(frozen=True)
class _Named:
    """An alias by name, until all names are known."""

    offset: int | None
    owner: str
    at: int
    what: str


SpecArgument = BufferArgument | AliasArgument | ValueArgument | _Named


@dataclass(frozen=True)
class SolvedProblem:
    """What a launch computes: a matrix "product" of b times m x n x k, or "attention" of b batches, hq and hkv heads, sq queries and
    sk keys of d elements, `causal` where a query sees no later key, its gradients where it is `backward`. Of a product, where the file
    says so, the rows, columns and depth of a workgroup's `tile` and step, and by how many workgroups K is `split`."""

    kind: str
    sizes: Mapping[str, int]
    causal: bool = False
    tile: tuple[int, int, int] | None = None
    split: int = 1
    backward: bool = False

    @property
    def flops(self) -> float:
        """Two of each product and sum; of attention both products, and of its gradients five, for the keys that each query sees."""
        sizes = self.sizes
        if self.kind == "product":
            return 2.0 * sizes["b"] * sizes["m"] * sizes["n"] * sizes["k"]
        return self.flops_of_pair * sizes["b"] * sizes["hq"] * seen_keys(sizes["sq"], sizes["sk"], self.causal)

    @property
    def flops_of_pair(self) -> float:
        """Of a query and a key that it sees, in attention."""
        return (10.0 if self.backward else 4.0) * self.sizes["d"]


def seen_keys(queries: int, keys: int, causal: bool) -> int:
    """Pairs of a query and a key that it sees; a causal mask ends at the last key of the last query."""
    if not causal:
        return queries * keys
    seeing = min(queries, keys)  # queries that see any: the last ones
    return seeing * (keys - seeing) + seeing * (seeing + 1) // 2


@dataclass(frozen=True)
class SpecLaunch:
    """One launch. `grid` in workgroups, `block` in work-items, `dynamic_lds` in bytes; None where the code object decides, or where the
    file does not say which problem it solves. `of` is what errors say after an argument's number: which launch has it, if there are
    several."""

    kernel: str | None
    grid: Size
    block: Size
    dynamic_lds: int
    args: tuple[SpecArgument, ...]
    problem: SolvedProblem | None = None
    of: str = ""


@dataclass(frozen=True)
class LaunchSpec:
    """The launches in order, on the kernels of one code object. Of several, each may solve a problem, or all together one."""

    origin: str
    code_object: Path
    arch: str | None
    launches: tuple[SpecLaunch, ...]
    order: str
    checks: bool | tuple[str, ...]  # all, only those that cost nothing, or these (emulator.findings.CHECKS)
    problem: SolvedProblem | None = None

    @property
    def buffers(self) -> list[tuple[int, int, BufferArgument]]:
        """The arguments that have a buffer of their own, with the numbers of their launch and of themselves."""
        return [(launch, number, argument) for launch, one in enumerate(self.launches) for number, argument in enumerate(one.args)
                if isinstance(argument, BufferArgument)]


def read_spec(path: Path) -> LaunchSpec:
    """Read a specification; paths in it are relative to its folder. Raises SpecError with one sentence that names the file."""
    name = shown(path)
    try:
        value = json.loads(read_plain(path, MOST_TEXT).decode(), parse_int=_whole)
    except FileError as error:
        raise SpecError(error.sentence) from None
    except UnicodeDecodeError:
        raise SpecError(f"{name}: is not UTF-8 text, so no launch specification") from None
    except (json.JSONDecodeError, RecursionError) as error:
        reason = f"{error.msg} in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
        raise SpecError(f"{name}: is not JSON: {reason}") from None
    except SpecError as error:
        raise SpecError(f"{name}: {error.sentence}") from None
    return parse_spec(value, path.parent, name)


def _whole(digits: str) -> int:
    """A whole number of a JSON text; nothing in a specification is longer than 8 bytes, so that long ones are not even converted."""
    if len(digits) > _MOST_DIGITS:
        raise SpecError(f"a number in it has {len(digits)} digits, and {_MOST_DIGITS} are the most")
    return int(digits)


def parse_spec(value: Any, folder: Path, origin: str = "the specification") -> LaunchSpec:
    """Check a decoded specification; paths in it are relative to `folder`. Raises SpecError."""
    return _Parser(origin, folder).spec(value)


class _Parser:
    def __init__(self, origin: str, folder: Path) -> None:
        self.origin = origin
        self.folder = folder
        self.of = ""  # the launch, where there are several

    def fail(self, sentence: str) -> SpecError:
        return SpecError(f"{self.origin}: {sentence}")

    def spec(self, value: Any) -> LaunchSpec:
        if not isinstance(value, dict):
            raise self.fail("a launch specification is a JSON object")
        several = "launches" in value
        twice = [key for key in _LAUNCH if several and key in value]
        if twice:
            raise self.fail(f"it has 'launches', so each of them has its own {twice[0]!r}")
        self.known(value, (*_WHOLE, *(("launches",) if several else _LAUNCH), *_PROBLEMS), "the specification")
        if "code_object" not in value:
            raise self.fail("'code_object' is missing")
        arch = self.text(value, "arch")
        if arch is not None and arch.partition(":")[0] not in ARCHITECTURES:
            raise self.fail(f"'arch' is {quoted(arch)}; {' and '.join(ARCHITECTURES)} are known")
        order = self.text(value, "order") or "lockstep"
        if not _ORDER.fullmatch(order):
            raise self.fail(f"'order' is {quoted(order)}; lockstep, serial and random:SEED (at most 18 digits) are possible")
        checks = self.checks(value.get("checks", True))
        entries = self.entries(value["launches"]) if several else [value]
        launches = []
        for number, entry in enumerate(entries):
            self.of = f" of launch {number}" if len(entries) > 1 else ""
            launches.append(self.launch(number, entry, several))
        self.of = ""
        problem = self.problem(value) if several else launches[0].problem
        return LaunchSpec(self.origin, self.path(value, "code_object", "the specification"), arch, self.named(launches), order, checks,
                          problem)

    def entries(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
            raise self.fail("'launches' is a list of one JSON object or more")
        for number, entry in enumerate(value):
            self.known(entry, (*_LAUNCH, *_PROBLEMS), f"launch {number}")
        return value

    def launch(self, number: int, value: Mapping[str, Any], several: bool) -> SpecLaunch:
        for key in ("grid", "block"):
            if key not in value:
                raise self.fail(f"{key!r}{f' of launch {number}' if several else ''} is missing")
        args = value.get("args", [])
        if not isinstance(args, list):
            raise self.fail("'args' is a list of arguments")
        parsed = tuple(self.argument(position, entry, number) for position, entry in enumerate(args))
        return SpecLaunch(self.text(value, "kernel"), self.size(value, "grid"), self.size(value, "block"),
                          self.number(value.get("dynamic_lds", 0), "'dynamic_lds'", 0, 1 << 20), parsed, self.problem(value), self.of)

    def problem(self, value: Mapping[str, Any]) -> SolvedProblem | None:
        kinds = [kind for kind in _PROBLEMS if kind in value]
        if len(kinds) > 1:
            raise self.fail("it solves one problem: 'product' or 'attention', not both")
        if not kinds:
            return None
        kind, entry = kinds[0], value[kinds[0]]
        needed, single = _PROBLEMS[kind]
        if not isinstance(entry, dict):
            raise self.fail(f"{kind!r} is an object such as {{{', '.join(f'{json.dumps(name)}: 128' for name in needed)}}}")
        self.known(entry, (*needed, *single, *(_FLAGS if kind == "attention" else ("tile", "split"))), repr(kind))
        missing = [name for name in needed if name not in entry]
        if missing:
            raise self.fail(f"{kind!r} lacks {', '.join(missing)}")
        sizes = {name: self.number(entry.get(name, 1), f"{name!r} of {kind!r}", 1, _MAX_BYTES) for name in (*needed, *single)}
        causal, backward = (self.flag(entry, name) for name in _FLAGS)
        if sizes.get("hq", 1) % sizes.get("hkv", 1):
            raise self.fail(f"'hq' of 'attention' is a multiple of its 'hkv', {sizes['hkv']}, not {sizes['hq']}")
        split = self.number(entry.get("split", 1), f"'split' of {kind!r}", 1, _MAX_BYTES)
        return SolvedProblem(kind, sizes, causal, self.tile(entry["tile"]) if "tile" in entry else None, split, backward)

    def flag(self, entry: Mapping[str, Any], name: str) -> bool:
        found = entry.get(name, False)
        if not isinstance(found, bool):
            raise self.fail(f"{name!r} is true or false, not {quoted(found)}")
        return found

    def tile(self, value: Any) -> tuple[int, int, int]:
        found = _TILE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise self.fail(f"'tile' is ROWSxCOLUMNSxDEPTH, such as \"256x256x64\", not {quoted(value)}")
        return int(found[1]), int(found[2]), int(found[3])

    def checks(self, value: Any) -> bool | tuple[str, ...]:
        if isinstance(value, bool):
            return value
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.fail(f"'checks' is true or false, or a list of names, not {quoted(value)}")
        unknown = [name for name in value if name not in CHECKS]
        if unknown:
            raise self.fail(f"'checks' names {quoted(unknown[0])}; there are {', '.join(CHECKS)}")
        return tuple(value)

    def known(self, entry: Mapping[str, Any], keys: tuple[str, ...], what: str) -> None:
        unknown = [key for key in entry if key not in keys]
        if unknown:
            raise self.fail(f"{what} has no {quoted(unknown[0])}; it may have {', '.join(keys)}")

    def text(self, value: Mapping[str, Any], key: str) -> str | None:
        found = value.get(key)
        if found is not None and not isinstance(found, str):
            raise self.fail(f"{key!r} is a text, not {quoted(found)}")
        return found

    def path(self, entry: Mapping[str, Any], key: str, what: str) -> Path:
        found = entry[key]
        if not isinstance(found, str) or not found or "\0" in found or _SURROGATE.search(found):
            raise self.fail(f"{key!r} of {what} is a file's name, not {quoted(found)}")
        return self.folder / found

    def number(self, value: Any, what: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(f"{what} is a whole number from {low} to {high}, not {quoted(value)}")
        return value

    def size(self, value: Mapping[str, Any], key: str) -> Size:
        found = value[key]
        if not isinstance(found, list) or len(found) != 3:
            raise self.fail(f"{key!r} has three numbers, x, y and z, not {quoted(found)}")
        x, y, z = (self.number(number, f"each of {key!r}", 1, (1 << 32) - 1) for number in found)
        return x, y, z

    def argument(self, number: int, entry: Any, launch: int) -> SpecArgument:
        what = f"argument {number}{self.of}"
        if not isinstance(entry, dict):
            raise self.fail(f"{what} is a JSON object, not {quoted(entry)}")
        kinds = [kind for kind in _KINDS if kind in entry]
        if len(kinds) != 1:
            raise self.fail(f"{what} has {' and '.join(map(repr, kinds)) or 'no kind'}; it needs exactly one of {', '.join(_KINDS)}")
        kind = kinds[0]
        self.known(entry, ("offset", kind, *_KINDS[kind]), f"{what}, a {kind!r} argument,")
        offset = self.number(entry["offset"], f"'offset' of {what}", 0, 1 << 20) if "offset" in entry else None
        if kind == "scalar":
            return self.scalar(entry, what, offset)
        if kind == "bytes":
            return ValueArgument(offset, self.raw(entry["bytes"], what), 1)
        if kind == "same_as":
            target, at = entry["same_as"], self.number(entry.get("at", 0), f"'at' of {what}", 0, _MAX_BYTES)
            if isinstance(target, str):
                return _Named(offset, target, at, what)
            return AliasArgument(offset, self.number(target, f"'same_as' of {what}, where it is no name,", 0, 1 << 20), at, launch)
        save = self.path(entry, "save", what) if "save" in entry else None
        name = self.text(entry, "name") or ""
        if kind != "buffer":
            size = self.number(entry[kind], f"{kind!r} of {what}", 0, _MAX_BYTES)
            return BufferArgument(offset, None, size, save, kind == "undefined", name)
        return BufferArgument(offset, self.path(entry, "buffer", what), 0, save, False, name)

    def scalar(self, entry: Mapping[str, Any], what: str, offset: int | None) -> ValueArgument:
        name = entry["scalar"]
        types = [known for known in SCALAR_TYPES if known != "pointer"]
        if name not in types:
            raise self.fail(f"{what} has the unknown type {quoted(name)}; known are {', '.join(types)}")
        if "value" not in entry or isinstance(entry["value"], bool):
            raise self.fail(f"{what} needs a number as its 'value'")
        try:
            return ValueArgument(offset, encode(name, entry["value"], what), scalar_type(name).size)
        except ArgumentError as error:
            raise self.fail(error.sentence) from None

    def raw(self, text: Any, what: str) -> bytes:
        if isinstance(text, str) and re.fullmatch(r"(?:[0-9a-fA-F]{2})*", text):
            return bytes.fromhex(text)
        raise self.fail(f"'bytes' of {what} are pairs of hexadecimal digits, not {quoted(text)}")

    def named(self, launches: list[SpecLaunch]) -> tuple[SpecLaunch, ...]:
        """The launches with every name found and every number checked."""
        owners: dict[str, tuple[int, int]] = {}
        saved: set[Path] = set()
        for place, launch in enumerate(launches):
            for number, argument in enumerate(launch.args):
                if not isinstance(argument, BufferArgument):
                    continue
                if argument.name and owners.setdefault(argument.name, (place, number)) != (place, number):
                    raise self.fail(f"two arguments have the name {quoted(argument.name)}")
                if argument.save is not None:
                    if argument.save in saved:
                        raise self.fail(f"two arguments are saved to {quoted(argument.save.name)}")
                    saved.add(argument.save)
        return tuple(replace(launch, args=tuple(self.found(argument, number, launch, owners)
                                                for number, argument in enumerate(launch.args))) for launch in launches)

    def found(self, argument: SpecArgument, number: int, launch: SpecLaunch, owners: Mapping[str, tuple[int, int]]) -> SpecArgument:
        if isinstance(argument, _Named):
            if argument.owner not in owners:
                known = ", ".join(map(quoted, list(owners)[:_SHOWN_OWNERS])) or "none"
                raise self.fail(f"{argument.what} is 'same_as' {quoted(argument.owner)}, and no argument has that name; names: {known}")
            place, target = owners[argument.owner]
            return AliasArgument(argument.offset, target, argument.at, place)
        args = launch.args
        if isinstance(argument, AliasArgument) and not (
                argument.target < len(args) and isinstance(args[argument.target], BufferArgument)):
            holders = [str(other) for other, owner in enumerate(args) if isinstance(owner, BufferArgument)][:_SHOWN_OWNERS]
            raise self.fail(f"argument {number}{launch.of} is 'same_as' {argument.target}, which has no buffer of its own; "
                            f"arguments that have one: {', '.join(holders) or 'none'}")
        return argument
