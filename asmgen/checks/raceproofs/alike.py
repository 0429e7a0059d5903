"""The branches at which two waves of a workgroup decide alike, whenever each of them comes there.

Arguments and workgroup ids are the same for all waves, and so is what is computed of them and what scalar loads bring from addresses that
are the same. A register may differ where it comes from a work-item's number, a vector load, LDS, an atomic, the hardware or the time; and
where it is written on a way that only one of the waves may go. Lanes that EXEC leaves out keep what they held. A branch on such a register
is decided by each wave for itself, as is each branch on such a way, unless both compute alike there (`alikecode`). So is, to keep it
simple, a branch that has no say in what barriers divide: one in a loop without a barrier, and one whose ways meet again before anything
happens to LDS, as around a load of each tile that a prologue may leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import and_, or_

from asmgen.checks.raceproofs.alikecode import AlikeCode, AlikeWays
from asmgen.checks.raceproofs.valuepaths import Node, ValuePaths
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import AGPR_COUNT, NAMED, TTMP_BASE, TTMP_COUNT, VGPR_COUNT, Reg, v
from asmgen.program.program import Instruction
from asmgen.regalloc.dataflow import reached, solve

_ITS_OWN = ("s_getreg_b32", "s_memtime", "s_memrealtime", "s_atc_probe", "s_atomic", "s_buffer_atomic", "s_scratch_load")
_AT_BEGIN = v[0].mask | v[1].mask | v[2].mask | NAMED["flat_scratch"].mask | Reg("s", TTMP_BASE, TTMP_COUNT).mask
"""The work-item's number, where the wave's scratch lies, and what the hardware says of the wave."""
_EXEC = NAMED["exec"].mask
_VECTORS = (1 << VGPR_COUNT + AGPR_COUNT) - 1


class AlikeBranches:
    """Of a program's paths. `barriers` says by block whether one stands there, `at_begin` what registers begin with another value in each
    wave beside those that always do. With `loads`, vector loads and LDS reads from one address bring all waves the same too, which need
    not be so, but often is: a ticket that one wave has drawn for all, a flag."""

    def __init__(self, paths: ValuePaths, barriers: Sequence[bool], at_begin: int = 0, loads: bool = False) -> None:
        self._paths, self._blocks = paths, paths.flow.blocks
        self._instructions = paths.program.instructions
        self._alone = own = [_its_own(instruction, loads) for instruction in self._instructions]
        steps: dict[tuple[int, tuple[tuple[int, bool], ...], frozenset[int]], list[tuple[int, int, int, bool, int]]] = {}
        self._steps = []
        for node in paths.nodes:
            same = frozenset(position for position, place in node.touched.items() if loads and place is not None and place.alike)
            key = node.block, tuple(node.lanes), same
            if key not in steps:
                steps[key] = _steps(paths, node, own, same)
            self._steps.append(steps[key])
        self._whole_at_end = [_EXEC if node.lanes[-1][1] else 0 for node in paths.nodes]
        self._ways = [node.ways for node in paths.nodes]
        self._leading: list[list[int]] = [[] for _ in paths.nodes]
        for node in paths.nodes:
            for way in node.ways:
                self._leading[way].append(node.number)
        self._at_begin = _AT_BEGIN | at_begin if paths.whole else _AT_BEGIN | at_begin | _EXEC
        self._barriers = [barriers[node.block] for node in paths.nodes]
        self._ahead = reached(self._leading, [number for number, barrier in enumerate(self._barriers) if barrier])
        """Nodes at or after which a barrier may follow."""
        self._free = self._without_barrier()
        self._known: dict[frozenset[int], AlikeWays] = {}
        self._outcomes: dict[int, list[frozenset[int]]] = {}
        self._unfollowed: dict[frozenset[int], frozenset[int]] = {}
        self._parted: dict[frozenset[int], frozenset[int]] = {}

    def common(self, one: int, other: int) -> AlikeWays:
        """Where waves `one` and `other` decide alike."""
        differing = self._differing_ends(one, other)
        if differing not in self._known:
            self._known[differing] = self._solve(differing)
        return self._known[differing]

    def unfollowed(self, one: int, other: int) -> frozenset[int]:
        """The blocks at whose ends both decide alike though `common` does not say so: no barrier divides what follows."""
        self.common(one, other)
        return self._unfollowed[self._differing_ends(one, other)]

    def parted(self, one: int, other: int) -> frozenset[int]:
        """The blocks at whose ends each decides for itself, by a register that may differ."""
        self.common(one, other)
        return self._parted[self._differing_ends(one, other)]

    def _differing_ends(self, one: int, other: int) -> frozenset[int]:
        mine, theirs = self._of(one), self._of(other)
        return frozenset(block.number for block in self._blocks if len(mine[block.number] | theirs[block.number]) > 1)

    def _of(self, wave: int) -> list[frozenset[int]]:
        """By block, where a wave may go on from there."""
        if wave not in self._outcomes:
            found: list[set[int]] = [set() for _ in self._blocks]
            for node in self._paths.nodes:
                if node.waves >> wave & 1:
                    found[node.block].update(follower.block for way in node.ways
                                             if (follower := self._paths.nodes[way]).waves >> wave & 1)
            self._outcomes[wave] = [frozenset(one) for one in found]
        return self._outcomes[wave]

    def _solve(self, undecided: frozenset[int]) -> AlikeWays:
        """Branches on registers that differ, and what differs by them, until nothing is new."""
        nodes = self._paths.nodes
        apart: frozenset[int] = frozenset()
        inside: frozenset[int] = frozenset()
        closed: frozenset[int] = frozenset()
        regions: list[frozenset[int]] = []
        while True:
            differ = self._differing(inside)
            parting = [node for node in nodes if node.block in undecided
                       and self._instructions[self._blocks[node.block].last].reads & differ[node.number]]
            more = apart | {node.block for node in parting if node.number not in closed}
            if more == apart and inside:
                break
            apart = more
            meets = self._meets(apart)
            regions = [self._region(number, meets) for number in apart]
            inside = frozenset[int]().union(*regions)
            closed = frozenset[int]().union(*(self._closed(number, region) for number, region in zip(apart, regions, strict=True)))
            if not inside:
                break
        not_common = apart | {nodes[number].block for number in inside}
        self._unfollowed[undecided] = frozenset(number for number in self._free if len(self._blocks[number].successors) > 1) - not_common
        computed, decided = AlikeCode(self._paths, inside, self._ahead, self._alone, differ, self._free).followed()
        self._parted[undecided] = frozenset(node.block for node in parting) - decided.keys()
        divided = frozenset[int]().union(*(region for region in regions if any(self._barriers[number] for number in region)))
        own = any(len(nodes[number].ways) > 1 and nodes[number].block not in self._free | decided.keys() for number in divided)
        branches = frozenset(block.number for block in self._blocks if len(block.successors) > 1) - not_common - self._free
        branches -= self._idle(inside)
        return AlikeWays(branches, own, inside & self._ahead, computed, decided)

    def _differing(self, inside: frozenset[int]) -> list[int]:
        """The registers that may differ, as bits, after each node; all that is written in nodes `inside` may."""
        def after(number: int, differ: int) -> int:
            for reads, writes, kept, own, whole in self._steps[number]:
                differ &= ~whole
                differ = differ | writes if own or number in inside or reads & differ else differ & (~writes | kept)
            return differ & ~self._whole_at_end[number]

        start = [self._at_begin if number in self._paths.starts else 0 for number in range(len(self._ways))]
        return solve(self._leading, start, after, or_).at_exit

    def _region(self, block: int, meets: Sequence[int]) -> frozenset[int]:
        """The nodes between a branch and the block at which its ways are sure to have met again."""
        nodes = self._paths.nodes
        common = ~(1 << block)
        starts: set[int] = set()
        for node in nodes:
            if node.block == block:
                common &= meets[node.number]
                starts.update(node.ways)
        onward = reached(self._ways, sorted(starts))
        candidates = {nodes[one].block for one in onward if common >> nodes[one].block & 1}
        candidates -= {nodes[one].block for one in onward if meets[one] & common != common}
        following = _Without(self._ways, {one for one in onward if nodes[one].block in candidates})
        return reached(following, [one for one in starts if nodes[one].block not in candidates])

    def _closed(self, block: int, region: frozenset[int]) -> frozenset[int]:
        """The nodes of a region that waves only come to from its branch: whatever they decide there, they meet where the region ends."""
        nodes = self._paths.nodes
        found = set(region)
        waiting = list(region)
        while waiting:
            number = waiting.pop()
            if number in found and (number in self._paths.starts or any(one not in found and nodes[one].block != block
                                                                        for one in self._leading[number])):
                found.discard(number)
                waiting += [way for way in self._ways[number] if way in found]
        return frozenset(number for number in found if nodes[number].block != block)

    def _meets(self, apart: frozenset[int]) -> list[int]:
        """Of each node, as bits, the blocks that every way from it comes to, its own among them. From branches `apart`, ways on which no
        barrier follows do not count: what a wave does there is not compared with others' decisions."""
        nodes, end = self._paths.nodes, len(self._blocks)
        following = [[way for way in ways if way in self._ahead] for ways in self._ways]
        ends = [(2 << end) - 1 for _ in nodes]
        for number in self._ahead:
            leaves = len(following[number]) < len(self._ways[number]) and nodes[number].block not in apart
            if leaves or not following[number]:
                ends[number] = 1 << end
        return solve(following, ends, lambda number, mask: mask | 1 << nodes[number].block, and_).at_exit

    def _idle(self, inside: frozenset[int]) -> frozenset[int]:
        """Blocks at whose ends it makes no difference how a wave goes on: its ways meet in one node before a barrier, an access to LDS, an
        end and nodes `inside`. Of several such branches in a row each may be left out of the other's ways."""
        nodes = self._paths.nodes
        quiet = {node.number for node in nodes if node.ways and not node.touched and not self._barriers[node.number]} - inside
        meeting: dict[int, int] = {}
        again = True
        while again:
            again = False
            for node in reversed(nodes):
                if len(node.ways) > 1 and node.number not in meeting:
                    first, *others = [self._onward(way, quiet, meeting) for way in node.ways]
                    common = next((one for one in first if all(one in other for other in others)), None)
                    if common is not None:
                        meeting[node.number], again = common, True
        differing = {node.block for node in nodes if len(node.ways) > 1 and node.number not in meeting}
        return frozenset(nodes[number].block for number in meeting) - differing

    def _onward(self, number: int, quiet: set[int], meeting: Mapping[int, int]) -> list[int]:
        """The nodes that all waves come to from one on while nothing happens, in order, without those on one way of an idle branch."""
        found = [number]
        while number in quiet:
            number = self._ways[number][0] if len(self._ways[number]) == 1 else meeting.get(number, number)
            if number in found:
                break
            found.append(number)
        return found

    def _without_barrier(self) -> frozenset[int]:
        """Blocks from which a wave may come to them again without a barrier, and blocks after which none follows."""
        following = [[way for way in ways if not self._barriers[way]] if not barrier else []
                     for ways, barrier in zip(self._ways, self._barriers, strict=True)]
        nodes = self._paths.nodes
        blocks: list[list[int]] = [[] for _ in self._blocks]
        for number, ways in enumerate(following):
            blocks[nodes[number].block] += [nodes[way].block for way in ways]
        without = {node.block for node in nodes} - {nodes[number].block for number in self._ahead}
        return frozenset(number for number, ways in enumerate(blocks) if number in without or number in reached(blocks, ways))


class _Without(Sequence[Sequence[int]]):
    """Ways without those to some nodes."""

    def __init__(self, ways: Sequence[Sequence[int]], nodes: set[int]) -> None:
        self._ways, self._nodes = ways, nodes

    def __getitem__(self, number: int) -> Sequence[int]:  # type: ignore[override]
        return [way for way in self._ways[number] if way not in self._nodes]

    def __len__(self) -> int:
        return len(self._ways)


def _steps(paths: ValuePaths, node: Node, own: Sequence[bool], same: frozenset[int]) -> list[tuple[int, int, int, bool, int]]:
    """What the instructions of a node that write registers read and write, what lanes of this they may leave as it was, whether waves may
    get another result of the same sources, and EXEC, as bits, where all of its lanes are known to run: then it is alike."""
    block, found = paths.flow.blocks[node.block], []
    changes = [*node.lanes, (block.last + 1, True)]
    for (start, whole), (end, _) in pairwise(changes):
        for position in range(start, end):
            one = paths.program.instructions[position]
            if one.writes:
                reads = one.reads & _EXEC if position in same else one.reads
                found.append((reads, one.writes, 0 if whole else one.writes & _VECTORS, own[position], _EXEC if whole else 0))
    return found


def _its_own(instruction: Instruction, loads: bool) -> bool:
    """Whether a wave may get another result than others of the same sources: what it reads of the hardware, and of memory that others
    may write meanwhile, unless `loads` bring all the same. Scratch is each wave's own."""
    row = instruction.opcode.memory
    if row is not None and not is_lds_dma(instruction.opcode, instruction.form):
        if loads and row.kind == "load" and row.space != "scratch":
            return False
        return row.space != "scalar" or row.kind == "atomic"
    return instruction.name.startswith(_ITS_OWN)

