"""Replacements of the emulator's semantic functions: each of them, one at a time, copies its first source instead of doing its work.

A replacement keeps the result's type and shape, so that a test can only notice it by the values. It is installed for good:
whoever uses this installs it in a process of its own. Functions that stand in tables by mnemonic are here; what whole
instructions do is in `replaced_instructions`, what happens to operands and results on their way in `replaced_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from asmgen.emulator.binding import decode
from asmgen.emulator.memory import smem
from asmgen.emulator.memory.atomics import CHANGES
from asmgen.emulator.semantics import salu, scalarstate, valu
from asmgen.emulator.semantics.fastpath import FAST
from asmgen.emulator.semantics.valu import semantic_tables
from asmgen.isa.table import known, names, opcode

Function = Callable[..., Any]
Note = Callable[[str], None]
"""Told the trigger of a semantic function when that is used."""


@dataclass(frozen=True)
class Replacement:
    """One semantic function to be replaced: `table` and `name` identify it, `install` replaces it in this process.

    `trigger` is what a test must use for the replacement to make a difference: "table:name" of a function, "instruction:name".
    """

    table: str
    name: str
    trigger: str
    install: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.table}: {self.name}"


MOVES = {
    "integer: v_mov_b32", "integer: v_mov_b64", "instruction: v_mov_b32", "instruction: v_mov_b64", "instruction: v_accvgpr_read_b32",
    "instruction: v_accvgpr_write_b32", "instruction: v_accvgpr_mov_b32", "integer: v_accvgpr_read_b32", "integer: v_accvgpr_write_b32",
    "integer: v_accvgpr_mov_b32", "scalar: s_mov_b32", "scalar: s_mov_b64", "scalar: s_movk_i32", "instruction: s_mov_b32",
    "instruction: s_mov_b64", "instruction: s_movk_i32",
}
EQUIVALENT: dict[str, str] = {
    **dict.fromkeys(MOVES, "it is a move: copying its first source is what it does"),
    **dict.fromkeys(("instruction: v_nop", "instruction: v_clrexcp", "instruction: ds_nop"), "it does nothing that can be seen"),
    **dict.fromkeys(("hardware register: 3", "hardware register: 7"), "no exception happens and nothing is outstanding: it always reads 0"),
    **dict.fromkeys((f"control: s_cbranch_cdbg{what}" for what in ("sys", "user", "sys_or_user", "sys_and_user")),
                    "it is taken only under a debugger: falling through is what it does"),
}
"""Replacements that change nothing, and why."""


def copied(result: Any, first: Any) -> Any:
    """The bits of `first`, cut off or zero-extended, as an array of `result`'s type and shape; a truth value is "not 0"."""
    result, first = np.asarray(result), np.asarray(first)
    if first.dtype == bool:
        first = first.astype(np.uint8)
    if first.ndim > result.ndim:
        first = first[(0,) * (first.ndim - result.ndim)]
    if result.dtype == bool:
        return np.broadcast_to(first != 0, result.shape).copy()
    element = np.dtype(f"u{result.dtype.itemsize}")
    pattern = np.ascontiguousarray(first).view(f"u{first.dtype.itemsize}").reshape(first.shape).astype(element)
    whole = np.zeros(result.shape, element)
    try:
        whole[...] = pattern
    except ValueError:  # other numbers of registers: what both have
        rows = min(len(whole), len(pattern)) if whole.ndim == pattern.ndim else 1
        whole[:rows] = pattern[:rows] if whole.ndim == pattern.ndim else pattern
    return whole.view(result.dtype)


def copying(function: Function, skip: int = 0) -> Function:
    """`function` with its result replaced by its first source, behind `skip` arguments that are none; flags stay as they are."""

    def copies(*arguments: Any) -> Any:
        result = function(*arguments)
        if isinstance(result, tuple):
            return (copied(result[0], arguments[skip]), *result[1:])
        return copied(result, arguments[skip])

    return copies


def unflagged(function: Function) -> Function:
    """`function` whose second result, a carry or condition, is never set."""

    def never(*arguments: Any) -> Any:
        value, flag = function(*arguments)
        return value, np.zeros_like(np.asarray(flag))

    return never


def _copying_kernel(factory: Function) -> Function:
    """A maker of compiled kernels (sources, out) that makes ones which copy."""

    def make(mode: Any) -> Function:
        kernel = factory(mode)

        def copies(sources: list[Any], out: Any) -> None:
            kernel(sources, out)
            out[...] = copied(out, sources[0])

        return copies

    return make


@contextmanager
def swapped(holder: Any, name: str, value: Any) -> Iterator[None]:
    """An entry of a dict or an attribute of a module replaced for a while."""
    get: Function = holder.__getitem__ if isinstance(holder, dict) else lambda key: getattr(holder, key)
    put: Function = holder.__setitem__ if isinstance(holder, dict) else lambda key, value: setattr(holder, key, value)
    old = get(name)
    put(name, value)
    try:
        yield
    finally:
        put(name, old)


Bind = Callable[[], Function]
Around = Callable[[Any, Any, Bind], Function]
"""(instruction, machine, what binds it as always) to the step that is to run."""


def around_instruction(matches: Callable[[Any], bool], around: Around) -> None:
    """From now on `around` says what instructions do for which `matches` holds."""
    plain = decode.bind

    def bind(position: int, instruction: Any, machine: Any, memory: Any, lds: Any) -> Any:
        def usual() -> Function:
            return plain(position, instruction, machine, memory, lds)

        return around(instruction, machine, usual) if matches(instruction) else usual()

    decode.bind = bind


def while_binding(name: str, holder: Any, key: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """An install function: an entry is replaced by `make` of it while the instruction `name` is bound."""

    def around(instruction: Any, machine: Any, usual: Bind) -> Function:
        old = holder[key] if isinstance(holder, dict) else getattr(holder, key)
        with swapped(holder, key, make(old)):
            return usual()

    return lambda: around_instruction(lambda instruction: instruction.name == name, around)


def while_running(name: str, places: list[tuple[Any, str]], make: Callable[[Any], Any]) -> Callable[[], None]:
    """An install function: entries are replaced by `make` of them while the instruction `name` runs."""

    def around(instruction: Any, machine: Any, usual: Bind) -> Function:
        step = usual()

        def run(group: Any) -> None:
            olds = [getattr(holder, key) for holder, key in places]
            for (holder, key), old in zip(places, olds, strict=True):
                setattr(holder, key, make(old))
            try:
                step(group)
            finally:
                for (holder, key), old in zip(places, olds, strict=True):
                    setattr(holder, key, old)

        return run

    return lambda: around_instruction(lambda instruction: instruction.name == name, around)


def _entry(table: str, entries: dict[str, Any], key: str, make: Callable[[Any], Any], what: str = "") -> Replacement:
    return Replacement(table, f"{key} {what}".rstrip(), f"{table}:{key}", lambda: entries.__setitem__(key, make(entries[key])))


def _sets_flag(name: str) -> bool:
    """Whether an instruction has a second result: a carry, a scale flag, or SCC."""
    if not known(name):
        return False
    row = opcode(name)
    return "scc" in row.writes or row.encoding.startswith("VOP") and any(place.writes for place in row.forms[0].operands[1:])


def vector_tables() -> list[Replacement]:
    """Every function of the vector ALU's tables; those of comparisons and binders are replaced by instruction."""
    found = []
    for table, entries in semantic_tables().items():
        if table in ("compare", "cross-lane"):
            continue
        for key in entries:
            if entries is FAST:
                found.append(_entry(table, entries, key, _copying_kernel))
                continue
            skip = 0 if table in ("integer", "saturating") else 1
            found.append(_entry(table, entries, key, partial(copying, skip=skip)))
            if _sets_flag(key) and table != "saturating":
                found.append(_entry(table, entries, key, unflagged, "flag"))
    return found


def scalar_tables() -> list[Replacement]:
    """Every function of the scalar ALU's tables by mnemonic."""
    found = []
    for table, entries, skip in (("scalar", salu.SCALAR, 0), ("scalar with SCC", salu.WITH_SCC, 1), ("bit compare", salu.BIT_COMPARE, 0)):
        for key in entries:
            found.append(_entry(table, entries, key, partial(copying, skip=skip)))
            if table != "bit compare" and _sets_flag(key) and "cmov" not in key:
                found.append(_entry(table, entries, key, unflagged, "SCC"))
    for number in scalarstate.HARDWARE:
        found.append(Replacement("hardware register", str(number), f"hardware register:{number}", partial(_read_nothing, number)))
    return found


def _read_nothing(number: int) -> None:
    function = scalarstate.HARDWARE[number]
    scalarstate.HARDWARE[number] = lambda machine, group: np.zeros_like(function(machine, group))


def by_instruction() -> list[Replacement]:
    """Functions that several mnemonics share, replaced for one mnemonic after the other."""
    found = []
    for name in names():
        parts = name.split("_")
        if name.startswith(("v_cmp_", "v_cmpx_")):
            install = while_binding(name, valu.COMPARE, parts[2], copying)
        elif name.startswith(("s_cmp_", "s_cmpk_")):
            install = while_binding(name, salu.COMPARE, parts[2], copying)
        elif name.endswith(("saveexec_b64", "wrexec_b64")):
            install = while_binding(name, scalarstate.SAVE_EXEC, parts[1], copying)
        elif name.startswith(("s_atomic_", "s_buffer_atomic_")) and "cmpswap" not in name:
            key = name.removesuffix("_x2").rsplit("_", 1)[1]
            found.append(Replacement("scalar atomic", f"{name} leaves memory", f"instruction:{name}",
                                     while_binding(name, smem.ATOMIC, key, lambda function: lambda old, data, limit: old)))
            if key == "swap":
                continue
            install = while_binding(name, smem.ATOMIC, key, lambda function: lambda old, data, limit: data)
        else:
            continue
        found.append(Replacement("by instruction", name, f"instruction:{name}", install))
    for key in CHANGES:
        if key != "swap":
            found.append(_entry("atomic", CHANGES, key, lambda function: lambda old, x, y: x))
    return found


def witness_tables(note: Note) -> None:
    """Have `note` told of every use of a table's function."""
    tables: dict[str, Any] = {**semantic_tables(), "scalar": salu.SCALAR, "scalar with SCC": salu.WITH_SCC, "bit compare": salu.BIT_COMPARE,
                              "hardware register": scalarstate.HARDWARE, "atomic": CHANGES}
    for table, entries in tables.items():
        for key in list(entries):
            entries[key] = _noting(entries[key], f"{table}:{key}", note)


def _noting(function: Function, trigger: str, note: Note) -> Function:
    def noted(*arguments: Any, **named: Any) -> Any:
        note(trigger)
        return function(*arguments, **named)

    return noted
