"""Cold blocks: code that rarely runs stands after the kernel's end. The loop around it then passes only one branch.

    as written                        as placed
        s_cbranch_vccz skip               s_cbranch_vccnz seldom_1
        ...                           skip:
    skip:                                 ...
                                          s_endpgm
                                      seldom_1:
                                          ...
                                          s_branch skip

Scalar code before the branch computes what the branch tests. It stays where it is.

Equal blocks of a pipeline's two loops become one, for copies of one phase: each copy's branch leads to a stub that keeps the copy's number
in an SGPR, and the block ends with a branch for each number. The block first waits for the loads in flight, if the code after it would wait
for more without that. Analyses take every way back for possible. Between steady copies of one phase that makes no difference to them: the
same buffers are read and filled around the block, between the same barriers. Copies of the drain share up to its last barrier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from asmgen.author.step.effects import Tag
from asmgen.isa.check import resolve
from asmgen.isa.codecost import DWORD, code_bytes, shares
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import Operand, Symbol, Waitcnt
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Item, Label, Region

_OPPOSITES = (("s_cbranch_scc0", "s_cbranch_scc1"), ("s_cbranch_vccz", "s_cbranch_vccnz"), ("s_cbranch_execz", "s_cbranch_execnz"))
OPPOSITE = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
"""For each conditional branch the one that is taken in all other cases."""

SETTLES = "so that no load is in flight on the way back"
"""The comment of the wait with which a shared block begins. Nothing in the block needs it; the code after it may wait for less."""
_STUB, _BACK, _SETTLE = (count * DWORD for count in (2, 2, 1))
"""Bytes of a shared block's stubs, of what goes back to each but the last one, and of its wait."""


def check_block(name: str, items: Sequence[Item]) -> None:
    """Raises AsmgenError for a block with a second entry or exit, or with a barrier."""
    labels = {item.name for item in items if isinstance(item, Label)}
    for item in items:
        if not isinstance(item, Instruction):
            continue
        if item.target is not None and item.target not in labels:
            raise AsmgenError(f"block {name!r} branches to {item.target!r}, which stands outside: a block has one exit, after its last "
                              f"instruction (its labels: {', '.join(sorted(labels)) or 'none'})", item.where())
        if item.name == "s_barrier" or item.ends_block and item.name != "s_branch":
            raise AsmgenError(f"block {name!r} holds {item.name}; a block has neither a barrier nor an end", item.where())


def check_cold_block(name: str, items: Sequence[Item]) -> None:
    """Raises AsmgenError for a block that cannot be cold. A cold block begins with a conditional branch to its last item; only scalar code
    may stand before that branch."""
    last = items[-1] if items else None
    first = next((item for item in items if not _stays(item)), last)
    if not isinstance(first, Instruction) or first.name not in OPPOSITE:
        found = f"{first} stands there" if items else "it is empty"
        raise AsmgenError(f"cold block {name!r} must begin with the conditional branch that skips it "
                          f"({', '.join(sorted(OPPOSITE))}); only scalar code may stand before it, but {found}",
                          first.where() if isinstance(first, Instruction) else "")
    if not isinstance(last, Label) or first.target != last.name:
        raise AsmgenError(f"cold block {name!r}: {first} must skip all of it, so its label must be the block's last item, which is "
                          f"{last.name + ':' if isinstance(last, Label) else last}", first.where())


def _stays(item: Item) -> bool:
    """Whether it may stand before the branch."""
    return isinstance(item, Instruction) and item.opcode.group == "salu"


@dataclass(frozen=True)
class Sharing:
    """Items `first` to `last` - 1 may share cold blocks: `room` is an SGPR that nothing else uses there. No block in `apart` (numbers of
    its first item) is shared."""

    first: int
    last: int
    room: Reg
    apart: frozenset[int] = frozenset()

    def holds(self, position: int) -> bool:
        """Whether the block whose branch has that position may be shared."""
        return self.first <= position < self.last and position not in self.apart


@dataclass(frozen=True)
class _Moved:
    """A cold block: its label, its branch, the items after that and the label of what follows it. `position` is the branch's."""

    name: str
    branch: Instruction
    tag: Tag
    body: tuple[tuple[Item, Tag], ...]
    back: str
    position: int

    def text(self) -> tuple[object, ...]:
        """Equal for blocks that do the same: its labels by number."""
        labels = {item.name: number for number, (item, _) in enumerate(self.body) if isinstance(item, Label)} | {self.back: -1}
        return tuple([(item.name, item.form, tuple([labels.get(operand.name, operand) if isinstance(operand, Symbol) else operand
                                                    for operand in item.operands]), tuple(item.modifiers.items()))
                      if isinstance(item, Instruction) else number for number, (item, _) in enumerate(self.body)])


def cold_branches(items: Sequence[Item], tags: Sequence[Tag]) -> list[int]:
    """The positions of the branches that skip cold blocks."""
    return [position for position, (item, tag) in enumerate(zip(items, tags, strict=True))
            if tag.cold and isinstance(item, Instruction) and item.name in OPPOSITE]


def move_cold_blocks(items: Sequence[Item], tags: Sequence[Tag], fresh: Callable[[str], str], arch: str,
                     shared: Sequence[Sharing] = ()) -> tuple[list[Item], list[Tag]]:
    """Items and their tags, with the cold blocks moved after the kernel's end. `fresh` makes a label of a name.

    Raises AsmgenError if the last instruction is not s_endpgm: control would fall into the cold blocks.
    """
    stay: list[tuple[Item, Tag]] = []
    blocks: list[_Moved] = []
    position = 0
    while position < len(items):
        item, tag = items[position], tags[position]
        if not (tag.cold and isinstance(item, Instruction) and item.name in OPPOSITE):
            stay.append((item, tag))
            position += 1
            continue
        end = next(at for at in range(position, len(items)) if isinstance(label := items[at], Label) and label.name == item.target)
        inside = tag._replace(cold=False)
        name = fresh(re.sub(r"[^A-Za-z0-9_]", "_", _name(tag)))
        stay += [(_branch(arch, OPPOSITE[item.name], name, item), inside), (items[end], inside)]
        blocks.append(_Moved(name, item, inside, tuple([(one, inside) for one in items[position + 1:end]]), str(item.target), position))
        position = end + 1
    if blocks:
        final = next(item for item, _ in reversed(stay) if isinstance(item, Instruction))  # there is at least the branch of a block
        if final.name != "s_endpgm":
            raise AsmgenError(f"cold block {_name(blocks[0].tag)!r} goes after s_endpgm, but the kernel's last instruction is "
                              f"{final.text}", final.where())
        stay.append((Region("cold blocks"), Tag("")))
    for group, room in _groups(blocks, shared):
        stay += _one(group[0], arch) if room is None else _together(group, room, fresh, arch)
    return [item for item, _ in stay], [tag for _, tag in stay]


def _groups(blocks: Sequence[_Moved], shared: Sequence[Sharing]) -> list[tuple[list[_Moved], Reg | None]]:
    """The blocks, equal ones together where that pays, with the SGPR for their number."""
    found: dict[object, tuple[list[_Moved], Reg | None]] = {}
    for block in blocks:
        number, sharing = next(((number, one) for number, one in enumerate(shared) if one.holds(block.position)), (-1, None))
        key = block.position if sharing is None else (number, block.tag.phase, block.tag.ordinal, block.text())
        found.setdefault(key, ([], None if sharing is None else sharing.room))[0].append(block)
    return [one for group, room in found.values() for one in _sharing(group, room)]


def _sharing(group: list[_Moved], room: Reg | None) -> list[tuple[list[_Moved], Reg | None]]:
    """Equal blocks together where that takes less text, else each alone."""
    size = sum(code_bytes(item.name, item.form, item.operands) for item, _ in group[0].body if isinstance(item, Instruction))
    if room is not None and shares(len(group), size + DWORD, _STUB, _BACK, _SETTLE):
        return [(group, room)]
    return [([block], None) for block in group]


def _one(block: _Moved, arch: str) -> list[tuple[Item, Tag]]:
    """A block of its own."""
    leaves = _branch(arch, "s_branch", block.back, block.branch)
    return [(Label(block.name, block.branch.source), block.tag), *block.body, (leaves, block.tag)]


def _together(group: Sequence[_Moved], room: Reg, fresh: Callable[[str], str], arch: str) -> list[tuple[Item, Tag]]:
    """Equal blocks as one, entered through stubs."""
    first, last = group[0], group[-1]
    label = fresh(f"shared_{first.name.rstrip('0123456789')}".rstrip("_"))
    found: list[tuple[Item, Tag]] = []
    for number, block in enumerate(group):
        found += [(Label(block.name, block.branch.source), block.tag), (_like(arch, "s_mov_b32", (room, number), block.branch), block.tag)]
        if block is not last:
            found.append((_branch(arch, "s_branch", label, block.branch), block.tag))
    found += [(Label(label, first.branch.source), first.tag),
              (replace(_like(arch, "s_waitcnt", (Waitcnt(vmcnt=0),), first.branch), comment=SETTLES), first.tag), *first.body]
    for number, block in enumerate(group[:-1]):
        found += [(_like(arch, "s_cmp_eq_u32", (room, number), first.branch), first.tag),
                  (_branch(arch, "s_cbranch_scc1", block.back, first.branch), first.tag)]
    return [*found, (_branch(arch, "s_branch", last.back, first.branch), first.tag)]


def _name(tag: Tag) -> str:
    return tag.block.partition("#")[0]


def _branch(arch: str, name: str, label: str, like: Instruction) -> Instruction:
    """A branch of that name in the position of another one."""
    return _like(arch, name, (Symbol(label),), like)


def _like(arch: str, name: str, operands: tuple[Operand, ...], like: Instruction) -> Instruction:
    """An instruction with the author's line of another one."""
    row = opcode(name)
    return replace(like, opcode=row, form=resolve(row, operands, {}, arch), operands=operands)
