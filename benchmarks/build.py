"""A cold `asmgen build gemm-bf16` (new process, no cache of ours), and where its time goes; once with clang, once with ziglang.

Prints the median of 10 of the whole process, its processor time with the assembler's, and the parts as one process sees them. Python's
bytecode is there, as pip leaves it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 10
_PARTS = """
import time
began = time.perf_counter()
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel, write_built
import asmgen.tools.cli, asmgen.kernels.gemm_bf16.library
imported = time.perf_counter()
import asmgen.author.emit.kernel as module
passes = []
for name in ("apply_waits", "insert_wait_states"):
    def timed(*given, plain=getattr(module, name)):
        start = time.perf_counter()
        result = plain(*given)
        passes.append(time.perf_counter() - start)
        return result
    setattr(module, name, timed)
text = family("gemm-bf16").build("gfx950", {"preload": False}).text()
built = time.perf_counter()
from asmgen.toolchain import assemble
assemble(text, "gfx950")
done = time.perf_counter()
print(imported - began, built - imported - sum(passes), sum(passes), done - built)
"""


def environment(zig: bool) -> dict[str, str]:
    """The process environment, in which bytecode is kept; with `zig` the ziglang package is the only assembler."""
    given = {**os.environ}
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    if zig:
        import ziglang

        given["ASMGEN_CLANG"] = os.path.join(os.path.dirname(ziglang.__file__), "zig")
    return given


def processor_time() -> float:
    """Seconds that children have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(runs: int = RUNS) -> None:
    """Print the figures, medians of `runs`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, zig in (("clang", False), ("ziglang", True)):
            whole, processor, parts = [], [], []
            given = environment(zig)
            command = [sys.executable, "-m", "asmgen.tools.cli", "build", "gemm-bf16", "--arch", "gfx950", "-o", folder]
            if runs > 1:  # the first run of all is not timed
                subprocess.run(command, check=True, env=given, stdout=subprocess.DEVNULL)
            for _ in range(runs):
                began, used = time.perf_counter(), processor_time()
                subprocess.run(command, check=True, env=given, stdout=subprocess.DEVNULL)
                whole.append(time.perf_counter() - began)
                processor.append(processor_time() - used)
                output = subprocess.run([sys.executable, "-c", _PARTS], check=True, env=given, capture_output=True, text=True).stdout
                parts.append([float(part) for part in output.split()])
            split = ", ".join(f"{part} {statistics.median(column):.3f}"
                              for part, column in zip(("import", "build", "passes", "assemble"), zip(*parts, strict=True), strict=True))
            print(f"cold build with {name}: {statistics.median(whole):.3f} s, median of {runs} ({min(whole):.3f} to {max(whole):.3f}), "
                  f"processor {statistics.median(processor):.3f} (least {min(processor):.3f}); {split}")


if __name__ == "__main__":
    main()
