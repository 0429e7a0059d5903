"""Which mnemonics the emulator executes: those that a plain instance of can be bound."""

from __future__ import annotations

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import PLAIN, UNBINDABLE, bind
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import Machine
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.isa.arch import architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.opcode import Opcode, OperandSpec
from asmgen.isa.operands import OFF, GprIdx, HwReg, Operand, SendMsg, Symbol, Waitcnt
from asmgen.isa.registers import Reg
from asmgen.isa.table import names, opcode
from asmgen.program.program import Instruction

_REGISTERS = 256
_FILES = {"v": "v", "a": "a", "s": "s", "S": "s", "M": "s"}
_TARGET = "here"


def executed(arch: str) -> frozenset[str]:
    """Every mnemonic of an architecture that has semantics."""
    return frozenset(name for name in names(arch) if has_semantics(opcode(name), arch))


def has_semantics(row: Opcode, arch: str) -> bool:
    """Whether the emulator can bind a plain instance of a mnemonic."""
    instruction = plain_instance(row, arch)
    if instruction.is_branch or row.name in PLAIN or row.name == "s_getpc_b64":
        return True
    machine = Machine(architecture(arch), 1, 1, 2 * _REGISTERS, _REGISTERS, 1024, Memory())
    counters, findings = Counters(1), Findings()
    context = Context(machine, counters, findings, Deliveries(machine, counters), None)
    try:
        bind(0, instruction, machine, context, LdsContext(machine, counters, None, None))
    except (AsmgenError, *UNBINDABLE):
        return False
    return True


def plain_instance(row: Opcode, arch: str) -> Instruction:
    """An instruction of that mnemonic in its first form on the architecture, with no modifiers but those that select the form.

    Its registers differ, except that a vector instruction reads one scalar register only.
    """
    form = next(form for form in row.forms if not form.archs or arch in form.archs)
    counts = {"v": 0, "a": 0, "s": 0}
    operands = tuple(_operand(slot, counts, row.name.startswith("v_")) for slot in form.operands)
    modifiers = {name: values[-1] for name, values in form.when if values[0] or values[-1]}
    return Instruction(row, form, operands, modifiers)


def _operand(slot: OperandSpec, counts: dict[str, int], vector: bool) -> Operand:
    for letter in slot.accepts:
        file = _FILES.get(letter)
        if file is not None:
            align = 1 if slot.width == 1 else 2 if slot.width == 2 or file != "s" else 4
            first = -(-counts[file] // align) * align
            shared = file == "s" and vector and not slot.writes
            counts[file] = counts[file] if shared else first + slot.width
            return Reg(file, first, slot.width)
    fixed: dict[str, Operand] = {"c": Reg("s", 106, 2), "o": OFF, "b": Symbol(_TARGET), "w": Waitcnt(0), "h": HwReg(1), "t": SendMsg(1),
                                 "g": GprIdx(1), "n": slot.low, "i": 0, "l": 100, "k": 100}
    return next((fixed[letter] for letter in slot.accepts if letter in fixed), 0)

