"""Every fixed point of the project on random graphs: it ends, gives the same again, and is the least one, or errs as it says it does.

What is least is found by following single paths over instructions, which no analysis here does.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from operator import or_

import pytest

from asmgen.checks.counters.flow import WaitFlow
from asmgen.checks.counters.ledger import operations_of
from asmgen.checks.counters.tokens import tokens_ahead
from asmgen.checks.waitstates.passes import insert, verify
from asmgen.emulator.arrival.tooearly import close_pairs
from asmgen.emulator.scheduling.meetings import Meetings
from asmgen.isa.opcode import group_of
from asmgen.isa.registers import Modified, Reg
from asmgen.program.controlflow import control_flow
from asmgen.program.live import program_liveness
from asmgen.program.mix import address_instructions, groups
from asmgen.program.program import Instruction, Item, Label, Program, TokenUse
from asmgen.reader.instruction import InstructionReader
from asmgen.regalloc.dataflow import reached, solve, solve_masks

SEEDS = range(60)
_READER = InstructionReader("gfx942")
_ADDRESSES = {"vaddr", "addr", "saddr", "srsrc", "soffset", "sbase"}
_COMPUTING = ("v_add_u32 v{0}, v{1}, v{2}", "v_mov_b32 v{0}, v{1}", "v_lshl_add_u32 v{0}, v{0}, 2, v{1}", "v_mov_b32 v{0}, 1.0",
              "global_load_dword v{0}, v{1}, s[0:1]", "global_store_dword v{0}, v{1}, s[0:1]", "ds_read_b32 v{0}, v{1}",
              "ds_write_b32 v{0}, v{1}", "v_cmp_eq_u32 vcc, v{0}, v{1}", "v_mul_f32 v{0}, v{1}, v{2}")
_CONTROL = ("s_barrier", "s_waitcnt vmcnt(1)", "s_waitcnt lgkmcnt(0)", "s_mov_b64 exec, -1", "s_and_b64 exec, exec, s[2:3]", "s_nop 1",
            "s_mov_b32 m0, s4", "v_readlane_b32 s4, v{0}, 3", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[2:3], v[4:5], a[0:3]",
            "v_accvgpr_read_b32 v{0}, a1", "v_mov_b32_dpp v{0}, v{1} row_shl:1", "s_mov_b32 s3, s4")


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """A test that does not come to its end fails."""
    def late(number: int, frame: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@cache
def instruction(text: str) -> Instruction:
    return _READER.read(text)


def program_of(lines: list[str]) -> Program:
    items: list[Item] = [Label(line[:-1]) if line.endswith(":") else replace(instruction(line)) for line in lines]
    return Program("k", "gfx942", tuple(items))


def random_program(seed: int, pool: tuple[str, ...] = _COMPUTING + _CONTROL, most: int = 9) -> Program:
    """Blocks of a few instructions that branch anywhere: irreducible loops, blocks that nobody enters, endless loops."""
    rng = random.Random(seed)
    count = rng.randint(1, most)
    lines: list[str] = []
    for number in range(count):
        lines.append(f".L{number}:")
        lines += [rng.choice(pool).format(*(rng.randrange(6) for _ in range(3))) for _ in range(rng.randrange(5))]
        target = f".L{rng.randrange(count)}"
        lines += rng.choice(([], [f"s_cbranch_scc0 {target}"], [f"s_cbranch_scc1 {target}"], [f"s_branch {target}"], ["s_endpgm"]))
    return program_of([*lines, "s_endpgm"])


def following(program: Program) -> list[list[int]]:
    """For each instruction, those that may come next."""
    found: list[list[int]] = []
    for position, item in enumerate(program.instructions):
        ways = [] if item.ends_block or position + 1 == len(program.instructions) else [position + 1]
        if item.target is not None:
            ways.append(program.labels[item.target])
        found.append(ways)
    return found


def walk(ways: list[list[int]], starts: list[int], onward: Callable[[int], bool]) -> set[int]:
    """The instructions that are come to from `starts`; the way goes on after those for which `onward` holds."""
    seen: set[int] = set()
    stack = list(starts)
    while stack:
        position = stack.pop()
        if position not in seen:
            seen.add(position)
            if onward(position):
                stack += ways[position]
    return seen


def random_graph(rng: random.Random) -> list[list[int]]:
    count = rng.randint(1, 12)
    return [rng.sample(range(count), rng.randint(0, min(3, count))) for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_solver_gives_the_least_solution(seed: int) -> None:
    rng = random.Random(seed)
    sources = random_graph(rng)
    count = len(sources)
    start, adds, stops = ([rng.getrandbits(8) & rng.getrandbits(8) for _ in range(count)] for _ in range(3))
    entering = list(start)
    for bit in range(8):  # a bit enters where a path leads on which nobody stops it
        users = [[user for user in range(count) if node in sources[user]] for node in range(count)]
        stack = [user for node in range(count) if adds[node] >> bit & 1 for user in users[node]]
        stack += [node for node in range(count) if start[node] >> bit & 1]
        seen = set()
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                entering[node] |= 1 << bit
                if not stops[node] >> bit & 1:
                    stack += users[node]
    found = solve_masks(sources, start, adds, stops)
    assert found.at_entry == entering
    assert found.at_exit == [adds[node] | entering[node] & ~stops[node] for node in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_solver_ends_for_any_transfer(seed: int) -> None:
    """Each node is looked at no more often than what enters it can grow, and the result holds up, monotone or not."""
    rng = random.Random(seed)
    sources = random_graph(rng)
    tables = [[rng.randrange(16) for _ in range(16)] for _ in sources]
    calls = [0] * len(sources)

    def transfer(node: int, mask: int) -> int:
        calls[node] += 1
        return tables[node][mask]

    found = solve(sources, [0] * len(sources), transfer, or_)
    assert max(calls) <= 5
    for node, feeding in enumerate(sources):
        assert not tables[node][found.at_entry[node]] & ~found.at_exit[node]
        entered = 0
        for source in feeding:
            entered |= found.at_exit[source]
        assert found.at_entry[node] == entered


def test_reached() -> None:
    assert reached([[1], [2, 1], [], [0]], [1]) == {1, 2}
    assert reached([[0]], []) == frozenset()


@pytest.mark.parametrize("seed", SEEDS)
def test_liveness_is_what_paths_say(seed: int) -> None:
    program = random_program(seed)
    ways, instructions = following(program), program.instructions
    liveness = program_liveness(program)
    for number in (0, 1, 2, 5):
        mask = Reg("v", number, 1).mask
        for position in range(len(instructions)):
            seen = walk(ways, [position], lambda at, mask=mask: not (instructions[at].reads | instructions[at].writes) & mask)
            assert bool(liveness.live_before(position) & mask) == any(instructions[at].reads & mask for at in seen), (position, number)


@pytest.mark.parametrize("seed", SEEDS)
def test_liveness_that_keeps_lanes_is_no_smaller(seed: int) -> None:
    """With EXEC partly off a write ends nothing: more may be live, never less, and the same where EXEC is never written."""
    program = random_program(seed)
    plain, kept = program_liveness(program), program_liveness(program, lanes_kept=True)
    for position in range(len(program.instructions)):
        assert not plain.live_before(position) & ~kept.live_before(position)
    full = random_program(seed, _COMPUTING)
    entered = set(walk(following(full), [0], lambda at: True))
    if len(entered) == len(full.instructions):
        assert [program_liveness(full).live_before(at) for at in entered] == \
               [program_liveness(full, lanes_kept=True).live_before(at) for at in entered]


NEVER_ENDED = [".La:", "v_add_u32 v9, v1, v1", "global_load_dword v2, v0, s[0:1]", "s_cbranch_scc1 .Lb", ".Lb:", "v_add_u32 v1, v2, v2",
               "global_load_dword v4, v1, s[0:1]", "s_cbranch_scc0 .La", "s_endpgm"]


def test_the_mix_of_a_loop_whose_sum_is_data_and_address() -> None:
    assert groups(program_of(NEVER_ENDED)) == ("valu", "global_load", "branch", "valu", "global_load", "branch", "other")
    assert groups(program_of(["v_add_u32 v9, v2, v2", *NEVER_ENDED[2:]]).with_items(program_of([".La:", *NEVER_ENDED[2:]]).items))[2] == \
        "valu_address"


def uses_by_paths(program: Program) -> list[list[tuple[int, bool]]]:
    """For each instruction, who explicitly reads a register that it wrote, and whether as an address."""
    ways, instructions = following(program), program.instructions
    roles: list[tuple[int, int]] = []
    for item in instructions:
        masks = [0, 0]
        for place, operand, reads, _ in item.accesses:
            value = operand.value if isinstance(operand, Modified) else operand
            if reads and isinstance(value, Reg):
                masks[place.name in _ADDRESSES] |= value.mask
        roles.append((masks[0], masks[1]))
    found: list[list[tuple[int, bool]]] = []
    for position, item in enumerate(instructions):
        users: list[tuple[int, bool]] = []
        for bit in (1 << number for number in range(item.writes.bit_length()) if item.writes >> number & 1):
            ended = [bool(other.writes & bit and not (data | address) & bit)
                     for other, (data, address) in zip(instructions, roles, strict=True)]
            for at in walk(ways, ways[position], lambda at, ended=ended: not ended[at]):
                users += [(at, bool(as_address)) for as_address, mask in enumerate(roles[at]) if mask & bit]
        found.append(users)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_address_instructions_are_what_paths_say(seed: int) -> None:
    program = random_program(seed, _COMPUTING)
    users = uses_by_paths(program)
    valu = [group_of(item.opcode, item.form) == "valu" for item in program.instructions]
    reaching: set[int] = set()
    wanted: set[int] = set()
    for _ in program.instructions:  # a chain of results is no longer than the program
        reaching |= {at for at, uses in enumerate(users) if valu[at] and any(address or user in reaching for user, address in uses)}
    for _ in program.instructions:
        wanted |= {at for at, uses in enumerate(users) if any(not address and (user not in reaching or user in wanted)
                                                               for user, address in uses)}
    assert address_instructions(program, control_flow(program)) == reaching - wanted


def with_tokens(program: Program, seed: int) -> Program:
    """LDS accesses name random ranges."""
    rng = random.Random(seed)
    items: list[Item] = []
    for item in program.items:
        if isinstance(item, Instruction) and item.name.startswith("ds_"):
            low = 64 * rng.randrange(4)
            use = TokenUse("write" if item.name.startswith("ds_write") else "read", "A", low, low + rng.choice((32, 64, 128)))
            item = replace(item, tokens=(use,))
        items.append(item)
    return program.with_items(items)


@pytest.mark.parametrize("stagger", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_ahead_are_what_paths_say(seed: int, stagger: int) -> None:
    program = with_tokens(random_program(seed, ("ds_read_b32 v{0}, v{1}", "ds_write_b32 v{0}, v{1}", "s_barrier", "s_nop 0")), seed)
    operations, _ = operations_of(program)
    ways = following(program)
    ahead = tokens_ahead(control_flow(program), operations, stagger)
    uses = {use for operation in operations for use in (*operation.fills, *operation.uses)}
    for position, item in enumerate(program.instructions):
        if item.name != "s_barrier" or not uses:
            continue
        expected: tuple[set[TokenUse], set[TokenUse]] = (set(), set())
        for use in uses:
            stack = [(way, 0) for way in ways[position]]
            seen = set()
            while stack:
                at, crossed = stack.pop()
                if (at, crossed) in seen:
                    continue
                seen.add((at, crossed))
                operation = operations[at]
                for kind, there in enumerate((operation.fills, operation.uses)):
                    if use in there:
                        expected[kind].add(use)
                crossed += operation.barrier
                covered = use not in operation.fills and any(fill.low <= use.low and use.high <= fill.high for fill in operation.fills)
                if crossed <= stagger and not (covered and use.action == "read"):
                    stack += [(way, crossed) for way in ways[at]]
        assert ahead[position] == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_in_flight_is_what_paths_say(seed: int) -> None:
    """Loads into registers that nobody touches: each is in flight with the fewest newer ones of all paths, and no other is."""
    pool = tuple(f"global_load_dword v{number}, v0, s[0:1]" for number in range(40, 44)) + ("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(3)",
                                                                                         "s_nop 0")
    program = random_program(seed, pool)
    ways, flow = following(program), control_flow(program)
    expected: list[dict[int, int]] = [{} for _ in flow.blocks]
    for producer, item in enumerate(program.instructions):
        if not item.name.startswith("global_load"):
            continue
        fewest: dict[int, int] = {}
        stack = [(way, 0) for way in ways[producer]]
        while stack:
            at, newer = stack.pop()
            if newer >= fewest.get(at, 64):
                continue
            fewest[at] = newer
            other = program.instructions[at]
            wait = int(other.text.partition("(")[2][:1]) if other.name == "s_waitcnt" else 64
            if newer < wait:
                stack += [(way, newer + other.name.startswith("global_load")) for way in ways[at]]
        for block in flow.blocks:
            if block.first in fewest:
                expected[block.number][producer] = fewest[block.first]
    reachable_blocks = {flow.block_of[at] for at in walk(ways, [0], lambda at: True)}
    found = WaitFlow(program, False)
    for block in flow.blocks:
        if block.number in reachable_blocks:
            entered = {position: newer for position, _, newer in found.entries[block.number].in_flight()}
            assert all(entered.get(position) == newer for position, newer in expected[block.number].items()), block
            assert set(entered) == set(expected[block.number])


@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_waits_end_and_come_out_the_same(seed: int, automatic: bool) -> None:
    """Inserting, the solution errs towards a wait too strict (waits/flow.py); it is the same every time."""
    program = with_tokens(random_program(seed), seed)
    first, second = (WaitFlow(program, automatic) for _ in range(2))
    assert [entry.in_flight() for entry in first.entries] == [entry.in_flight() for entry in second.entries]


@pytest.mark.parametrize("seed", SEEDS)
def test_wait_states_end_and_suffice(seed: int) -> None:
    """Nops of two blocks on a loop may replace each other in turn: what stands after a few rounds is enough, if at worst too much."""
    program = random_program(seed)
    padded = insert(program)
    assert not [finding for finding in verify(padded) if finding.severity == "error"]
    assert insert(program).items == padded.items and insert(padded).items == padded.items
    assert not close_pairs(padded) and close_pairs(program) == close_pairs(program)


@pytest.mark.parametrize("seed", SEEDS)
def test_waves_meet_where_no_barrier_is_between(seed: int) -> None:
    program = random_program(seed, ("s_barrier", "s_nop 0", "v_mov_b32 v{0}, v{1}"))
    ways, meetings = following(program), Meetings(program)
    for position, item in enumerate(program.instructions):
        stretch = {at for at in range(len(program.instructions)) if meetings.stretch(at) == meetings.stretch(position)}
        last = max(stretch)
        expected = {meetings.stretch(position)}
        if program.instructions[last].name != "s_barrier":
            seen = walk(ways, ways[last], lambda at: program.instructions[at].name != "s_barrier")
            expected |= {meetings.stretch(at) for at in seen}
        found = meetings.reached(meetings.stretch(position))
        assert {number for number in range(found.bit_length()) if found >> number & 1} == expected, item


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_is_what_reaches_its_end_without_its_beginning(seed: int) -> None:
    flow = control_flow(random_program(seed, ("s_nop 0",), 14))
    for loop in flow.loops():
        head, tail = flow.block_of[loop.first], flow.block_of[loop.last]
        back = [list(block.predecessors) if block.number != head else [] for block in flow.blocks]
        assert loop.blocks == reached(back, [tail]) | {head}
