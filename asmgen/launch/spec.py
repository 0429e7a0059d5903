"""The launch specification (docs/FORMATS.md section 3): one JSON file that says what to launch on what data, read and checked.

A specification is complete when it is read: every path, size and offset that the file alone decides is right. What the
code object decides (its kernels, its architecture, the size of its arguments) is checked where it is launched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.codeobject.arguments import SCALAR_TYPES, ArgumentError, encode, scalar_type
from asmgen.emulator.arrival.findings import CHECKS
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted, shown

Size = tuple[int, int, int]

_KEYS = ("code_object", "kernel", "arch", "grid", "block", "dynamic_lds", "args", "order", "checks", "product", "attention")
_PROBLEMS = {"product": (("m", "n", "k"), ("b",)), "attention": (("b", "hq", "hkv", "sq", "sk", "d"), ())}  # needed, and those that are 1
_KINDS = {"buffer": ("save",), "zeros": ("save",), "scalar": ("value",), "bytes": (), "same_as": ("at",)}
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
    """A pointer to bytes: the payload of `source` (a .npy file, or any other as it is), or `zeros` zero bytes.

    `save` is where the bytes go after the launch.
    """

    offset: int | None
    source: Path | None
    zeros: int
    save: Path | None


@dataclass(frozen=True)
class AliasArgument:
    """A pointer into the buffer of argument number `target`, `at` bytes after its start."""

    offset: int | None
    target: int
    at: int


@dataclass(frozen=True)
class ValueArgument:
    """Bytes that stand in the kernarg segment themselves; `align` counts where there is no offset."""

    offset: int | None
    data: bytes
    align: int


SpecArgument = BufferArgument | AliasArgument | ValueArgument


@dataclass(frozen=True)
class SolvedProblem:
    """What a launch computes: a matrix "product" of b times m x n x k, or "attention" of b batches, hq and hkv heads, sq queries and
    sk keys of d elements, `causal` where a query sees no later key. Of a product, where the file says so, the rows, columns and depth of
    a workgroup's `tile` and step, and by how many workgroups K is `split`."""

    kind: str
    sizes: Mapping[str, int]
    causal: bool = False
    tile: tuple[int, int, int] | None = None
    split: int = 1

    @property
    def flops(self) -> float:
        """Two of each product and sum; of attention both products, for the keys that each query sees."""
        sizes = self.sizes
        if self.kind == "product":
            return 2.0 * sizes["b"] * sizes["m"] * sizes["n"] * sizes["k"]
        return 4.0 * sizes["b"] * sizes["hq"] * sizes["d"] * seen_keys(sizes["sq"], sizes["sk"], self.causal)


def seen_keys(queries: int, keys: int, causal: bool) -> int:
    """Pairs of a query and a key that it sees; a causal mask ends at the last key of the last query."""
    if not causal:
        return queries * keys
    seeing = min(queries, keys)  # queries that see any: the last ones
    return seeing * (keys - seeing) + seeing * (seeing + 1) // 2


@dataclass(frozen=True)
class LaunchSpec:
    """One launch. `grid` in workgroups, `block` in work-items, `dynamic_lds` in bytes; None where the code object decides, or where the
    file does not say which problem it solves."""

    origin: str
    code_object: Path
    kernel: str | None
    arch: str | None
    grid: Size
    block: Size
    dynamic_lds: int
    args: tuple[SpecArgument, ...]
    order: str
    checks: bool | tuple[str, ...]  # all, only those that cost nothing, or these (emulator.findings.CHECKS)
    problem: SolvedProblem | None = None


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

    def fail(self, sentence: str) -> SpecError:
        return SpecError(f"{self.origin}: {sentence}")

    def spec(self, value: Any) -> LaunchSpec:
        if not isinstance(value, dict):
            raise self.fail("a launch specification is a JSON object")
        self.known(value, _KEYS, "the specification")
        for key in ("code_object", "grid", "block"):
            if key not in value:
                raise self.fail(f"{key!r} is missing")
        arch = self.text(value, "arch")
        if arch is not None and arch.partition(":")[0] not in ARCHITECTURES:
            raise self.fail(f"'arch' is {quoted(arch)}; {' and '.join(ARCHITECTURES)} are known")
        order = self.text(value, "order") or "lockstep"
        if not _ORDER.fullmatch(order):
            raise self.fail(f"'order' is {quoted(order)}; lockstep, serial and random:SEED (at most 18 digits) are possible")
        checks = self.checks(value.get("checks", True))
        args = value.get("args", [])
        if not isinstance(args, list):
            raise self.fail("'args' is a list of arguments")
        parsed = tuple(self.argument(number, entry) for number, entry in enumerate(args))
        self.aliases(parsed)
        return LaunchSpec(self.origin, self.path(value, "code_object", "the specification"), self.text(value, "kernel"), arch,
                          self.size(value, "grid"), self.size(value, "block"),
                          self.number(value.get("dynamic_lds", 0), "'dynamic_lds'", 0, 1 << 20), parsed, order, checks,
                          self.problem(value))

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
        self.known(entry, (*needed, *single, *(("causal",) if kind == "attention" else ("tile", "split"))), repr(kind))
        missing = [name for name in needed if name not in entry]
        if missing:
            raise self.fail(f"{kind!r} lacks {', '.join(missing)}")
        sizes = {name: self.number(entry.get(name, 1), f"{name!r} of {kind!r}", 1, _MAX_BYTES) for name in (*needed, *single)}
        causal = entry.get("causal", False)
        if not isinstance(causal, bool):
            raise self.fail(f"'causal' is true or false, not {quoted(causal)}")
        split = self.number(entry.get("split", 1), f"'split' of {kind!r}", 1, _MAX_BYTES)
        return SolvedProblem(kind, sizes, causal, self.tile(entry["tile"]) if "tile" in entry else None, split)

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

    def argument(self, number: int, entry: Any) -> SpecArgument:
        what = f"argument {number}"
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
            target = self.number(entry["same_as"], f"'same_as' of {what}", 0, 1 << 20)
            return AliasArgument(offset, target, self.number(entry.get("at", 0), f"'at' of {what}", 0, _MAX_BYTES))
        save = self.path(entry, "save", what) if "save" in entry else None
        if kind == "zeros":
            return BufferArgument(offset, None, self.number(entry["zeros"], f"'zeros' of {what}", 0, _MAX_BYTES), save)
        return BufferArgument(offset, self.path(entry, "buffer", what), 0, save)

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

    def aliases(self, args: tuple[SpecArgument, ...]) -> None:
        for number, argument in enumerate(args):
            if isinstance(argument, AliasArgument) and not (
                    argument.target < len(args) and isinstance(args[argument.target], BufferArgument)):
                owners = [str(other) for other, owner in enumerate(args) if isinstance(owner, BufferArgument)][:_SHOWN_OWNERS]
                raise self.fail(f"argument {number} is 'same_as' {argument.target}, which has no buffer of its own; "
                                f"arguments that have one: {', '.join(owners) or 'none'}")
        saved: set[Path] = set()
        for argument in args:
            if isinstance(argument, BufferArgument) and argument.save is not None:
                if argument.save in saved:
                    raise self.fail(f"two arguments are saved to {quoted(argument.save.name)}")
                saved.add(argument.save)
