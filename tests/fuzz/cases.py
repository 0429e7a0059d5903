"""The inputs: seeds that are right, and for each number one damaged copy with the command that it is thrown at."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asmgen.toolchain import assemble
from tests.fuzz import mutations
from tests.fuzz.reader import SAMPLE

BUDGET = 1_000_000
ARCH = "gfx950"

KERNEL = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.text
\t.globl add
\t.p2align 8
\t.type add,@function
add:
\ts_load_dwordx4 s[4:7], s[0:1], 0x0
\ts_load_dwordx2 s[8:9], s[0:1], 0x10
\tv_lshlrev_b32_e32 v1, 2, v0
\ts_waitcnt lgkmcnt(0)
\ts_min_u32 s9, s9, 64
\ts_max_u32 s9, s9, 1
.Lagain:
\tglobal_load_dword v2, v1, s[4:5]
\ts_waitcnt vmcnt(0)
\tv_add_f32_e32 v2, s8, v2
\tds_write_b32 v1, v2
\ts_waitcnt lgkmcnt(0)
\ts_barrier
\tds_read_b32 v3, v1
\ts_waitcnt lgkmcnt(0)
\tglobal_store_dword v1, v3, s[6:7]
\tscratch_store_dword off, v3, off
\ts_sub_u32 s9, s9, 1
\ts_cmp_lg_u32 s9, 0
\ts_cbranch_scc1 .Lagain
\ts_endpgm
.Lend:
\t.size add, .Lend-add
\t.section .rodata,"a",@progbits
\t.p2align 6
\t.amdhsa_kernel add
\t\t.amdhsa_next_free_vgpr 8
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_accum_offset 8
\t\t.amdhsa_group_segment_fixed_size 256
\t\t.amdhsa_private_segment_fixed_size 16
\t\t.amdhsa_enable_private_segment 1
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t.end_amdhsa_kernel
\t.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: add
    .symbol: add.kd
    .kernarg_segment_size: 40
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 16
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 256
    .args:
      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 16, .size: 4, .value_kind: by_value, .name: scale}
      - {.offset: 20, .size: 4, .value_kind: by_value, .name: count}
      - {.offset: 24, .size: 4, .value_kind: hidden_block_count_x}
      - {.offset: 28, .size: 2, .value_kind: hidden_group_size_x}
\t.end_amdgpu_metadata
"""
SPEC: dict[str, Any] = {
    "code_object": "k.co", "kernel": "add", "arch": "gfx950", "grid": [2, 1, 1], "block": [64, 1, 1], "dynamic_lds": 0,
    "args": [{"offset": 0, "buffer": "a.npy", "save": "o.npy"}, {"zeros": 4096, "save": "o.bin"}, {"scalar": "f32", "value": 2.5},
             {"scalar": "u32", "value": 1}], "order": "lockstep", "checks": True,
}
_KINDS, _WEIGHTS = ("assembly", "object", "specification"), (4, 3, 3)


@dataclass(frozen=True)
class Case:
    """One input: the file that is damaged, its bytes, and the command."""

    number: int
    kind: str
    file: str
    data: bytes
    command: tuple[str, ...]


class Cases:
    """Makes inputs; `folder` must be empty and is theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.object = assemble(KERNEL, ARCH)
        self._parts = mutations.parts_of(self.object)
        a = np.arange(1024, dtype=np.float32)
        np.save(folder / "a.npy", a)
        np.save(folder / "objects.npy", np.array([object()]), allow_pickle=True)
        (folder / "a.bin").write_bytes(a.tobytes())
        good = (folder / "a.npy").read_bytes()
        (folder / "bad.npy").write_bytes(good[:100])
        (folder / "huge.npy").write_bytes(good.replace(b"(1024,), }            ", b"(99999999999999999,), }", 1))
        with (folder / "sparse.bin").open("wb") as file:
            file.truncate(1 << 33)
        (folder / "link.bin").symlink_to("a.bin")
        (folder / "hard.bin").hardlink_to(folder / "a.bin")
        os.mkfifo(folder / "pipe")
        self.restore()

    def restore(self) -> None:
        """The files that a case changes, as they were."""
        (self.folder / "k.co").write_bytes(self.object)
        (self.folder / "k.s").write_text(KERNEL)
        (self.folder / "spec.json").write_text(json.dumps(SPEC))

    def whole(self) -> Iterator[tuple[str, ...]]:
        """Commands on what is not damaged: each ends well."""
        for file in ("k.s", "k.co"):
            yield "lint", file
            yield "inspect", file
            yield "inspect", file, "--json"
        yield "explain", "k.s:8"
        yield "explain", "k.co:0x1600"
        yield "launch", "spec.json", "--device", "emulator", "--budget", str(BUDGET)

    def case(self, number: int, seed: int = 0) -> Case:
        """The input of that number, the same for ever."""
        rng = random.Random(f"{seed}:{number}")
        kind = rng.choices(_KINDS, _WEIGHTS)[0]
        launch = ("launch", "spec.json", "--device", "emulator", "--budget", str(BUDGET))
        if kind == "specification":
            spec = json.loads(json.dumps(SPEC))
            return Case(number, kind, "spec.json", mutations.damaged_spec(rng, spec), launch)
        if kind == "assembly":
            data = mutations.damaged_assembly(rng, rng.choice((SAMPLE, KERNEL)))
            place = f"k.s:{rng.choice((8, 20, 30, 10**9))}"
            command = rng.choice((("lint", "k.s"), ("lint", "k.s"), ("inspect", "k.s"), ("explain", place)))
            return Case(number, kind, "k.s", data, command)
        data = mutations.damaged_object(rng, self.object, self._parts)
        place = f"k.co:{rng.choice((0x1600, 0x1608, 0, 1 << 70)):#x}"
        return Case(number, kind, "k.co", data, rng.choice((("lint", "k.co"), ("inspect", "k.co"), ("explain", place), launch, launch)))
