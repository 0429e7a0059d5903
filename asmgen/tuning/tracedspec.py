"""What the first workgroups of a launch specification execute, and which of all its workgroups load the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asmgen.emulator.scheduling.firstloads import FirstLoads
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace, TracedArgument
from asmgen.isa.timing import gpu_of, timing
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.launch.spec import SolvedProblem, read_spec
from asmgen.launch.specrun import TracedLaunch, trace_launch_spec
from asmgen.model.causalsteps import causal_steps
from asmgen.model.costs import costs_of
from asmgen.model.sharedloads import shared_loads, tiled_loads
from asmgen.model.steering import idle_arithmetic
from asmgen.model.traffic import LoadOrder, moved_bytes
from asmgen.model.unequal import Steps
from asmgen.tuning.traced import Traced


def trace_spec(path: Path, workgroups: int, memory_limit: int = MEMORY_LIMIT) -> tuple[list[Traced], str, SolvedProblem | None]:
    """The traces of its launches, the architecture, and the problem that all of them solve together. Raises AsmgenError as a launch
    does."""
    traces: list[Trace] = []

    def options(kernel: str) -> Options:
        traces.append(Trace(workgroups, idle=idle_arithmetic))
        return Options(checks=False, trace=traces[-1])

    launches = trace_launch_spec(path, options, memory_limit, lambda: FirstLoads(idle=idle_arithmetic))
    found = [_traced(trace, launched) for trace, launched in zip(traces, launches, strict=True)]
    return found, launches[0].arch, read_spec(path).problem


def _traced(trace: Trace, launched: TracedLaunch) -> Traced:
    trace.arguments = launched.arguments
    assert trace.program is not None and launched.first is not None
    order = shared_loads(launched.first, launched.arguments, trace.program, list(trace.waves()))
    problem = launched.problem
    if order is None and problem is not None and problem.tile is not None:
        order = _tiled(problem, trace, launched.arguments, launched.arch, launched.workgroups)
    flops = problem.flops if problem is not None else None
    steps = _steps(problem, trace, order, launched) if problem is not None and problem.causal else None
    return Traced(launched.kernel, trace, launched.workgroups, order, steps=steps, flops=flops)


def _steps(problem: SolvedProblem, trace: Trace, order: LoadOrder | None, launched: TracedLaunch) -> Steps | None:
    """Those of each workgroup of causal attention; workgroups with the same keys are those that share the slab of an argument that has as
    many as there are heads of keys."""
    assert trace.program is not None
    costs = costs_of(trace.program, timing(gpu_of(launched.arch)))
    waves = list(trace.waves())
    flops = sum(costs[position].flops for wave in waves for position in wave.positions) / len({wave.workgroup for wave in waves})
    heads = problem.sizes["b"] * problem.sizes["hkv"]
    slabs = list(zip(*order.slabs, strict=True)) if order is not None else []
    shared = next((one for one in slabs if len(set(one)) == heads), ())
    return causal_steps(problem.sizes, problem.flops_of_pair, problem.backward, launched.workgroups, flops, shared)


def _tiled(problem: SolvedProblem, trace: Trace, arguments: Sequence[TracedArgument], arch: str, workgroups: int) -> LoadOrder | None:
    """By the tiles that the specification tells; A and B are the arguments of which most is loaded, in their order."""
    assert trace.program is not None and problem.tile is not None
    loaded, _ = moved_bytes(costs_of(trace.program, timing(gpu_of(arch))), list(trace.waves()), len(arguments))
    most = sorted(range(len(arguments)), key=lambda number: -loaded[number])[:2]
    if len(most) < 2 or not loaded[most[1]]:
        return None
    sizes = problem.sizes["m"], problem.sizes["n"], problem.sizes["k"]
    return tiled_loads(sizes, problem.tile, problem.split * problem.sizes["b"], (min(most), max(most)), workgroups)
