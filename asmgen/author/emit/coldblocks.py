"""Blocks that stand aside: code that is seldom entered, behind the kernel's end, so that a loop around it goes past one branch.

    as written                        as placed
        s_cbranch_vccz skip               s_cbranch_vccnz seldom_1
        ...                           skip:
    skip:                                 ...
                                          s_endpgm
                                      seldom_1:
                                          ...
                                          s_branch skip

Scalar code in front of the branch, which makes what it tests, stays where it is.
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
"""The conditional branch that is taken where another one is not."""


def check_aside(name: str, items: Sequence[Item]) -> None:
    """Raises AsmgenError for a block that cannot stand aside: one that does not begin with a conditional branch to its last item, behind
    scalar code at most."""
    last = items[-1] if items else None
    first = next((item for item in items if not _stays(item)), last)
    if not isinstance(first, Instruction) or first.name not in OPPOSITE:
        found = f"{first} stands there" if items else "it is empty"
        raise AsmgenError(f"block {name!r} is to stand aside, so it begins with the conditional branch that skips it "
                          f"({', '.join(sorted(OPPOSITE))}), behind scalar code at most, but {found}",
                          first.where() if isinstance(first, Instruction) else "")
    if not isinstance(last, Label) or first.target != last.name:
        raise AsmgenError(f"block {name!r} is to stand aside, so {first} skips all of it: its label is the block's last item, which is "
                          f"{last.name + ':' if isinstance(last, Label) else last}", first.where())


def _stays(item: Item) -> bool:
    """Whether it may stand in front of the branch."""
    return isinstance(item, Instruction) and item.opcode.group == "salu"


def put_aside(items: Sequence[Item], tags: Sequence[Tag], fresh: Callable[[str], str], arch: str) -> tuple[list[Item], list[Tag]]:
    """Items and their tags with the blocks that stand aside behind the end; `fresh` makes labels of names.

    Raises AsmgenError where the last instruction is no s_endpgm, so that control would come into the blocks from above.
    """
    stay: list[tuple[Item, Tag]] = []
    moved: list[tuple[Item, Tag]] = []
    place = 0
    while place < len(items):
        item, tag = items[place], tags[place]
        if not (tag.aside and isinstance(item, Instruction) and item.name in OPPOSITE):
            stay.append((item, tag))
            place += 1
            continue
        end = next(at for at in range(place, len(items)) if isinstance(label := items[at], Label) and label.name == item.target)
        inside = tag._replace(aside=False)
        name = fresh(re.sub(r"[^A-Za-z0-9_]", "_", _name(tag)))
        stay += [(_branch(arch, OPPOSITE[item.name], name, item), inside), (items[end], inside)]
        moved += [(Label(name, item.source), inside), *((one, inside) for one in items[place + 1:end]),
                  (_branch(arch, "s_branch", str(item.target), item), inside)]
        place = end + 1
    if moved:
        final = next(item for item, _ in reversed(stay) if isinstance(item, Instruction))  # the branch of a block at least
        if final.name != "s_endpgm":
            raise AsmgenError(f"block {_name(moved[0][1])!r} is to stand aside, behind s_endpgm, but the kernel's last instruction is "
                              f"{final.text}", final.where())
        stay.append((Region("aside"), Tag("")))
    both = stay + moved
    return [item for item, _ in both], [tag for _, tag in both]


def _name(tag: Tag) -> str:
    return tag.block.partition("#")[0]


def _branch(arch: str, name: str, label: str, like: Instruction) -> Instruction:
    """A branch of that name at the place of another one."""
    row, operands = opcode(name), (Symbol(label),)
    return replace(like, opcode=row, form=resolve(row, operands, {}, arch), operands=operands)
