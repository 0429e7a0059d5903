"""Kernels written in a wrong order or without a part: each is refused at the author's line, with what would work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import asmgen as ag
from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.isa.errors import AsmgenError

HERE = r"test_misuse.py:\d+"


def builder(waves: int = 4, axes: str = "x") -> TileBuilder:
    arguments = (ContractArgument("a", "pointer", ""), ContractArgument("n", "u32", ""))
    contract = KernelContract("wrong", "wrong", ("gfx950",), (), arguments, (64 * waves, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    return TileBuilder(contract, "gfx950", {}, waves=2, workgroup_ids=axes)


def product(k: TileBuilder) -> tuple[ag.Tile, ag.Tile, ag.Tile]:
    """C, A and B of one wave's product."""
    M = k.matrix_shape("f32_32x32x16_bf16")
    return k.tile("C", 32, 32, M.d), k.tile("A", 32, 16, M.a), k.tile("B", 32, 16, M.b)


def summing(k: TileBuilder) -> tuple[Callable[[ag.StepIndex], None], ag.Reg, ag.Tile]:
    C, A, B = product(k)
    count = k.registers.sgprs(1, "count")
    k.s_mov_b32(count, 4)
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory, ag.operation(k, "make", [t], writes=A.registers.mask | B.registers.mask):
            for register in (*A.registers, *B.registers):
                for number in range(register.count):
                    k.v_mov_b32(register[number], 0)
        with k.stage(), matrix:
            ag.mma(k, C, A, B)

    return step, count, C


def forgets_the_epilogue(k: TileBuilder) -> None:
    step, count, C = summing(k)
    ag.zero(k, C)
    k.pipeline(step, count, ag.InOrder())
    k.s_endpgm()


def has_an_epilogue(k: TileBuilder) -> None:
    step, count, C = summing(k)
    ag.zero(k, C)
    k.pipeline(step, count, ag.InOrder(), then=ag.FollowingEpilogue(lambda: ag.mul(k, C, C, 2.0)))
    k.s_endpgm()


def asks_for_another_axis(k: TileBuilder) -> None:
    k.s_mov_b32(k.registers.sgprs(1, "row"), k.ids["y"])


def wants_too_many_waves(k: TileBuilder) -> None:
    k.wave_grid(2, 4)


def names_the_wave_after_a_branch(k: TileBuilder) -> None:
    k.s_cmp_eq_u32(k.argument("n"), 0)
    k.s_cbranch_scc1("end")
    k.s_mov_b32(k.registers.sgprs(1, "row"), k.wave.register)


def names_the_wave_in_a_block(k: TileBuilder) -> None:
    with k.block("some"):
        k.v_mov_b32(k.registers.vgprs(1, "x"), k.lane)


def releases_a_tile_twice(k: TileBuilder) -> None:
    C, _, _ = product(k)
    k.registers.release("C")
    k.registers.release("C")
    ag.zero(k, C)


def uses_a_tile_after_its_release(k: TileBuilder) -> None:
    C, _, _ = product(k)
    k.registers.release("C")
    ag.zero(k, C)


def asks_for_the_first_step(k: TileBuilder) -> None:
    step, count, C = summing(k)

    def asking(t: ag.StepIndex) -> None:
        if t.first:
            ag.zero(k, C)
        step(t)

    k.pipeline(asking, count, ag.InOrder())


def passes_a_condition_as_a_value(k: TileBuilder) -> None:
    C, A, B = product(k)

    def step(t: ag.StepIndex) -> None:
        with ag.operation(k, "make", [t], writes=A.registers.mask | B.registers.mask):
            k.v_mov_b32(next(iter(A.registers))[0], 0)
        ag.mma(k, C, A, B, first=t.first)

    k.pipeline(step, 4, ag.InOrder())


def counts_nothing(k: TileBuilder) -> None:
    step, _, _ = summing(k)
    k.pipeline(step, 0, ag.InOrder())


def gives_no_groups(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(step, count, ag.PingPong())


def masks_nothing(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(step, count, ag.InOrder(), plain=2)


def stages_outside_of_a_step(k: TileBuilder) -> None:
    with k.stage():
        k.s_nop(0)


def writes_without_an_iteration(k: TileBuilder) -> None:
    x = k.registers.vgprs(1, "x")
    k.pipeline(lambda t: k.v_mov_b32(x, 0), 4, ag.InOrder())


def looks_back(k: TileBuilder) -> None:
    x = k.registers.vgprs(1, "x")

    def step(t: ag.StepIndex) -> None:
        with k.at(t - 1):
            k.v_mov_b32(x, 0)

    k.pipeline(step, 4, ag.InOrder())


def asks_for_an_unknown_argument(k: TileBuilder) -> None:
    k.s_mov_b32(k.registers.sgprs(1, "x"), k.argument("m"))


def differs_from_buffer_to_buffer(k: TileBuilder) -> None:
    x = k.tile("x", 32, 32, k.matrix_shape("f32_32x32x16_bf16").d, stages=2)

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            for number in range(1 + t.buffer(2)):
                k.v_mov_b32(next(iter(x[t].registers)), number)

    k.pipeline(step, 4, ag.InOrder())


def loops_in_a_step(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(lambda t: k.pipeline(step, 4, ag.InOrder()), count, ag.InOrder())


def places_a_barrier(k: TileBuilder) -> None:
    step, count, _ = summing(k)

    def waiting(t: ag.StepIndex) -> None:
        step(t)
        with k.stage(), k.at(t):
            k.s_barrier()

    k.pipeline(waiting, count, ag.InOrder())


def ends_in_the_step(k: TileBuilder) -> None:
    def last(t: ag.StepIndex) -> None:
        with k.stage(), k.at(t):
            k.s_endpgm()

    k.pipeline(last, 4, ag.InOrder())


def keeps_an_iteration(k: TileBuilder) -> None:
    x, kept = k.registers.vgprs(1, "x"), []

    def step(t: ag.StepIndex) -> None:
        kept.append(t)
        with k.at(kept[0]):
            k.v_mov_b32(x, 0)

    k.pipeline(step, 4, ag.InOrder())
    k.pipeline(step, 4, ag.InOrder())


def counts_in_a_vgpr(k: TileBuilder) -> None:
    step, _, _ = summing(k)
    k.pipeline(step, k.registers.vgprs(1, "count_of_lanes"), ag.InOrder())


def counts_by_halves(k: TileBuilder) -> None:
    step, _, _ = summing(k)
    k.pipeline(step, 2.5, ag.InOrder())  # type: ignore[arg-type]


def masks_the_first(k: TileBuilder) -> None:
    x = k.registers.vgprs(1, "x")

    def step(t: ag.StepIndex) -> None:
        with t.first, t.masked, k.at(t):
            k.v_mov_b32(x, 0)

    k.pipeline(step, 4, ag.InOrder())


def reading(k: TileBuilder) -> tuple[ag.Tile, ag.Tile, ag.Tile, ag.SharedTile, ag.Rows]:
    """C, A, B, LDS for A in two buffers, and A in memory."""
    M = k.matrix_shape("f32_32x32x16_bf16")
    C, A, B = k.tile("C", 32, 32, M.d), k.tile("A", 32, 64, M.a), k.tile("B", 32, 64, M.b)
    As = k.shared("As", "bf16", 32, 64, stages=2, serves=(ag.FragmentRead(M.a), ag.DmaFill()))
    ag.zero(k, C, A, B)
    return C, A, B, As, k.matrix("a", "bf16", 32, "n", 4096).rows(0, 32)


def doubles(k: TileBuilder, C: ag.Tile) -> ag.FollowingEpilogue:
    return ag.FollowingEpilogue(lambda: ag.mul(k, C, C, 2.0))


def reads_none_of_its_fills(k: TileBuilder) -> None:
    C, A, B, As, a = reading(k)

    def step(t: ag.StepIndex) -> None:
        with k.stage():
            ag.fill(k, As[t + 1], a.k(t + 1))
        with k.stage(), k.at(t):
            ag.mma(k, C, A, B)

    k.pipeline(step, k.argument("n"), ag.Modulo(), then=doubles(k, C))


def fills_none_of_its_reads(k: TileBuilder) -> None:
    C, A, B, As, _ = reading(k)

    def step(t: ag.StepIndex) -> None:
        with k.stage():
            ag.read(k, A, As[t])
        with k.stage():
            ag.mma(k, C, A, B)

    k.pipeline(step, k.argument("n"), ag.Modulo(), then=doubles(k, C))


def fills_another_iteration(k: TileBuilder) -> None:
    _, _, _, As, a = reading(k)
    k.pipeline(lambda t: ag.fill(k, As[t + 1], a.k(t + 2)), k.argument("n"), ag.InOrder())


def names_no_iteration_of_a_buffer(k: TileBuilder) -> None:
    _, A, _, As, _ = reading(k)
    k.pipeline(lambda t: ag.read(k, A, As[0]), k.argument("n"), ag.InOrder())


def emits_nothing(k: TileBuilder) -> None:
    k.pipeline(lambda t: None, 4, ag.InOrder())


def yields(k: TileBuilder) -> None:
    step, count, _ = summing(k)

    def yielding(t: ag.StepIndex) -> Iterator[ag.StepIndex]:
        step(t)
        yield t

    k.pipeline(yielding, count, ag.InOrder())


def goes_half_a_step(k: TileBuilder) -> None:
    x = k.registers.vgprs(1, "x")

    def step(t: ag.StepIndex) -> None:
        with k.at(t + 0.5):  # type: ignore[operator]
            k.v_mov_b32(x, 0)

    k.pipeline(step, 4, ag.InOrder())


def changes_the_count(k: TileBuilder) -> None:
    step, count, _ = summing(k)

    def counting(t: ag.StepIndex) -> None:
        step(t)
        with k.stage(), k.at(t):
            k.s_sub_u32(count, count, 1)

    k.pipeline(counting, count, ag.InOrder())


def releases_in_the_step(k: TileBuilder) -> None:
    step, count, _ = summing(k)

    def releasing(t: ag.StepIndex) -> None:
        step(t)
        k.registers.release("A")

    k.pipeline(releasing, count, ag.InOrder())


def branches_out_of_the_step(k: TileBuilder) -> None:
    step, count, _ = summing(k)

    def branching(t: ag.StepIndex) -> None:
        step(t)
        with k.stage(), k.at(t):
            k.s_cbranch_vccz("out")

    k.pipeline(branching, count, ag.InOrder())
    k.label("out")


def forgets_the_count(k: TileBuilder) -> None:
    step, _, _ = summing(k)
    k.pipeline(step, k.registers.sgprs(1, "steps"), ag.InOrder())


def forgets_the_group(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(step, count, ag.PingPong(), groups=k.registers.sgprs(1, "group"))


def stages(k: TileBuilder, written: int, read: int) -> None:
    """A step that writes A for an iteration and multiplies that of another one; A has two stages."""
    C, A, B = product(k)
    k.registers.release("A")
    A = k.tile("As", 32, 16, k.matrix_shape("f32_32x32x16_bf16").a, stages=2)
    ag.zero(k, C)
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        made = A[t + written]
        with k.stage(), memory, ag.operation(k, "make", [t + written], writes=made.registers.mask):
            for register in made.registers:
                k.v_mov_b32(register, 0)
        with k.stage(), matrix:
            ag.mma(k, C, A[t + read], B)

    k.pipeline(step, 4, ag.InOrder(), then=doubles(k, C))


def overwrites_a_stage_too_early(k: TileBuilder) -> None:
    stages(k, 2, 0)


def reads_a_stage_too_early(k: TileBuilder) -> None:
    stages(k, 0, 1)


def gives_a_function_as_the_epilogue(k: TileBuilder) -> None:
    step, count, C = summing(k)
    k.pipeline(step, count, ag.InOrder(), then=lambda: ag.mul(k, C, C, 2.0))  # type: ignore[arg-type]


def calls_the_step(k: TileBuilder) -> None:
    _, count, _ = summing(k)
    k.pipeline(None, count, ag.InOrder())  # type: ignore[arg-type]


def makes_no_schedule(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(step, count, ag.InOrder)  # type: ignore[arg-type]


def clears_no_sums(k: TileBuilder) -> None:
    step, count, C = summing(k)
    k.pipeline(step, count, ag.InOrder(), then=doubles(k, C))


def frees_what_is_not_there(k: TileBuilder) -> None:
    step, count, _ = summing(k)
    k.pipeline(step, count, ag.InOrder(), then=ag.FollowingEpilogue(lambda: k.registers.release("X")))


def reads_what_the_loop_left(k: TileBuilder) -> None:
    step, count, C = summing(k)
    k.pipeline(step, count, ag.InOrder())
    while k.registers.has(1, "v"):
        k.registers.vgprs(1, k.registers.unused("more"))
    A = k.tiles["A"]
    assert isinstance(A, ag.Tile)
    k.v_add_f32(C.base(0, 0)[0], A.base(0, 0)[0], C.base(0, 0)[0])


CASES = (
    (forgets_the_epilogue, rf"{HERE}: v_mfma_.* adds to .*, which nothing reads after the pipeline: the epilogue is missing"),
    (asks_for_another_axis, rf"{HERE}: the kernel has no workgroup number 'y': its family has axes='x'"),
    (wants_too_many_waves, rf"{HERE}: wave_grid\(2, 4\) needs 8 waves; this kernel has 4"),
    (names_the_wave_after_a_branch, rf"{HERE}: the wave's number is first asked for after the branch at .*: name k.wave before it"),
    (names_the_wave_in_a_block, rf"{HERE}: the wave's number is first asked for within a block"),
    (releases_a_tile_twice, rf"{HERE}: .*'C'"),
    (uses_a_tile_after_its_release, rf"{HERE}: .* is used after its release: it was 'C'"),
    (asks_for_the_first_step, rf"{HERE}: `t.first` is no truth value"),
    (passes_a_condition_as_a_value, rf"{HERE}: `t.first` is no truth value"),
    (counts_nothing, rf"{HERE}: a pipeline of 0 steps"),
    (gives_no_groups, rf"{HERE}: the schedule ping-pong staggers two wave groups; pipeline needs groups="),
    (masks_nothing, rf"{HERE}: plain= says how many iterations need no masked operations, and the step has none"),
    (stages_outside_of_a_step, rf"{HERE}: a stage stands outside of a pipeline's step"),
    (writes_without_an_iteration, rf"{HERE}: .* stands in the step outside of any operation"),
    (looks_back, rf"{HERE}: an operation of the step names an iteration before t"),
    (asks_for_an_unknown_argument, rf"{HERE}: the kernel has no argument 'm'"),
    (loops_in_a_step, rf"{HERE}: a pipeline stands in the step of another one"),
    (places_a_barrier, rf"{HERE}: s_barrier stands in the step: the schedule places barriers"),
    (ends_in_the_step, rf"{HERE}: s_endpgm stands in the step: .* the kernel ends after the pipeline"),
    (keeps_an_iteration, rf"{HERE}: instructions names iteration t of a call of a step that is over"),
    (counts_in_a_vgpr, rf"{HERE}: count=v\d+: a pipeline takes a whole number or one SGPR"),
    (counts_by_halves, rf"{HERE}: count=2.5: a pipeline takes a whole number or one SGPR"),
    (masks_the_first, rf"{HERE}: `with t.masked:` stands inside of `with t.first:`; an operation has one condition"),
    (reads_none_of_its_fills, rf"{HERE}: buffer_load_.* fills As\[0\], which nothing reads"),
    (fills_none_of_its_reads, rf"{HERE}: ds_read_.* reads As\[0\], which nothing fills"),
    (fills_another_iteration, rf"{HERE}: fill As\[t\+1\] from a.k\(t\+2\) names two iterations, t\+1 and t\+2"),
    (names_no_iteration_of_a_buffer, rf"{HERE}: As has 2 stages: index it with the step first"),
    (emits_nothing, rf"{HERE}: the step emits no instruction"),
    (yields, rf"{HERE}: the step emits no instruction: it has a yield"),
    (goes_half_a_step, rf"{HERE}: t \+ 0.5 is no iteration"),
    (changes_the_count, rf"{HERE}: s_sub_u32 .* changes s\d+ in the step, and the pipeline goes by it: count="),
    (releases_in_the_step, rf"{HERE}: the step releases 'A', which it needs again in its next iteration"),
    (branches_out_of_the_step, rf"{HERE}: s_cbranch_vccz out leaves the step"),
    (forgets_the_count, rf"{HERE}: count=s\d+: nothing has written 'steps' before the pipeline"),
    (forgets_the_group, rf"{HERE}: groups=s\d+: nothing has written 'group' before the pipeline"),
    (clears_no_sums, rf"{HERE}: v_mfma_.* adds to .*, which nothing has written before the pipeline"),
    (overwrites_a_stage_too_early, rf"{HERE}: v_mfma_.* reads As\[0\] for iteration t, where .* has written for 2 iterations later"),
    (reads_a_stage_too_early, rf"{HERE}: v_mfma_.* reads As\[[01]\] for iteration t\+1, where .* has written for 2 iterations earlier"),
    (gives_a_function_as_the_epilogue, rf"{HERE}: then=<function .*: what follows is one value, such as FollowingEpilogue"),
    (calls_the_step, rf"{HERE}: step=None: a pipeline takes a function of the iteration t"),
    (makes_no_schedule, rf"{HERE}: schedule=<class .*InOrder'> is no schedule; InOrder\(\) would do"),
    (frees_what_is_not_there, rf"{HERE}: no range is named 'X'"),
    (reads_what_the_loop_left, rf"{HERE}: v\d+ is used after its release: it was 'A' .*the taking of 'more\w*', for which no register"),
    (differs_from_buffer_to_buffer, rf"{HERE}: the step emits different operations in different phases"),
)


@pytest.mark.parametrize(("write", "sentence"), CASES, ids=[write.__name__ for write, _ in CASES])
def test_misuse_is_refused_at_the_authors_line(write: Callable[[TileBuilder], None], sentence: str) -> None:
    k = builder()
    with pytest.raises(AsmgenError, match=sentence):
        write(k)
        k.s_endpgm()
        k.finish()


def test_the_right_kernel_is_taken() -> None:
    stages(builder(), 1, 0)
    k = builder()
    has_an_epilogue(k)
    assert any("mul_f32" in item.name for item in k.finish().program.instructions)


def test_the_wave_is_computed_once_where_it_is_first_named() -> None:
    k = builder()
    k.s_nop(0)
    first = k.wave.register
    wm, wn = k.wave_grid(2, 2)
    names = [item.name for item in k.program().instructions]
    assert k.wave.register is first and names.count("v_readfirstlane_b32") == 1
    assert names.index("s_nop") < names.index("v_readfirstlane_b32") and (wm.count, wn.count) == (2, 2)
