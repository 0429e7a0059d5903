"""Evaluating the rows of waitstates.py: what one instruction is to them, and how many wait states a pair of instructions needs.

`HazardModel.facts` describes one instruction (classes and register masks by role), `HazardModel.needs` says which rows
hold between two descriptions. There is no walking of code here: the passes (asmgen.hazards) and the emulator each do their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from asmgen.isa.opcode import Form, Opcode, is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.operands import HwReg, Modified, Operand, Special
from asmgen.isa.registers import NAMED, SGPR_BIT, Reg
from asmgen.isa.waitstates import (
    BYTE_DESTINATION,
    CARRY_IN,
    MODE_REGISTER,
    NO_OP_SEL,
    NOP_LIMIT,
    PACKED_LOW_DEFAULT,
    RULES,
    SHIFTED_ALWAYS,
    TRAPSTS_REGISTER,
    VSKIP_BIT,
    WIDE_DATA,
    WaitRule,
)

VECTOR_FILE = (1 << SGPR_BIT) - 1
"""Mask of every VGPR and AGPR."""
_EXEC, _VCC, _M0 = NAMED["exec"].mask, NAMED["vcc"].mask, NAMED["m0"].mask
_ZERO_FLAGS = {"src_vccz": _VCC, "src_execz": _EXEC}


class Subject(Protocol):
    """What the model looks at; asmgen.program.Instruction is one."""

    @property
    def opcode(self) -> Opcode: ...
    @property
    def form(self) -> Form: ...
    @property
    def operands(self) -> tuple[Operand, ...]: ...
    @property
    def modifiers(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class HazardFacts:
    """One instruction as the rows see it.

    `kind` numbers its classes and passes: instructions of one kind differ in registers only. `masks` are its registers by role
    (waitstates.ROLES), without the empty ones. `states` is how many wait states it is itself.
    """

    kind: int
    masks: Mapping[str, int]
    states: int
    window: int


@dataclass(frozen=True)
class Need:
    """One row that holds for a pair: `states` wait states, because of the registers in `mask` (0 where the row names none)."""

    rule: WaitRule
    states: int
    mask: int


@dataclass(frozen=True)
class _Kind:
    """What the choice of rows depends on, besides registers: classes, matrix kind and passes, opcode and encoding of a dot product."""

    classes: frozenset[str]
    matrix: str
    passes: int
    dot: tuple[str, str] | None


@dataclass(frozen=True)
class _Candidate:
    """A row that two kinds allow; `same` says whether D and SrcC must be the same registers, must not be, or may be (None)."""

    rule: WaitRule
    states: int
    producer: str
    consumer: str
    same: bool | None


@dataclass
class HazardModel:
    """The rows of one architecture. `match_llvm` takes LLVM 22's own rows alone, its artefacts too, and none that only the ISA text has.

    An instance remembers the kinds that it has met, so one serves a whole program (or many).
    """

    arch: str
    match_llvm: bool = False
    _numbers: dict[_Kind, int] = field(default_factory=dict)
    _kinds: list[_Kind] = field(default_factory=list)
    _windows: list[int] = field(default_factory=list)
    _opcodes: dict[tuple[Opcode, Form], tuple[frozenset[str], str]] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], tuple[_Candidate, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.match_llvm:
            self._rules = tuple(rule for rule in RULES if rule.asked_by != "isa" and self.arch in rule.archs)
        else:
            self._rules = tuple(rule for rule in RULES if not rule.artefact and self.arch in rule.archs)

    def facts(self, instruction: Subject) -> HazardFacts:
        """Describe one instruction."""
        opcode = instruction.opcode
        name = opcode.name
        if name == "s_nop":
            count = instruction.operands[0]
            states = (count & NOP_LIMIT - 1) + 1 if isinstance(count, int) else 1
            return HazardFacts(self._number(_NOTHING), {}, states, 0)
        if "mfma" in opcode.classes:
            kind, masks = self._matrix(instruction)
        elif name.startswith("v_"):
            kind, masks = _vector(instruction)
        elif opcode.encoding in ("SMEM", "SOPP") and not opcode.classes & _SCALAR_CLASSES:
            return HazardFacts(self._number(_NOTHING), {}, 1, 0)
        elif name.startswith("s_"):
            kind, masks = _scalar(instruction)
        else:
            kind, masks = _memory(instruction)
        number = self._number(kind)
        return HazardFacts(number, {role: mask for role, mask in masks.items() if mask}, 1, self._windows[number])

    def needs(self, producer: HazardFacts, consumer: HazardFacts) -> list[Need]:
        """Every row that holds where `consumer` comes behind `producer`, whatever lies between."""
        candidates = self.candidates(producer.kind, consumer.kind)
        if not candidates:
            return []
        found = []
        for candidate in candidates:
            if candidate.producer == "any":
                found.append(Need(candidate.rule, candidate.states, 0))
                continue
            first, second = producer.masks.get(candidate.producer, 0), consumer.masks.get(candidate.consumer, 0)
            common = first & second
            if common and (candidate.same is None or (first == second) is candidate.same):
                found.append(Need(candidate.rule, candidate.states, common))
        return found

    def states(self, producer: HazardFacts, consumer: HazardFacts) -> int:
        """The wait states that must lie between the two; 0 where none need to."""
        if not self.candidates(producer.kind, consumer.kind):
            return 0
        return max((need.states for need in self.needs(producer, consumer)), default=0)

    def classes(self, facts: HazardFacts) -> frozenset[str]:
        """The classes (waitstates.CLASSES) of a described instruction."""
        return self._kinds[facts.kind].classes

    def passes(self, facts: HazardFacts) -> int:
        """How many issue slots a described instruction keeps the matrix core busy; 0 for one that is no matrix instruction."""
        return self._kinds[facts.kind].passes

    def candidates(self, producer: int, consumer: int) -> tuple[_Candidate, ...]:
        """The rows that two kinds of instruction allow."""
        found = self._pairs.get((producer, consumer))
        if found is None:
            found = self._pairs[producer, consumer] = self._select(self._kinds[producer], self._kinds[consumer])
        return found

    def _number(self, kind: _Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            self._windows.append(max((rule.states_on(self.arch, kind.passes) for rule in self._rules
                                      if rule.producer in kind.classes), default=0))
        return number

    def _select(self, producer: _Kind, consumer: _Kind) -> tuple[_Candidate, ...]:
        chosen = []
        for rule in self._rules:
            if rule.producer not in producer.classes or rule.consumer not in consumer.classes:
                continue
            states = rule.states_on(self.arch, producer.passes)
            alike = (producer.matrix, producer.passes) == (consumer.matrix, consumer.passes)
            same: bool | None = None
            if rule.relation in ("identical", "identical_other"):
                if alike is not (rule.relation == "identical"):
                    continue
                same = True
            elif rule.relation == "overlapping":
                same = False
            elif rule.relation and (producer.dot == consumer.dot) is not (rule.relation == "same_opcode"):
                continue
            if states > 0:
                chosen.append(_Candidate(rule, states, *rule.roles, same))
        return tuple(chosen)

    def _matrix(self, instruction: Subject) -> tuple[_Kind, dict[str, int]]:
        opcode, modifiers = instruction.opcode, instruction.modifiers
        row = MFMA[opcode.name]
        passes = row.passes_on(self.arch, int(modifiers.get("cbsz") or 0), int(modifiers.get("blgp") or 0))
        classes = {"mfma", "vector", "vector_or_dma", "not_trans", row.kind}
        if row.kind == "dgemm":
            classes.add("dgemm4" if row.m == 4 else "dgemm16")
        elif passes == 2:
            classes.add("two_pass")
        if row.kind != "xdl":
            classes.add("sdgemm")
        result, *sources = (_mask(operand) for operand in instruction.operands)
        accumulator = result if row.sparse else sources[2]
        others = sources[0] | sources[1]
        for mask in sources[2 if row.sparse else 3:]:
            others |= mask
        inputs = accumulator | others
        masks = {"write": result, "srcc": accumulator, "srcab": others, "inputs": inputs, "read": inputs,
                 "touch": inputs | result, "exec": _EXEC}
        return _Kind(frozenset(classes), row.kind, passes, None), masks


_NOTHING = _Kind(frozenset(), "", 0, None)
_SCALAR_CLASSES = frozenset({"sendmsg", "ttracedata"})


def _mask(operand: Operand) -> int:
    """The registers that an operand names, without those behind special sources."""
    if isinstance(operand, Reg):
        return operand.mask
    if isinstance(operand, Modified) and isinstance(operand.value, Reg):
        return operand.value.mask
    return 0


def _implicit(names: frozenset[str]) -> int:
    mask = 0
    for name in names:
        mask |= NAMED[name].mask
    return mask


def _vector(instruction: Subject) -> tuple[_Kind, dict[str, int]]:
    opcode, form, modifiers = instruction.opcode, instruction.form, instruction.modifiers
    name, table = opcode.name, opcode.classes
    classes = {"valu", "vector", "vector_or_dma"}
    classes.add("trans" if "trans" in table else "not_trans")
    classes.add("dot" if "dot" in table else "valu_no_dot")
    lane_access = "readlane" in table or "writelane" in table
    if lane_access:
        classes.add("lane_access")
    if "readlane" in table:
        classes.add("read_lane")
    for ours, theirs in (("fma_f64", "fma64"), ("permlane_swap", "permlane_swap"), ("div_fmas", "div_fmas")):
        if theirs in table:
            classes.add(ours)
    if form.encoding == "DPP":
        classes.add("dpp")
    if name == "v_fma_mixhi_f16":
        classes.add("mixhi")
    if "partial_dst" in table and name.startswith("v_cvt_"):
        classes.add("part_convert")
    if _shifted(opcode, form, modifiers):
        classes.add("shifted")
    if form.encoding == "VOP3P" and not name.startswith(NO_OP_SEL):
        high = modifiers.get("op_sel_hi")
        if high[0] if high else not name.startswith(PACKED_LOW_DEFAULT):
            classes.add("packed_default")
    write, read, scalar, carry, lane, zero, fused = _implicit(opcode.writes), 0, 0, 0, 0, 0, 0
    first_sources = across = 0
    for place, operand in zip(form.operands, instruction.operands, strict=True):
        mask = _mask(operand)
        if place.writes:
            write |= mask
        # What a partial write keeps of its destination (SDWA, op_sel) is no read to any row: overwriting is what they name.
        if not place.reads:
            continue
        if isinstance(operand, Special):
            zero |= _ZERO_FLAGS.get(operand.name, 0)
        vector = mask & VECTOR_FILE
        read |= vector
        if place.name == "src0" or place.name == "src1":
            first_sources |= vector
            if place.name == "src0":
                across = vector
        elif place.name == "src2" or place.writes:
            fused |= vector
        if vector == mask:
            continue
        if lane_access and place.name == "src1":
            lane |= mask
        elif place.name == "vcc" or place.name == "src2" and name in CARRY_IN:
            carry |= mask
        else:
            scalar |= mask
    if "vcc" in opcode.reads:
        carry |= _VCC
    vector_write = write & VECTOR_FILE
    if write != vector_write:
        classes.add("valu_scalar")
    if "dpp" in classes:
        # The destination is a source as well: lanes that get nothing keep the old value.
        read |= vector_write
    masks = {"write": write, "read": read, "touch": read | vector_write, "constant": scalar | lane, "carry": carry, "lane": lane,
             "vcc": _VCC if (scalar | carry | lane) & _VCC else 0, "zero_flag": zero, "exec": _EXEC,
             "source": read if "read_lane" in classes else 0, "dpp": read if "dpp" in classes else 0,
             "dpp_source": across if "dpp" in classes else 0, "srcab": first_sources if "dot" in table else 0, "srcc": fused if "dot" in table else 0}
    dot = (name, form.encoding) if "dot" in table else None
    return _Kind(frozenset(classes), "", 0, dot), masks


def _shifted(opcode: Opcode, form: Form, modifiers: Mapping[str, Any]) -> bool:
    """Whether the result goes to another place in the register than the unit makes it in."""
    if form.encoding == "SDWA":
        return "dst_sel" in form.modifiers and modifiers.get("dst_sel", "DWORD") != "DWORD"
    if form.encoding != "VOP3" or "op_sel" not in form.modifiers:
        return False
    if opcode.name.startswith(SHIFTED_ALWAYS):
        return True
    select = tuple(modifiers.get("op_sel") or ())
    if opcode.name.startswith(BYTE_DESTINATION):
        return any(select[2:])
    sources = sum(place.name.startswith("src") for place in form.operands)
    return any(select[sources:sources + 1])


def _scalar(instruction: Subject) -> tuple[_Kind, dict[str, int]]:
    opcode = instruction.opcode
    table = opcode.classes
    classes: set[str] = set()
    masks: dict[str, int] = {"write": _implicit(opcode.writes)}
    for place, operand in zip(instruction.form.operands, instruction.operands, strict=True):
        if place.writes:
            masks["write"] |= _mask(operand)
        if "h" in place.accepts:
            register = operand if isinstance(operand, HwReg) else HwReg.decode(operand) if isinstance(operand, int) else HwReg(0)
            # Hardware registers are no registers of a file: a bit a number serves.
            masks["hwreg"] = 1 << register.number
            whole = register.offset == 0 and register.size == 32
            if "setreg" in table and register.number == MODE_REGISTER and not whole \
                    and register.offset <= VSKIP_BIT < register.offset + register.size:
                classes.add("setreg_vskip")
    if masks["write"] & _M0:
        classes.add("salu")
    classes |= {name for name in ("setreg", "getreg", "rfe", "setvskip") if name in table}
    if "setvskip" in table:
        masks["mode"] = 1 << MODE_REGISTER
    if "rfe" in table:
        masks["trapsts"] = 1 << TRAPSTS_REGISTER
    if table & {"sendmsg", "ttracedata", "movrel"}:
        classes.add("m0_reader")
        masks["m0"] = _M0
    return _Kind(frozenset(classes), "", 0, None), masks


def _memory(instruction: Subject) -> tuple[_Kind, dict[str, int]]:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    classes = {"memory"}
    masks = {"write": 0, "read": 0, "scalar": 0, "data": 0}
    if opcode.encoding != "DS":
        classes.add("vmem")
        masks["exec"] = _EXEC
    soffset = False
    stores = opcode.memory is not None and opcode.memory.kind in ("store", "atomic")
    for place, operand in zip(instruction.form.operands, instruction.operands, strict=True):
        mask = _mask(operand)
        if place.writes:
            masks["write"] |= mask
        if not place.reads:
            continue
        masks["read"] |= mask & VECTOR_FILE
        masks["scalar"] |= mask & ~VECTOR_FILE
        if place.name == "soffset" and mask:
            soffset = True
        if stores and place.name == "vdata" and place.width > WIDE_DATA:
            masks["data"] = mask
    if masks["write"]:
        classes.add("load")
    if masks["data"]:
        classes.add("wide_store_soffset" if soffset else "wide_store")
    dma = is_lds_dma(opcode, instruction.form)
    if dma:
        classes |= {"lds_dma", "vector_or_dma"}
    if dma or opcode.classes & {"m0_lds", "gws"} or modifiers.get("gds"):
        classes.add("buffer_dma" if dma and opcode.encoding == "MUBUF" else "m0_reader")
        masks["m0"] = _M0
    masks["touch"] = masks["read"] | masks["write"]
    return _Kind(frozenset(classes), "", 0, None), masks
