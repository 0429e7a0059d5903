"""The algebra's rules for instructions: which of the files here says what an instruction does to elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.compiledsums import CompiledSum
from asmgen.emulator.algebra.elements import WIDTHS, Elements
from asmgen.emulator.algebra.floatrules import PAIRS, Given, Rule, of_the_run, rule_of
from asmgen.emulator.algebra.formatrules import bind_conversion
from asmgen.emulator.algebra.halfrules import bind_halves
from asmgen.emulator.algebra.matrixrules import bind_matrix
from asmgen.emulator.algebra.residues import Constants, Residues
from asmgen.emulator.algebra.sixrules import bind_six
from asmgen.emulator.algebra.sources import as_floats, numbers_of, word_of
from asmgen.emulator.algebra.words import Word, Words
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import Handles, WordCells
from asmgen.emulator.carried.comparisons import Comparisons
from asmgen.emulator.carried.handleatomics import Change
from asmgen.emulator.carried.operandhandles import OperandSource, at_top, destination, element_writer, slots_of, writer
from asmgen.emulator.carried.tracker import Rules
from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.packedbind import op_bits, pair_sides
from asmgen.emulator.semantics.salu import scalar_sources
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.emulator.shadow.shadowvector import blank
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Function = Callable[..., Any]


class AlgebraRules(Rules):
    """The algebra as a domain of `carried.tracker`."""

    table: Elements

    def __init__(self, constants: Constants) -> None:
        self.table = Elements(constants)
        self.words = Words(self.table)
        self.cells = WordCells()
        self.comparisons = Comparisons()

    def watch(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """How far apart the sides of comparisons are, which is the run's own affair."""
        return self.comparisons.note(instruction, position, carrier)

    def bind(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What an instruction that computes does to elements; None for one without a rule."""
        classes, name = instruction.opcode.classes, instruction.name
        if "mfma" in classes:
            return bind_matrix(instruction, carrier, self.table)
        if "salu" in classes:
            return self._scalar(instruction, carrier)
        if "valu" not in classes:
            return None
        if of_the_run(name):
            return self._of_the_run(instruction, carrier)
        means = self._integer(instruction)
        if means is not None:
            return self._vector(instruction, carrier, means)
        if name == "v_pack_b32_f16":
            return self._vector(instruction, carrier, lambda a, b: self.words.packed(a, b))
        if name.startswith("v_cvt_"):
            return bind_six(instruction, carrier, self.table) or bind_conversion(instruction, carrier, self.table)
        if name.startswith("v_pk_") and name.rpartition("_")[0] in PAIRS and name.endswith("_f32"):
            return self._pairs(instruction, carrier, PAIRS[name.rpartition("_")[0]])
        halves = bind_halves(instruction, carrier, self.table)
        if halves is not None:
            return halves
        found = rule_of(name)
        return self._float(instruction, carrier, *found) if found is not None else None

    def change(self, instruction: Instruction) -> Change | None:
        """Sums of floats in memory."""
        name, table, cells = instruction.name, self.table, self.cells
        kind = next((kind for kind, ends in (("f32", "add_f32"), ("bf16", "pk_add_bf16"), ("f16", "pk_add_f16"))
                     if name.removeprefix("ds_").removesuffix("_x2").replace("_rtn", "").endswith(ends)), None)
        if kind is None:
            return None
        width = WIDTHS[kind]

        def change(old: Handles, old_values: Any, data: Handles, values: Any) -> Handles:
            slots = []
            for low in range(0, 32, width):
                parts = []
                for handles, bits in ((old, old_values), (data, values)):
                    pattern = (bits >> np.uint32(low)).astype(f"u{width // 8}")
                    ids = cells.element(handles, (low + width) // 4 - 1)
                    parts.append(table.numbers(ids, kind, lambda pattern=pattern: as_floats(pattern, kind)))  # type: ignore[misc]
                slots.append(at_top(table.made(parts[0] + parts[1], kind), width // 4))
            return cells.joined(np.concatenate(slots, axis=-1))

        return change

    # ---- integers ----

    def _integer(self, instruction: Instruction) -> Function | None:
        means = meaning.vector_meaning(instruction.name, instruction.modifiers)
        if means is None:
            return None
        return lambda *words: means(self.words, *words)

    def _vector(self, instruction: Instruction, carrier: HandleCarrier, function: Function) -> Action:
        """An integer instruction of the vector ALU: by its meaning on words, where there are elements."""
        slots, cells = slots_of(instruction, carrier), carrier.cells
        place = instruction.form.operands[0]
        bits = 16 if place.type in ("u16", "i16", "b16") else 64 if place.type in ("u64", "i64", "b64") else 32
        clears = _cleared(instruction, carrier, first=1)
        put_one = destination(instruction, carrier, bits) if bits < 64 else None
        puts = [writer(instruction, carrier, n) for n in range(2 if bits == 64 else 0)]
        nothing = np.zeros((1, 1, bits // 4), np.uint32)

        def step(group: Group) -> None:
            words = [word_of(slot, group, cells) for slot in slots]
            result: Word | None = None
            if any(word.slots is not None for word in words):
                found = function(*(word.value if word.value.dtype == bool else word for word in words))
                result = found[0] if isinstance(found, tuple) else found
            clears(group)
            if put_one is not None:
                put_one(group, nothing if result is None or result.slots is None else result.slots)
            for number, put in enumerate(puts):
                put(group, _word_of(result, number, cells))

        return step

    def _scalar(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        name, machine, shadow, cells = instruction.name, carrier.machine, carrier.shadow, carrier.cells
        with_scc = name in meaning.WITH_SCC
        means = meaning.WITH_SCC.get(name) or meaning.SCALAR.get(name)
        place, target = instruction.form.operands[0], instruction.operands[0]
        if means is None or not isinstance(target, Reg):
            return _cleared(instruction, carrier)
        plain = blank(instruction)
        values, handles = scalar_sources(instruction, machine), [
            [fetch_scalar(shadow, _half(operand, n), "b32") for n in range(2 if "64" in spec.type else 1)]
            for spec, operand in list(zip(instruction.form.operands, plain.operands, strict=True))[1:]]
        if place.reads:
            values.insert(0, fetch_scalar(machine, target, place.type))
            handles.insert(0, [fetch_scalar(shadow, Reg("s", target.index + n), "b32") for n in range(2 if "64" in place.type else 1)])
        clears = _cleared(instruction, carrier)

        def word(group: Group, value: Any, parts: list[Any]) -> Word:
            value = np.asarray(value)
            found = [np.asarray(part(group), np.uint32) for part in parts]
            pattern = value.view(f"u{value.dtype.itemsize}")
            if not any(part.any() for part in found):
                return Word(pattern)
            return Word(pattern, np.concatenate([cells.expanded(part) for part in found], axis=-1)[..., :2 * pattern.dtype.itemsize])

        def step(group: Group) -> None:
            words = [word(group, fetch(group), parts) for fetch, parts in zip(values, handles, strict=True)]
            if not any(one.slots is not None for one in words):
                clears(group)
                return
            found = means(self.words, machine.scc[group.select], *words) if with_scc else means(self.words, *words)
            result = found[0] if isinstance(found, tuple) else found
            for number in range(2 if "64" in place.type else 1):
                shadow.scalar[target.index + number, group.select] = _word_of(result, number, cells)

        return step

    # ---- floats ----

    def _of_the_run(self, instruction: Instruction, carrier: HandleCarrier) -> Action:
        return _cleared(instruction, carrier)

    def _float(self, instruction: Instruction, carrier: HandleCarrier, rule: Rule, kind: str) -> Action:
        """An instruction with one float result."""
        if instruction.modifiers.get("clamp"):
            raise ValueError("a limited result")
        slots, cells, table = slots_of(instruction, carrier), carrier.cells, self.table
        mode, name = float_mode(carrier.machine.binding_mode), instruction.name
        factor = 1 if instruction.modifiers.get("mul") == 2 else 2 if instruction.modifiers.get("mul") == 4 else 0
        factor = -1 if instruction.modifiers.get("div") else factor
        put = element_writer(instruction, carrier, WIDTHS[kind])
        clears = _cleared(instruction, carrier, first=1)
        compiled = CompiledSum(instruction, slots, carrier, table) if CompiledSum.takes(instruction, slots) else None

        def step(group: Group) -> None:
            if compiled is not None and carrier.machine.work.pays(group.size * LANES) and (ids := compiled(group)) is not None:
                clears(group)
                put(group, ids)
                return
            sources = [_source(slot, group, table, cells) for slot in slots]
            numbers = rule(mode, name, sources)
            clears(group)
            put(group, table.made(numbers.scaled(factor) if factor else numbers, kind))

        return step

    def _pairs(self, instruction: Instruction, carrier: HandleCarrier, rule: Rule) -> Action:
        """v_pk_*_f32: two results, the second one of the sources' second registers where op_sel_hi does not say otherwise."""
        if instruction.modifiers.get("clamp"):
            raise ValueError("a limited result")
        plain = blank(instruction)
        modifiers, table, cells = instruction.modifiers, self.table, carrier.cells
        unsigned = {name: value for name, value in modifiers.items() if name not in ("neg_lo", "neg_hi")}
        values = pair_sides(instruction, carrier.machine)
        raws = pair_sides(_with(instruction, unsigned), carrier.machine)
        handles = pair_sides(_with(plain, unsigned), carrier.shadow)
        signs = [op_bits(modifiers, name, 0) for name in ("neg_lo", "neg_hi")]
        puts = [writer(instruction, carrier, side) for side in (0, 1)]
        mode, name = float_mode(carrier.machine.binding_mode), instruction.name

        def step(group: Group) -> None:
            results = []
            for side in (0, 1):
                sources = []
                for number, handle in enumerate(handles[side]):
                    ids = cells.element(np.asarray(handle(group)).view(np.uint32), 7)
                    raw = raws[side][number]
                    numbers = table.numbers(ids, "f32", lambda raw=raw: as_floats(raw(group), "f32"))  # type: ignore[misc]
                    sources.append(Given(values[side][number](group), -numbers if signs[side][number] else numbers))
                results.append(table.made(rule(mode, name, sources), "f32"))
            for put, ids in zip(puts, results, strict=True):
                put(group, ids)

        return step


def _with(instruction: Instruction, modifiers: dict[str, Any]) -> Instruction:
    from dataclasses import replace

    return replace(instruction, modifiers=modifiers)


def _source(slot: OperandSource, group: Group, table: Elements, cells: Any) -> Given:
    value = slot.value(group)
    if slot.type not in WIDTHS:
        return Given(value, Residues.missing(np.shape(value)))
    return Given(value, numbers_of(slot, group, table, cells))


def _word_of(result: Word | None, number: int, cells: Any) -> Handles:
    """The handles of a register of a result."""
    if result is None or result.slots is None:
        return np.zeros(1, np.uint32)
    slots = result.slots[..., 8 * number:8 * number + 8]
    if slots.shape[-1] < 8:
        slots = np.concatenate([slots, np.zeros((*slots.shape[:-1], 8 - slots.shape[-1]), np.uint32)], axis=-1)
    found: Handles = cells.joined(np.ascontiguousarray(slots))
    return found


def _half(operand: Any, number: int) -> Any:
    return Reg(operand.file, operand.index + number) if isinstance(operand, Reg) and operand.file == "s" else operand


def _cleared(instruction: Instruction, carrier: HandleCarrier, first: int = 0) -> Action:
    """All that is written holds numbers of the run: destinations from number `first` on have no elements."""
    shadow = carrier.shadow
    written = [operand for _, operand, _, writes in instruction.accesses if writes and isinstance(operand, Reg)][first:]
    vectors = [writer(instruction, carrier, n) for reg in written[:1] if reg.file in "va" and not first for n in range(reg.count)]
    scalars = [(reg.index, reg.index + reg.count) for reg in written if reg.file == "s"]
    nothing = np.zeros((1, 1), np.uint32)

    def step(group: Group) -> None:
        for put in vectors:
            put(group, nothing)
        for low, high in scalars:
            shadow.scalar[low:high, group.select] = 0

    return step
