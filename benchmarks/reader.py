"""How fast llvm-objdump's text becomes a Program: 10,000 instructions in at most 1.5 s on one core, llvm-objdump itself not counted.

The code is the library's GEMM kernel again and again, each time with other vector registers, so that few lines occur twice.
"""

from __future__ import annotations

import re
import sys
import time

from asmgen.kernels.registry import family
from asmgen.program.program import Program
from asmgen.program.text import program_text
from asmgen.reader.listing import parse_listing
from asmgen.reader.pieces import listing_programs
from asmgen.toolchain import assemble, disassemble

WANTED = 10_000
LIMIT = 1.5  # seconds
_VECTOR = re.compile(r"\b([va])(?:\[(\d+):(\d+)\]|(\d+)\b)")


def shifted(line: str, by: int) -> str:
    """The line with each vector register `by` further, ranges kept inside the file."""
    def move(match: re.Match[str]) -> str:
        first, last = (int(match[2]), int(match[3])) if match[2] else (int(match[4]), int(match[4]))
        step = min(by, (255 - last) // 2 * 2)
        return f"{match[1]}[{first + step}:{last + step}]" if match[2] else f"{match[1]}{first + step}"
    return _VECTOR.sub(move, line)


def code(arch: str, wanted: int) -> str:
    program = family("gemm-bf16").build(arch, {"preload": False}).program
    lines = [line for line in program_text(program).split("\n") if "s_endpgm" not in line]
    labels = [line[:-1] for line in lines if line.endswith(":")]
    text = ["\t.text"]
    for copy in range(-(-wanted // len(lines)) + 1):
        for line in lines:
            for label in labels:
                line = line.replace(label, f"{label}_{copy}")
            text.append(shifted(line.partition(";")[0].rstrip(), 2 * copy))
    return "\n".join([*text, "\ts_endpgm", ""])


def read(listing: str, arch: str) -> Program:
    (program,) = listing_programs(listing, arch, "gemm", "gemm.lst")
    return program


def main(wanted: int = WANTED) -> int:
    slow = False
    for arch in ("gfx942", "gfx950"):
        listing = disassemble(assemble(code(arch, wanted), arch), arch)
        lines = parse_listing(listing).lines
        start = time.perf_counter()
        program = read(listing, arch)
        assert program.instructions and program.labels
        seconds = time.perf_counter() - start
        each = seconds / len(program)
        different = len({line.text for line in lines})
        slow |= each * WANTED > LIMIT
        print(f"{arch}: {len(program)} instructions ({different} different) in {seconds:.2f} s: "
              f"{each * WANTED:.2f} s for {WANTED} (limit {LIMIT} s)")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
