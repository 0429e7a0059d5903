"""Five forms of the library's 8-wave attention of d 128 on the cycle model, beside five of a measured kernel.

    python -m benchmarks.attention_forms

The measured kernel is another one with the same skeleton (docs/facts/model_evidence.md section 1). Printed are predicted clk of a body of
two tiles of keys, and the change from the form with pacing nops, s_setprio and lazy rescaling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.table import opcode
from asmgen.isa.timing import timing
from asmgen.kernels.registry import family
from asmgen.model.farmemory import GridLoads, far_memory
from asmgen.model.profile import LoopProfile, profile
from asmgen.program.program import Instruction, Item, Program
from asmgen.tools.profile_command import trace_kernel
from asmgen.tools.running.build import build_kernel

MEASURED = {"nops, setprio": 4831, "setprio": 4621, "nops": 4713, "neither": 4819, "eager": 6694}
"""clk of a body."""
_NOP = opcode("s_nop")
_MEMORY = ("ds_", "buffer_load")
_LOADS = GridLoads({}, 100, 13.5, 8, 256)  # of 16 heads of 4096 keys


def traced(sequence: int, **build: str) -> tuple[Program, list[WaveTrace]]:
    """The first workgroup of the 8-wave kernel."""
    library = family("attention-forward")
    built = build_kernel(library, "gfx950", {"d": 128, "schedule": "ping-pong", **build})
    shape = {**built.kernel.parameters, "b": 16, "hq": 16, "hkv": 16, "sq": sequence}
    trace = trace_kernel(library, built, built.kernel.contract.resolve_run(shape), 1).trace
    assert trace.program is not None
    return trace.program, list(trace.waves())


def main_loop(program: Program, waves: list[WaveTrace]) -> LoopProfile:
    """Its main loop."""
    chosen = timing("MI355X")
    found = profile(program, waves, chosen, far=far_memory(chosen, "grid", _LOADS, 1620)).main_loop
    assert found is not None
    return found


def memory_stages(program: Program, loop: LoopProfile) -> dict[int, int]:
    """The first positions of the stages in the loop that begin with memory, each with the s_nop that goes there."""
    code = program.instructions
    heads = [loop.first, *(at + 1 for at in range(loop.first, loop.last) if code[at].name == "s_barrier")]

    def first_work(head: int) -> str:
        return next((code[at].name for at in range(head, loop.last + 1) if code[at].name.startswith(("v_mfma", "s_barrier", *_MEMORY))), "")

    return {head: 1 for head in heads if first_work(head).startswith(_MEMORY)}


def changed(program: Program, waves: list[WaveTrace], nops: Mapping[int, int], setprio: bool) -> tuple[Program, list[WaveTrace]]:
    """The program and its traces with nops before some positions, and without s_setprio unless it stays."""
    items: list[Item] = []
    moved: dict[int, tuple[int, ...]] = {}
    position = count = 0
    for item in program.items:
        if not isinstance(item, Instruction):
            items.append(item)
            continue
        added: list[Item] = [Instruction(_NOP, _NOP.forms[0], (nops[position],), size=4)] if position in nops else []
        added += [replace(item, address=None)] if setprio or item.name != "s_setprio" else []
        moved[position] = tuple(range(count, count + len(added)))
        items += added
        position, count = position + 1, count + len(added)
    return program.with_items(items), [replace(wave, positions=tuple(new for old in wave.positions for new in moved[old]))
                                       for wave in waves]


def main(sequence: int = 4096) -> None:
    """Print the table."""
    lazy, eager = traced(sequence), traced(sequence, rescale="eager")
    stages = memory_stages(lazy[0], main_loop(*lazy))
    forms = {"nops, setprio": changed(*lazy, stages, True), "setprio": lazy, "nops": changed(*lazy, stages, False),
             "neither": changed(*lazy, {}, False),
             "eager": changed(*eager, memory_stages(eager[0], main_loop(*eager)), True)}
    print("form             predicted clk            measured clk of another kernel")
    base = 0.0
    for name, form in forms.items():
        loop = main_loop(*form)
        clocks = 2 * loop.cycles / loop.unroll
        base = base or clocks
        print(f"{name:16}{clocks:8.0f} {clocks / base - 1:+7.1%}       {MEASURED[name]:8} {MEASURED[name] / 4831 - 1:+7.1%}")


if __name__ == "__main__":
    main()
