"""A step is recorded once; its phases are renamings of phase 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import asmgen as ag
from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.loop.stepunits import StepUnits
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import Copy, PipelineError
from asmgen.isa.registers import Reg, a, v
from asmgen.kernels.registry import family
from asmgen.program.program import Instruction
from asmgen.regalloc.phased import Phased, at_phase

# A build for each way in which buffers take turns: registers, LDS by DMA and through registers, three and eight buffers, scales by number.
BUILDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "LDS": ("gemm-bf16", "gfx950", {"tile": "128x128x64", "schedule": "interleave"}),
    "one buffer": ("gemm-bf16", "gfx942", {"tile": "128x128x64", "schedule": "interleave"}),
    "registers": ("gemm-bf16", "gfx950", {"tile": "16x32x64"}),
    "eight buffers": ("gemm-fp8", "gfx950", {"tile": "64x64x128", "schedule": "interleave"}),
    "by number": ("gemm-fp8", "gfx950", {"tile": "128x256x128", "schedule": "ping-pong", "scales": "block"}),
    "scores": ("attention-forward", "gfx942", {"d": 128}),
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StepUnits, list[int]]]:
    """The steps that are recorded, each with the phases for which its function is called."""
    found: list[tuple[StepUnits, list[int]]] = []
    call = StepUnits._call

    def counting(self: StepUnits, phase: int) -> tuple[Copy, list[Unit]]:
        if not found or found[-1][0] is not self:
            found.append((self, []))
        found[-1][1].append(phase)
        return call(self, phase)

    monkeypatch.setattr(StepUnits, "_call", counting)
    return found


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.slow_after_first
def test_renaming_gives_what_a_call_for_each_phase_gives(name: str, recorded: list[tuple[StepUnits, list[int]]],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, arch, parameters = BUILDS[name]
    compared = []
    survey = StepUnits._survey

    def comparing(self: StepUnits) -> Any:
        shape = survey(self)
        called = list(recorded[-1][1])
        for phase in range(shape.unroll):
            compared.append((called, [_shown(unit) for unit in self._of(phase)], [_shown(unit) for unit in self._call(phase)[1]]))
        return shape

    monkeypatch.setattr(StepUnits, "_survey", comparing)
    family(kernel).build(arch, parameters)
    assert len(compared) > (name != "one buffer")
    for called, renamed, run in compared:
        assert called == [0]
        assert renamed == run
    assert len({str(renamed) for _, renamed, _ in compared}) == len(compared)


def _shown(unit: Unit) -> tuple[Any, ...]:
    tag = unit.tag._replace(block=unit.tag.block.partition("#")[0])
    return tag, [(one.name, [str(operand) for operand in one.operands if not one.is_branch], dict(one.modifiers), one.tokens, one.source)
                 for one in unit.items if isinstance(one, Instruction)]


def builder() -> TileBuilder:
    arguments = (ContractArgument("a", "pointer", ""), ContractArgument("n", "u32", ""))
    contract = KernelContract("phases", "phases", ("gfx950",), (), arguments, (64, 1, 1), Formula("one", lambda _: (1, 1, 1)))
    return TileBuilder(contract, "gfx950", {}, waves=1)


def texts(k: TileBuilder, step: Callable[[ag.StepIndex], None], recorded: list[tuple[StepUnits, list[int]]]) -> list[list[str]]:
    """The instructions of each phase."""
    k.pipeline(step, k.argument("n"), ag.InOrder())
    units = recorded[-1][0]
    return [[one.text for unit in units._of(phase) for one in unit.instructions] for phase in range(units.shape.unroll)]


def test_registers_by_the_number_of_a_buffer_take_turns(recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    x, y = k.registers.pin("x", v[8:13]), k.registers.pin("y", v[20])

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            k.v_mov_b32(x[2 * t.buffer(3) + 1], t.buffer(3))
            k.v_fma_f32(y, -x[2 * (t + 1).buffer(3)], abs(y), y)

    assert texts(k, step, recorded) == [
        ["v_mov_b32 v9, 0", "v_fma_f32 v20, -v10, |v20|, v20"], ["v_mov_b32 v11, 1", "v_fma_f32 v20, -v12, |v20|, v20"],
        ["v_mov_b32 v13, 2", "v_fma_f32 v20, -v8, |v20|, v20"]]
    assert recorded[-1][1] == [0]


def test_a_step_that_needs_the_number_itself_is_called_for_each_phase(recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    k.registers.pin("xs", v[8:9])
    xs = (v[9], v[8])

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            k.v_mov_b32(xs[t.buffer(2)], 1)

    assert texts(k, step, recorded) == [["v_mov_b32 v9, 1"], ["v_mov_b32 v8, 1"]]
    assert recorded[-1][1] == [0, 1]


def test_one_stage_by_name_stays_that_stage(recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    x = k.tile("x", 32, 16, k.matrix_shape("f32_32x32x16_bf16").a, at=v[4:11], stages=2)
    own = x.tiles[0].registers.items[0]

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            k.v_mov_b32(x[t].registers.items[0], own)

    assert texts(k, step, recorded) == [["v_mov_b32 v4, v4"], ["v_mov_b32 v8, v4"]]


@pytest.mark.parametrize("other", [v[13:16], a[12:15]])
def test_buffers_that_do_not_lie_alike_are_refused(other: Reg, recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    M = k.matrix_shape("f32_32x32x16_bf16")
    x = k.tile("x", 32, 16, M.a, at=(v[4:7], other), stages=2)
    y = k.registers.pin("y", v[20:35])

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            k.v_mfma_f32_32x32x16_bf16(y, x[t].base(0, 0), x[t].base(0, 0), y)

    with pytest.raises(PipelineError, match=r"test_phases.py:\d+: v_mfma_.* names v\[4:7\], which is [va]\[1.*\] in another phase"):
        k.pipeline(step, 4, ag.InOrder())


def test_temporaries_keep_clear_of_what_is_hoisted_after_them(recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    x = k.registers.pin("x", v[8])

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            with k.scratch("one") as one:
                k.v_mov_b32(one, 1)
                k.v_mov_b32(x, one)
            address = k.hoist(lambda: k.registers.vgprs(1, k.registers.unused("address")))
            k.v_add_u32(x, x, address)

    (found,) = texts(k, step, recorded)
    temporary = found[0].split()[1].rstrip(",")
    assert found[1] == f"v_mov_b32 v8, {temporary}"
    assert found[2].split()[-1] not in (temporary, "v8")


@pytest.mark.parametrize("calls", [1, 2])
def test_views_of_temporaries_go_with_them(calls: int, recorded: list[tuple[StepUnits, list[int]]]) -> None:
    """A set of registers that the step takes and releases is taken again by a second call."""
    k = builder()
    x = k.registers.pin("x", v[8])

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            with k.scratch("two", 2) as two:
                seen = k.registers.view("high half", two[1])
                k.v_mov_b32(two[0], 1)
                k.v_mov_b32(seen, two[0])
                k.v_mov_b32(x, two[1])
            if calls > 1:
                pool = k.registers.pooled("set", 1)
                k.v_mov_b32(pool.items[0], x)
                k.registers.release("set")
            address = k.hoist(lambda: k.registers.vgprs(2, k.registers.unused("address"), align=2)) if not held else held[0]
            held.append(address)
            k.v_add_u32(x, x, address[0])

    held: list[Reg] = []
    (found,) = texts(k, step, recorded)
    low = found[0].split()[1].rstrip(",")
    high = f"v{int(low[1:]) + 1}"
    assert found[1:3] == [f"v_mov_b32 {high}, {low}", f"v_mov_b32 v8, {high}"]
    taken = [found[3].split()[1].rstrip(",")] if calls > 1 else []
    assert not {low, high, *taken} & {str(held[0][0]), str(held[0][1]), "v8"}
    assert recorded[-1][1] == [0] * calls


def test_a_step_that_takes_what_is_free_is_called_again_for_less(recorded: list[tuple[StepUnits, list[int]]]) -> None:
    k = builder()
    x = k.registers.pin("x", v[8])
    most = next(count for count in range(256, 0, -1) if k.registers.has(count, "v"))

    def step(t: ag.StepIndex) -> None:
        with k.at(t):
            with k.scratch("few") as few, k.scratch("many", most - 2 if k.has_scratch(most - 2) else 2) as many:
                k.v_mov_b32(few, many[0])
            address = held[0] if held else k.hoist(lambda: k.registers.vgprs(most // 2, "address"))
            held.append(address)
            k.v_add_u32(x, x, address[0])

    held: list[Reg] = []
    (found,) = texts(k, step, recorded)
    assert recorded[-1][1] == [0, 0]
    assert not {int(one.strip(" v")) for one in found[0].partition(" ")[2].split(",")} & {8, *range(held[0].index, held[0].last + 1)}
    assert not [one.name for one in k.registers.live() if one.name.startswith(("few", "many"))]


def test_arithmetic_of_what_takes_turns() -> None:
    asked: list[None] = []
    number = Phased((2, 0, 1), lambda: asked.append(None))
    shown = [3 * number + 1, 10 - number, number - 1, number % 2, number // 2, number ^ 1, number + Phased((0, 10))]
    assert [list(one.values) for one in shown] == [[7, 1, 4], [8, 10, 9], [1, -1, 0], [0, 0, 1], [1, 0, 0], [3, 1, 0],
                                                   [2, 10, 1, 12, 0, 11]]
    assert [at_phase(number, phase) for phase in range(4)] == [2, 0, 1, 2]
    assert not asked
    assert "abc"[number] == "c"
    assert number == 2
    assert len(asked) == 2
