"""Where the emulator's time goes for a real kernel: `python -m benchmarks.profile_kernel KERNEL [--no-checks]`.

KERNEL is gemm-bf16:gfx942, gemm-bf16:gfx950 or masked_gemm:ARCH (tests/hip_sources, built by clang). A timer interrupts the process every
millisecond of its CPU time and notes the stack; compiled loops and numpy count for the Python line that called them.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel

INTERVAL = 0.001
SECONDS = 4.0
SHOWN = 14
_FOLDER = Path(__file__).resolve().parent.parent


class Sampler:
    """Counts, by file and by function of the emulator, where the process is; the innermost frame of this project is what counts."""

    def __init__(self) -> None:
        self.functions: Counter[str] = Counter()
        self.files: Counter[str] = Counter()
        self.samples = 0

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        self.samples += 1
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(_FOLDER) and ".venv" not in path.parts:
                name = f"{path.parent.name}/{path.name}"
                self.files[name] += 1
                self.functions[f"{name} {frame.f_code.co_qualname.replace('.<locals>', '')}"] += 1
                return
            frame = frame.f_back
        self.files["elsewhere"] += 1

    def watch(self, run: Callable[[], float], seconds: float) -> float:
        """Call `run`, which returns the seconds it took, until `seconds` have passed; returns how often."""
        run()
        signal.signal(signal.SIGPROF, self.note)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        spent, times = 0.0, 0
        try:
            while spent < seconds:
                spent += run()
                times += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return times

    def show(self) -> None:
        """Shares of the samples, by file and by function."""
        for title, counter in (("file", self.files), ("function", self.functions)):
            print(f"  share  {title}")
            for name, count in counter.most_common(SHOWN):
                print(f"  {100 * count / self.samples:5.1f}  {name}")


def library_kernel(name: str, arch: str, checks: bool, edge: int) -> Callable[[], float]:
    """A matrix kernel of the library, on `edge` x `edge` x `edge` / 2."""
    library = family(name)
    parameters = library.contract(arch).resolve_run({"m": edge, "n": edge, "k": edge // 2})
    built = build_kernel(library, arch, {})
    return lambda: run_kernel(library, built, parameters, "emulator", program=built.kernel.program, options=Options(checks=checks)).seconds


def hip_kernel(name: str, arch: str, checks: bool, edge: int) -> Callable[[], float]:
    """The tiled matrix product of tests/hip_sources/masked_gemm.hip: LDS, barriers, partial EXEC."""
    from tests.clang_objects import hip_object

    rng = np.random.default_rng(1)
    m, n, k = edge // 4 - 6, edge // 4 + 4, edge // 8
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    code = hip_object(name, arch)
    device = EmulatedDevice(arch, Options(checks=checks))

    def run() -> float:
        out = np.zeros((m, n), np.float32)
        result = device.launch(code.kernel(name), (-(-n // 16), -(-m // 16), 1), (256, 1, 1), [out, a, b, m, n, k])
        if not np.allclose(out, a @ b, atol=1e-3):
            raise SystemExit("the result is wrong")
        return result.seconds

    return run


def main(arguments: list[str], seconds: float = SECONDS, edge: int = 1024) -> None:
    """Profile one kernel for `seconds` and print where the time went."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(names) != 1 or ":" not in names[0]:
        raise SystemExit(__doc__)
    name, _, arch = names[0].partition(":")
    checks = "--no-checks" not in arguments
    sampler = Sampler()
    times = sampler.watch((library_kernel if name == "gemm-bf16" else hip_kernel)(name, arch, checks, edge), seconds)
    print(f"{names[0]}, checks {'on' if checks else 'off'}: {sampler.samples} samples in {times:.0f} launches")
    sampler.show()


if __name__ == "__main__":
    main(sys.argv[1:])
