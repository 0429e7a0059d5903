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
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from asmgen.author.step.effects import Tag
from asmgen.isa.check import resolve
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import Symbol
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Item, Label, Region

_OPPOSITES = (("s_cbranch_scc0", "s_cbranch_scc1"), ("s_cbranch_vccz", "s_cbranch_vccnz"), ("s_cbranch_execz", "s_cbranch_execnz"))
OPPOSITE = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
"""For each conditional branch the one that is taken in all other cases."""


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


def move_cold_blocks(items: Sequence[Item], tags: Sequence[Tag], fresh: Callable[[str], str], arch: str) -> tuple[list[Item], list[Tag]]:
    """Items and their tags, with the cold blocks moved after the kernel's end. `fresh` makes a label of a name.

    Raises AsmgenError if the last instruction is not s_endpgm: control would fall into the cold blocks.
    """
    stay: list[tuple[Item, Tag]] = []
    moved: list[tuple[Item, Tag]] = []
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
        moved += [(Label(name, item.source), inside), *((one, inside) for one in items[position + 1:end]),
                  (_branch(arch, "s_branch", str(item.target), item), inside)]
        position = end + 1
    if moved:
        final = next(item for item, _ in reversed(stay) if isinstance(item, Instruction))  # there is at least the branch of a block
        if final.name != "s_endpgm":
            raise AsmgenError(f"cold block {_name(moved[0][1])!r} goes after s_endpgm, but the kernel's last instruction is "
                              f"{final.text}", final.where())
        stay.append((Region("cold blocks"), Tag("")))
    both = stay + moved
    return [item for item, _ in both], [tag for _, tag in both]


def _name(tag: Tag) -> str:
    return tag.block.partition("#")[0]


def _branch(arch: str, name: str, label: str, like: Instruction) -> Instruction:
    """A branch of that name in the position of another one."""
    row, operands = opcode(name), (Symbol(label),)
    return replace(like, opcode=row, form=resolve(row, operands, {}, arch), operands=operands)
