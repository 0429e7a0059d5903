"""Replacements of whole instructions: a load gives 0, a store and an atomic leave memory, D = C, others copy their first source.

Flags and second results stay as they are, which makes it harder for a test to notice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from asmgen.emulator.binding.decode import PLAIN
from asmgen.emulator.machine.state import EXEC, mask_bits
from asmgen.emulator.memory import ldsops, vmem
from asmgen.emulator.scheduling import scheduler as schedule
from asmgen.emulator.scheduling.coverage import executed
from asmgen.emulator.semantics import matrix, matrix_kernels
from asmgen.emulator.semantics.values import bits_of, constant
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.mfma_arrays import index_map
from asmgen.isa.opcode import Opcode, is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.registers import Modified, Reg
from asmgen.isa.table import opcode
from tests.replacements.replacements import Around, Bind, Function, Note, Replacement, around_instruction, while_binding, while_running

LANES = 64


def all_instructions() -> list[Replacement]:
    """Replacements of every mnemonic that the emulator executes and that changes data."""
    found: list[Replacement] = []
    for name in sorted(set().union(*(executed(arch) for arch in ARCHITECTURES))):
        row = opcode(name)
        if name in PLAIN:
            continue
        if name in MFMA:
            found += _matrix(name)
        elif row.memory is not None or name in ("ds_append", "ds_consume"):
            found += _memory(row)
        elif name == "s_getpc_b64":
            found.append(_made("instruction", name, name, _getpc))
        elif "branch" in row.classes or _is_branch(name):
            found.append(_made("control", name, name, partial(_falls_through, name)))
        else:
            found.append(_replacement("instruction", name, name, _copy_first))
    return found


def _is_branch(name: str) -> bool:
    return name.startswith(("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call"))


def trigger_of(instruction: Any) -> str:
    """What instruction replacements wait for: the mnemonic, apart where it loads into LDS instead of registers."""
    dma = instruction.opcode.memory is not None and is_lds_dma(instruction.opcode, instruction.form)
    return f"instruction:{instruction.name}{' lds' if dma else ''}"


def witness_instructions(note: Note) -> None:
    """Have `note` told of every instruction that is bound, branches included."""

    def around(instruction: Any, machine: Any, usual: Bind) -> Function:
        note(trigger_of(instruction))
        return usual()

    around_instruction(lambda instruction: True, around)
    plain = schedule.bind_branch

    def branch(instruction: Any, *rest: Any) -> Any:
        note(trigger_of(instruction))
        return plain(instruction, *rest)

    schedule.bind_branch = branch  # type: ignore[assignment]
    decoder: Any = schedule.Decoder
    counter = decoder._program_counter

    def noted(self: Any, position: int, instruction: Any) -> Any:
        note(trigger_of(instruction))
        return counter(self, position, instruction)

    decoder._program_counter = noted


def _made(table: str, label: str, name: str, install: Callable[[], None]) -> Replacement:
    return Replacement(table, label, f"instruction:{name}", install)


def _replacement(table: str, label: str, name: str, around: Around) -> Replacement:
    trigger = f"instruction:{name}"
    return Replacement(table, label, trigger, lambda: around_instruction(lambda instruction: trigger_of(instruction) == trigger, around))


# Copies of the first source.


def _registers_of(instruction: Any) -> tuple[Reg | None, Any, str]:
    """The destination, the first source and its type."""
    places = list(zip(instruction.form.operands, instruction.operands, strict=True))
    written = next((operand for place, operand in places if place.writes and isinstance(operand, Reg)), None)
    pure = [(operand, place.type) for place, operand in places if place.reads and not place.writes]
    both = [(operand, place.type) for place, operand in places if place.reads]
    source, kind = (pure or both or [(0, "b32")])[0]
    return written, source.value if isinstance(source, Modified) else source, kind


def _words(machine: Any, group: Any, operand: Any, kind: str, count: int) -> list[Any]:
    """The operand's registers now, as many as are asked for; [waves, 64] of vector ones, [waves] of others. What is missing is 0."""
    found: list[Any] = []
    for number in range(count):
        if isinstance(operand, Reg) and number < operand.count and operand.file in "vas":
            file, index = (machine.scalar, operand.index) if operand.file == "s" else (machine.vector, machine.slot(operand))
            found.append(file[index + number, group.select].copy())
        elif isinstance(operand, int | float) and not isinstance(operand, bool):
            found.append(np.full(group.size, bits_of(operand, kind) >> 32 * number & 0xFFFFFFFF, np.uint32))
        else:
            found.append(np.zeros(group.size, np.uint32))
    return found


def _put(machine: Any, group: Any, target: Reg, values: list[Any], mask: Any) -> None:
    if target.file in "va":
        for number, value in enumerate(values):
            row = machine.vector[machine.slot(target) + number]
            wide = np.broadcast_to(value if value.ndim == 2 else value[:, None], (group.size, LANES))
            row[group.select] = np.where(mask, wide, row[group.select])
        return
    if values[0].ndim == 2 and len(values) == 2:
        values = list(mask_bits(np.any([value != 0 for value in values if value.ndim == 2], axis=0) & mask))
    elif values[0].ndim == 2:
        values = [value[:, 0] for value in values]
    for number, value in enumerate(values):
        machine.scalar[target.index + number, group.select] = value
    if target.index <= EXEC + 1 < target.index + target.count + 1:
        group.refresh_mask()


def _copy_first(instruction: Any, machine: Any, usual: Bind) -> Function:
    """The instruction runs, and then its destination gets its first source; one without destination does nothing."""
    target, source, kind = _registers_of(instruction)
    step = usual()
    if target is None or target.file not in "vas":
        return lambda group: None

    def run(group: Any) -> None:
        before, mask = _words(machine, group, source, kind, target.count), group.lanes().copy()
        step(group)
        _put(machine, group, target, before, mask)

    return run


def _zero_result(instruction: Any, machine: Any, usual: Bind) -> Function:
    target, _, _ = _registers_of(instruction)
    step = usual()

    def run(group: Any) -> None:
        mask = group.lanes().copy()
        step(group)
        if target is not None:
            _put(machine, group, target, [np.zeros(group.size, np.uint32)] * target.count, mask)

    return run


def _does_nothing(instruction: Any, machine: Any, usual: Bind) -> Function:
    usual()
    return lambda group: None


# Memory.


def _memory(row: Opcode) -> list[Replacement]:
    name = row.name
    if row.memory is None:
        return [_replacement("memory", f"{name} gives 0", name, _zero_result),
                _made("memory", f"{name} leaves memory", name, while_running(name, [(ldsops, "perform")], lambda _: _only_reads))]
    found = []
    kind, space = row.memory.kind, row.memory.space
    plain = any(not is_lds_dma(row, form) for form in row.forms)
    if any(is_lds_dma(row, form) for form in row.forms):
        found.append(_replacement("memory", f"{name} lds does nothing", f"{name} lds", _does_nothing))
    if not plain:
        return found
    if kind == "load":
        found.append(_replacement("memory", f"{name} gives 0", name, _zero_result))
        if row.memory.type in ("i8", "i16", "sbyte", "sshort"):
            found.append(_replacement("memory", f"{name} without sign", name, _unsigned(row)))
        if "keep" in row.flags:
            found.append(_replacement("memory", f"{name} clears the other half", name, _clears_half(row)))
        if "tr" in row.flags:
            found.append(_made("memory", f"{name} does not transpose", name,
                               while_running(name, [(ldsops, "transposed")], lambda _: lambda words, bits: words)))
        return found
    found.append(_replacement("memory", f"{name} does nothing", name, _does_nothing))
    if kind == "atomic" and space != "scalar":
        found.append(_made("memory", f"{name} leaves memory", name,
                           while_running(name, [(ldsops, "perform"), (vmem, "perform")], lambda _: _only_reads)))
    returning = space != "lds" or any(place.name == "vdst" for form in row.forms for place in form.operands)
    if kind == "atomic" and returning and name not in ("ds_append", "ds_consume"):
        found.append(_replacement("memory", f"{name} returns its data", name, _returns_data))
    return found


def _only_reads(window: Any, addresses: Any, valid: Any, atomic: Any, first: Any, second: Any) -> Any:
    size = atomic.element.itemsize
    cells = window.u64 if size == 8 else window.u32
    found = np.zeros(addresses.shape, first.dtype)
    found[valid] = cells[(addresses[valid] - window.origin) >> (3 if size == 8 else 2)]
    return found


def _returns_data(instruction: Any, machine: Any, usual: Bind) -> Function:
    """An atomic's result is its operand, not what memory held."""
    named = {place.name: operand for place, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    given = next(named[key] for key in ("vdata", "data0", "sdata", "vdst") if key in named)
    if "data" in named:
        given = named["data"]
    returns = instruction.modifiers.get("sc0") or instruction.modifiers.get("glc") or "data0" in named and "vdst" in named
    target = named.get("vdst", given)
    step = usual()

    def run(group: Any) -> None:
        before, mask = _words(machine, group, given, "b32", given.count), group.lanes().copy()
        step(group)
        if returns:
            _put(machine, group, target, before[:target.count], mask)

    return run


def _unsigned(row: Opcode) -> Around:
    """A signed load's result zero-extended."""
    assert row.memory is not None
    extended = 16 if "keep" in row.flags else 32
    sign = (1 << extended) - 1 ^ (1 << 8 * row.memory.bytes) - 1
    return _keeping(~(sign << (16 if "hi" in row.flags else 0)))


def _clears_half(row: Opcode) -> Around:
    """A load of one half that does not keep the other."""
    return _keeping(0xFFFF0000 if "hi" in row.flags else 0xFFFF)


def _keeping(bits: int) -> Around:
    """The instruction runs, and then of its destination only these bits stay."""
    kept = np.uint32(bits & 0xFFFFFFFF)

    def around(instruction: Any, machine: Any, usual: Bind) -> Function:
        target, _, _ = _registers_of(instruction)
        assert target is not None
        step = usual()

        def run(group: Any) -> None:
            mask = group.lanes().copy()
            step(group)
            _put(machine, group, target, [machine.vector[machine.slot(target), group.select] & kept], mask)

        return run

    return around


# Control.


def _falls_through(name: str) -> None:
    plain = schedule.bind_branch

    def branch(instruction: Any, position: int, *rest: Any) -> Any:
        return (lambda group: position + 1) if instruction.name == name else plain(instruction, position, *rest)

    schedule.bind_branch = branch  # type: ignore[assignment]


def _getpc() -> None:
    decoder: Any = schedule.Decoder

    def nowhere(self: Any, position: int, instruction: Any) -> Function:
        target = instruction.operands[0]
        return lambda group: _put(self.machine, group, target, [np.zeros(group.size, np.uint32)] * 2, None)

    decoder._program_counter = nowhere


# Matrix instructions.

COMPILED = tuple(name for name in vars(matrix_kernels) if name.startswith("multiply_"))
"""The compiled loops, one of which a matrix instruction ends in."""


def _matrix(name: str) -> list[Replacement]:
    row = MFMA[name]
    form = opcode(name).forms[0].modifiers
    found = [_replacement("matrix", f"{name} compiled: D = C", name, _addend_only("compiled"))]
    if row.kind != "dgemm":
        found.append(_replacement("matrix", f"{name} numpy: D = C", name, _addend_only("numpy")))
    else:
        found.append(_made("matrix", f"{name} without neg", name,
                           while_binding(name, matrix, "_doubles_step", lambda step: lambda plan, negate: step(plan, (0, 0, 0)))))
    if row.scaled:
        found += [_made("matrix", f"{name} without the scale of {'AB'[which]}", name,
                        while_running(name, [(matrix, "_scales")], partial(_without_scale, which)))
                  for which in (0, 1)]
        found += [_made("matrix", f"{name}: byte 0 of the scale of {'AB'[which]}", name,
                        while_binding(name, matrix, "_scale_bytes", partial(_first_byte, which)))
                  for which in (0, 1)]
    if row.sparse:
        found.append(_made("matrix", f"{name} without the sparse index", name,
                           while_running(name, [(matrix, "_sparse_places")],
                                         lambda places: lambda plan, group: _even_places(places(plan, group)))))
        if (index_map(row, 0, 1).bit != index_map(row).bit).any():  # some have room for one set of indices only
            found.append(_made("matrix", f"{name} without cbsz and abid", name,
                               while_binding(name, matrix, "index_map", lambda index: lambda row, cbsz=0, abid=0: index(row))))
        return found
    if row.f8f6f4:
        found += [_made("matrix", f"{name}: {operand} as fp8", name,
                        while_binding(name, matrix, "_source", partial(_as_fp8, operand)))
                  for operand in "ab"]
        return found
    if "cbsz" in form and row.kind != "dgemm" and row.blocks > 1:
        found.append(_made("matrix", f"{name} without cbsz", name,
                           while_binding(name, matrix, "broadcast_lanes", lambda _: lambda *given: np.arange(LANES))))
    if "blgp" in form and row.kind != "dgemm":
        found.append(_made("matrix", f"{name} without blgp", name,
                           while_binding(name, matrix, "permute_lanes", lambda _: lambda *given: np.arange(LANES))))
    return found


def _without_scale(which: int, scales: Function) -> Function:
    calls = [0]

    def ones(*given: Any) -> Any:
        calls[0] += 1
        found = scales(*given)
        return np.ones_like(found) if (calls[0] - 1) % 2 == which else found

    return ones


def _first_byte(which: int, bytes_of: Function) -> Function:
    def first(*given: Any) -> Any:
        found = list(bytes_of(*given))
        found[which] = (found[which][0], 0)
        return tuple(found)

    return first


def _even_places(places: Any) -> Any:
    """As if each group of four had its first two values."""
    number = np.arange(places.shape[1])
    return np.broadcast_to((4 * (number // 2) + number % 2)[:, None], places.shape).copy()


def _as_fp8(which: str, source: Function) -> Function:
    def made(machine: Any, reg: Any, row: Any, operand: str, code: int, moved: Any) -> Any:
        return source(machine, reg, row, operand, 0 if operand == which else code, moved)

    return made


def _addend_only(path: str) -> Around:
    """D = C where the compiled loops, or numpy, did the work."""

    def around(instruction: Any, machine: Any, usual: Bind) -> Function:
        named = {place.name: operand for place, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
        target, row = named["vdst"], MFMA[instruction.name]
        addend = target if row.sparse else named["src2"]
        step = usual()

        def run(group: Any) -> None:
            if isinstance(addend, Reg):
                before = machine.vector[machine.slot(addend):machine.slot(addend) + target.count, group.select].copy()
            else:
                words = np.ascontiguousarray(constant(addend, row.cd_type)).reshape(1).view(np.uint32)
                before = np.resize(words, target.count)[:, None, None]
            if _path_of(step, group) == path:
                slot = machine.slot(target)
                machine.vector[slot:slot + target.count, group.select] = before

        return run

    return around


def _path_of(step: Function, group: Any) -> str:
    """Run a matrix step and say what did the work."""
    used = ["numpy"]
    olds = {name: getattr(matrix_kernels, name) for name in COMPILED}

    def noting(kernel: Function) -> Function:
        def noted(*given: Any) -> Any:
            used[0] = "compiled"
            return kernel(*given)

        return noted

    for name, kernel in olds.items():
        setattr(matrix_kernels, name, noting(kernel))
    try:
        step(group)
    finally:
        for name, kernel in olds.items():
            setattr(matrix_kernels, name, kernel)
    return used[0]
