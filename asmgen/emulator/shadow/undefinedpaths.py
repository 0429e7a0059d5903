"""Before a launch: which registers may be read before they were written, in a lane that is active then. Only those need following.

A walk over the program keeps, for the current EXEC and for every scalar pair that holds lanes, the registers that may be undefined
in some of these lanes. So what is written in a branch and read in that branch is not followed, and neither is what was written before
it. Where nothing is known of a mask, every vector register may be undefined in its lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.emulator.machine.ways import Ways
from asmgen.emulator.shadow.undefineduses import Use
from asmgen.isa.operands import Operand
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, SGPR_BIT, Reg
from asmgen.program.program import Instruction, Program

ALL, FULL = -1, -2
"""The mask of all 64 lanes, among the scalar registers; and in `UndefinedLanes.around`, that a pair is that mask."""
_EXEC = NAMED["exec"].index
_VECTORS = (1 << SGPR_BIT) - 1
_EVERYTHING = (1 << SGPR_BIT + 129) - 1


@dataclass(frozen=True)
class UndefinedLanes:
    """`active`: registers that may be undefined in some lane of EXEC (scalar ones: at all). `saved`: vector registers, by the scalar pair
    that holds the lanes. `same`, `within`: pairs that hold EXEC, or a superset of it; `around`: what a pair is within."""

    active: int
    saved: dict[int, int]
    same: frozenset[int]
    within: frozenset[int]
    around: dict[int, frozenset[int]]

    def joined(self, other: UndefinedLanes) -> UndefinedLanes:
        """What holds on both ways here."""
        saved = {key: value | other.saved[key] for key, value in self.saved.items() if key in other.saved}
        around = {key: value & other.around[key] for key, value in self.around.items() if key in other.around}
        return UndefinedLanes(self.active | other.active, saved, self.same & other.same, self.within & other.within, around)

    def of(self, operand: Operand) -> int:
        """The vector registers that may be undefined in the lanes that a 64-bit operand names."""
        if isinstance(operand, Reg) and operand.file == "s":
            return self.active & _VECTORS if operand.index == _EXEC else self.saved.get(operand.index, _VECTORS)
        return 0 if operand == 0 else self.saved[ALL]


def followed(program: Program, uses: Sequence[Use], defined: int, entry: int, full: bool) -> int:
    """The registers worth following: those that may be read undefined, and what is made from them. `full`: waves start with all lanes."""
    ways = Ways(program)
    if entry >= len(uses):
        return 0
    begin = ways.piece_of[entry]
    start = frozenset({ALL}) if full else frozenset[int]()
    entries = {begin: UndefinedLanes(_EVERYTHING & ~defined, {ALL: _VECTORS & ~defined}, start, frozenset({ALL}), {})}
    interesting = 0
    pending = {begin}
    while pending:
        number = min(pending)
        pending.remove(number)
        lanes = entries[number]
        piece = ways.pieces[number]
        for position in range(piece.first, piece.last + 1):
            use = uses[position]
            read = use.reads & (lanes.active if use.by_lane or not use.reads & _VECTORS else lanes.active | lanes.saved[ALL])
            if read:
                interesting |= read | use.writes
            lanes = _after(lanes, program.instructions[position], use, bool(read))
        for successor in ways.following(number, True):
            known = entries.get(successor)
            joined = lanes if known is None else known.joined(lanes)
            if joined != known:
                entries[successor] = joined
                pending.add(successor)
    return interesting


def _after(lanes: UndefinedLanes, instruction: Instruction, use: Use, undefined: bool) -> UndefinedLanes:
    """After an instruction that reads something undefined, or does not."""
    active, saved = lanes.active, lanes.saved
    if undefined:
        active |= use.writes
        if use.writes & _VECTORS:
            saved = {key: value | use.writes & _VECTORS for key, value in saved.items()}
    else:
        settled = use.writes & ~use.keeps
        active &= ~settled
        if settled & _VECTORS and (lanes.same or not use.by_lane):
            keys = lanes.same if use.by_lane else saved.keys()
            saved = {key: value & ~settled if key in keys else value for key, value in saved.items()}
    lanes = UndefinedLanes(active, saved, lanes.same, lanes.within, lanes.around)
    if instruction.writes >> SGPR_BIT:
        return _masks(lanes, instruction)
    return lanes


def _masks(lanes: UndefinedLanes, instruction: Instruction) -> UndefinedLanes:
    """After an instruction that writes scalar registers: what is known of the lanes that they hold."""
    name, operands = instruction.name, instruction.operands
    destination = operands[0] if operands else None
    held = lanes.active & _VECTORS
    here = lanes.same | lanes.within
    made: int | None = None  # of the destination's lanes
    inside: frozenset[int] = frozenset({ALL})
    if name.startswith("v_cmp") or name.endswith("saveexec_b64"):
        made, inside = held, here
    elif name == "s_mov_b64" and isinstance(operands[1], Reg | int):
        made = lanes.of(operands[1])
        if isinstance(operands[1], Reg):
            inside = here if operands[1].index == _EXEC else lanes.around.get(operands[1].index, inside)
    elif name in ("s_and_b64", "s_or_b64", "s_xor_b64", "s_andn2_b64"):
        first, second = lanes.of(operands[1]), lanes.of(operands[2])
        made = {"and": first & second, "andn2": first}.get(name[2:-4], first | second)
        first_exec, second_exec = (isinstance(operand, Reg) and operand.index == _EXEC for operand in operands[1:3])
        if first_exec and name in ("s_and_b64", "s_andn2_b64") or second_exec and name == "s_and_b64":
            inside = here
    written = instruction.writes >> SGPR_BIT
    saved = {key: value for key, value in lanes.saved.items() if key == ALL or not written >> key & 3}
    around = {key: value for key, value in lanes.around.items() if not written >> key & 3}
    gone = frozenset(key for key in lanes.saved if key not in saved)
    same, within = lanes.same - gone, lanes.within - gone
    around = {key: value - gone for key, value in around.items()}
    pair = isinstance(destination, Reg) and destination.file == "s" and destination.count == 2 and destination.index != _EXEC
    if pair and made is not None:
        assert isinstance(destination, Reg)
        saved[destination.index], around[destination.index] = made, inside - gone
        if name.endswith("saveexec_b64") or name == "s_mov_b64" and isinstance(operands[1], Reg) and operands[1].index == _EXEC:
            same, within = same | {destination.index}, within | {destination.index}
            if ALL in same:
                around[destination.index] |= {FULL}
    if not written >> _EXEC & 3:
        return UndefinedLanes(lanes.active, saved, same, within, around)
    return _exec_written(UndefinedLanes(lanes.active, saved, same, within, around), lanes, instruction, made)


def _exec_written(lanes: UndefinedLanes, before: UndefinedLanes, instruction: Instruction, made: int | None) -> UndefinedLanes:
    """After an instruction that writes EXEC; `made` is what is known of its result where it is the destination."""
    name, operands = instruction.name, instruction.operands
    scalars = lanes.active & ~_VECTORS
    held, here = before.active & _VECTORS, lanes.within | lanes.same
    gone = frozenset(key for key in here if key not in lanes.saved)
    here -= gone
    if name.startswith("v_cmpx") or name in ("s_and_saveexec_b64", "s_andn1_saveexec_b64"):
        return UndefinedLanes(lanes.active, lanes.saved, frozenset(), here, lanes.around)
    if name == "s_or_saveexec_b64":
        return UndefinedLanes(scalars | held | before.of(operands[1]), lanes.saved, frozenset(), frozenset({ALL}), lanes.around)
    if made is None or not isinstance(operands[0], Reg) or operands[0].count != 2:
        return UndefinedLanes(scalars | held | lanes.saved[ALL], lanes.saved, frozenset(), frozenset({ALL}), lanes.around)
    sources = [operand.index for operand in operands[1:] if isinstance(operand, Reg)]
    shrinks = name in ("s_and_b64", "s_andn2_b64") and _EXEC in sources[:1 if name == "s_andn2_b64" else 2]
    if shrinks:
        return UndefinedLanes(scalars | made & held, lanes.saved, frozenset(), here, lanes.around)
    pair = next((index for index in sources if index != _EXEC), None)
    restores = name == "s_mov_b64" or name == "s_or_b64" and _EXEC in sources and pair in before.within | before.same
    if restores and pair is not None and pair in lanes.saved:
        outer = lanes.around.get(pair, frozenset({ALL}))
        same = frozenset({pair, ALL} if FULL in outer else {pair})
        return UndefinedLanes(scalars | lanes.saved[pair], lanes.saved, same, (outer | {pair}) - {FULL}, lanes.around)
    if name == "s_mov_b64" and operands[1] == -1:
        return UndefinedLanes(scalars | made, lanes.saved, frozenset({ALL}), frozenset({ALL}), lanes.around)
    return UndefinedLanes(scalars | made, lanes.saved, frozenset(), frozenset({ALL}), lanes.around)
