"""Emitted directives and metadata, assembled, read back by LLVM and by us; literals from docs/facts/instructions.md sections 4 to 6."""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from asmgen.codeobject.descriptor import CodeObjectError, KernelDescriptor
from asmgen.codeobject.directives import (
    ArgumentLoad,
    KernelResources,
    argument_loads,
    file_header,
    file_trailer,
    header,
    kernel_header,
    kernel_trailer,
    trailer,
)
from asmgen.codeobject.load import CodeObject
from asmgen.codeobject.metadata import Argument, arguments
from asmgen.toolchain import assemble, find_tool, require_objdump

READOBJ = find_tool("llvm-readobj") or ()
BASE = KernelResources("probe", "gfx950", vgprs=66, sgprs=30)


def build(resources: KernelResources, folder: Path, body: str = "\ts_endpgm\n") -> Path:
    path = folder / "k.co"
    path.write_bytes(assemble(header(resources) + body + trailer(resources), resources.arch))
    return path


def descriptor_bytes(path: Path) -> bytes:
    """The descriptor as LLVM's tools find it, so that our own reader is not its own witness."""
    symbols = subprocess.run([*require_objdump(), "-t", path], capture_output=True, text=True, check=True).stdout
    match = re.search(r"^([0-9a-f]{16}) .* probe\.kd$", symbols, re.MULTILINE)
    assert match
    address = int(match[1], 16)
    return path.read_bytes()[address : address + 64]  # .rodata stands in the first segment, where address is file offset


@pytest.mark.parametrize(("arch", "mach"), [("gfx942", 0x54C), ("gfx950", 0x54F)])
@pytest.mark.parametrize(("version", "abi"), [(5, 3), (6, 4)])
def test_elf_identity(arch: str, mach: int, version: int, abi: int, tmp_path: Path) -> None:
    path = build(replace(BASE, arch=arch, code_object_version=version), tmp_path)
    data = path.read_bytes()
    assert (data[7], data[8], struct.unpack_from("<I", data, 48)[0]) == (64, abi, mach)
    loaded = CodeObject.load(path)
    assert (loaded.arch, loaded.abi_version, loaded.xnack, loaded.sramecc) == (arch, version, "any", "any")


@pytest.mark.needs_objdump
@pytest.mark.parametrize(
    ("vgprs", "agprs", "granule", "accum_field", "total"),
    [
        (129, 0, 16, 32, 129),
        (1, 0, 0, 0, 1),
        (66, 61, 16, 16, 129),
        (4, 4, 0, 0, 8),
        (256, 256, 63, 63, 512),
        (0, 0, 0, 0, 1),
        (253, 1, 32, 63, 257),
    ],
)
def test_registers_in_the_descriptor(vgprs: int, agprs: int, granule: int, accum_field: int, total: int, tmp_path: Path) -> None:
    path = build(replace(BASE, vgprs=vgprs, agprs=agprs), tmp_path)
    raw = descriptor_bytes(path)
    rsrc3, rsrc1 = struct.unpack_from("<II", raw, 44)
    assert (rsrc1 & 63, rsrc3 & 63) == (granule, accum_field)
    assert rsrc1 & ~0x3FF == 0x00AC0000
    kernel = CodeObject.load(path).kernel()
    assert (kernel.descriptor.vgprs, kernel.descriptor.accum_offset) == (granule * 8 + 8, accum_field * 4 + 4)
    assert (kernel.resources.vgpr_count, kernel.resources.agpr_count) == (total, agprs)


@pytest.mark.needs_objdump
@pytest.mark.parametrize(
    ("changes", "rsrc1", "rsrc2", "rsrc3"),
    [
        ({}, 0x00AC0108, 0x0084, 16),  # 66 VGPRs: 8; 30 + 6 SGPRs: 4; two user SGPRs; workgroup id x
        ({"denorm32": 3}, 0x00AF0108, 0x0084, 16),
        ({"ieee_mode": False, "dx10_clamp": False, "fp16_overflow": True}, 0x040C0108, 0x0084, 16),
        ({"round32": 1, "round16_64": 2, "denorm16_64": 1}, 0x00A49108, 0x0084, 16),
        ({"workgroup_ids": (False, True, True), "workitem_id": 2}, 0x00AC0108, 0x1304, 16),
        ({"tg_split": True, "workitem_id": 1}, 0x00AC0108, 0x0884, 0x10010),
    ],
)
def test_modes_in_the_descriptor(changes: dict[str, object], rsrc1: int, rsrc2: int, rsrc3: int, tmp_path: Path) -> None:
    raw = descriptor_bytes(build(replace(BASE, **changes), tmp_path))  # type: ignore[arg-type]
    assert struct.unpack_from("<III", raw, 44) == (rsrc3, rsrc1, rsrc2)
    assert struct.unpack_from("<HH", raw, 56) == (1 << 3, 0)


@pytest.mark.needs_objdump
def test_float_mode_defaults_to_that_of_production_kernels(tmp_path: Path) -> None:
    descriptor = KernelDescriptor.from_bytes(descriptor_bytes(build(BASE, tmp_path)))
    assert (descriptor.float_mode, descriptor.denorm32, descriptor.denorm16_64) == (0xC0, 0, 3)
    assert descriptor.ieee_mode and descriptor.dx10_clamp and not descriptor.fp16_overflow


@pytest.mark.skipif(not READOBJ, reason="llvm-readobj was not found")
@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_metadata_as_llvm_reads_it(arch: str, tmp_path: Path) -> None:
    table = arguments([("a", "pointer"), ("m", "i32"), ("x", "f64"), ("true", "u8"), ("12", "bf16"), ("", "hidden_group_size_y")])
    resources = replace(BASE, arch=arch, agprs=8, lds_bytes=65536, arguments=table, reqd_workgroup_size=(32, 4, 2))
    path = build(resources, tmp_path)
    notes = subprocess.run([*READOBJ, "--notes", path], capture_output=True, text=True, check=True).stdout
    start = notes.index("amdhsa.kernels")
    assert re.sub(r"[ \t]+", " ", notes[start : notes.index("...", start)]) == (
        "amdhsa.kernels:\n - .agpr_count: 8\n .args:\n"
        " - .address_space: global\n .name: a\n .offset: 0\n .size: 8\n .value_kind: global_buffer\n"
        " - .name: m\n .offset: 8\n .size: 4\n .value_kind: by_value\n"
        " - .name: x\n .offset: 16\n .size: 8\n .value_kind: by_value\n"
        " - .name: !str 'true'\n .offset: 24\n .size: 1\n .value_kind: by_value\n"
        " - .name: !str '12'\n .offset: 26\n .size: 2\n .value_kind: by_value\n"
        " - .offset: 28\n .size: 2\n .value_kind: hidden_group_size_y\n"
        " .group_segment_fixed_size: 65536\n .kernarg_segment_align: 8\n .kernarg_segment_size: 30\n"
        " .max_flat_workgroup_size: 256\n .name: probe\n .private_segment_fixed_size: 0\n"
        " .reqd_workgroup_size:\n - 32\n - 4\n - 2\n"
        " .sgpr_count: 36\n .sgpr_spill_count: 0\n .symbol: probe.kd\n .uses_dynamic_stack: false\n"
        " .vgpr_count: 76\n .vgpr_spill_count: 0\n .wavefront_size: 64\n"
        f"amdhsa.target: amdgcn-amd-amdhsa--{arch}\namdhsa.version:\n - 1\n - 2\n"
    )
    raw = descriptor_bytes(path)
    assert struct.unpack_from("<III", raw, 0) == (65536, 0, 30)
    kernel = CodeObject.load(path).kernel("probe")
    assert kernel.arguments == table
    assert kernel.metadata[".reqd_workgroup_size"] == [32, 4, 2]
    assert [argument.hidden for argument in kernel.arguments] == [False] * 5 + [True]


@pytest.mark.needs_objdump
@pytest.mark.parametrize(("dwords", "offset", "field"), [(14, 0, 14), (5, 1, 133), (1, 3, 385)])
def test_preload(dwords: int, offset: int, field: int, tmp_path: Path) -> None:
    table = arguments([(f"p{i}", "pointer") for i in range(7)])
    resources = replace(BASE, arguments=table, kernarg_preload=dwords, kernarg_preload_offset=offset, workgroup_ids=(True, False, True))
    names = {1: "s_load_dword", 2: "s_load_dwordx2", 4: "s_load_dwordx4", 8: "s_load_dwordx8", 16: "s_load_dwordx16"}
    body = ""
    loaded: dict[int, int] = {}
    for chunk in argument_loads(2, dwords, 4 * offset):
        last = chunk.sgpr + chunk.dwords - 1
        body += f"\t{names[chunk.dwords]} s[{chunk.sgpr}:{last}], s[0:1], {chunk.offset:#x}\n"
        loaded |= {chunk.sgpr + index: chunk.offset + 4 * index for index in range(chunk.dwords)}
    assert loaded == {2 + index: 4 * (offset + index) for index in range(dwords)}
    body += "\ts_waitcnt lgkmcnt(0)\n\ts_branch body\n\t.p2align 8\nbody:\n\ts_endpgm\n"
    path = build(resources, tmp_path, body)  # the assembler rejects a misaligned tuple
    raw = descriptor_bytes(path)
    assert struct.unpack_from("<H", raw, 58)[0] == field
    assert struct.unpack_from("<I", raw, 52)[0] >> 1 & 31 == 2 + dwords
    kernel = CodeObject.load(path).kernel()
    assert kernel.descriptor.sgpr_layout() == [
        ("kernarg_segment_ptr", 0, 2),
        ("kernarg_preload", 2, dwords),
        ("workgroup_id_x", 2 + dwords, 1),
        ("workgroup_id_z", 3 + dwords, 1),
    ]
    assert resources.sgpr_layout() == kernel.descriptor.sgpr_layout()
    assert kernel.start == kernel.entry + 256
    assert CodeObject.load(path).read(kernel.start, 4) == bytes.fromhex("000081bf")  # s_endpgm


def test_preload_chunks_are_as_few_as_alignment_allows() -> None:
    assert argument_loads(2, 14, 8) == (ArgumentLoad(2, 2, 8), ArgumentLoad(4, 8, 16), ArgumentLoad(12, 4, 48))
    assert argument_loads(2, 1) == (ArgumentLoad(2, 1, 0),)
    assert argument_loads(2, 0) == ()


def test_no_preload_starts_at_the_entry(tmp_path: Path) -> None:
    kernel = CodeObject.load(build(BASE, tmp_path)).kernel()
    assert kernel.start == kernel.entry
    assert kernel.code_size == 4


def test_two_kernels_in_one_file(tmp_path: Path) -> None:
    first, second = BASE, replace(BASE, name="second", vgprs=9, workitem_id=2)
    text = file_header(first)
    for index, resources in enumerate((first, second)):
        text += kernel_header(resources) + "\ts_nop 0\n" * index + "\ts_endpgm\n" + kernel_trailer(resources)
    loaded = CodeObject.load(assemble(text + file_trailer([first, second]), "gfx950"))
    assert [(kernel.name, kernel.code_size, kernel.descriptor.vgprs) for kernel in loaded.kernels.values()] == [
        ("probe", 4, 72),
        ("second", 8, 16),
    ]
    assert loaded.code(loaded.kernel("second")) == bytes.fromhex("000080bf000081bf")
    with pytest.raises(CodeObjectError, match="has 2 kernels, name one of probe, second"):
        loaded.kernel()
    with pytest.raises(CodeObjectError, match="no kernel 'third'; it has probe, second"):
        loaded.kernel("third")


@pytest.mark.parametrize("name", ["true", "nan", "v0", "exec", "a$b", ".x", "_Z5thingPfi"])
def test_every_legal_name_assembles(name: str, tmp_path: Path) -> None:
    assert CodeObject.load(build(replace(BASE, name=name), tmp_path)).kernel().name == name


def test_arguments_stand_at_natural_offsets() -> None:
    table = arguments([("n", "i8"), ("p", "pointer"), ("h", "f16"), ("k", "u32"), ("q", "i64"), ("", "hidden_block_count_z")])
    assert [(argument.offset, argument.size) for argument in table] == [(0, 1), (8, 8), (16, 2), (20, 4), (24, 8), (32, 4)]
    assert table[1] == Argument(8, 8, "global_buffer", "p", "global")
    assert table[5] == Argument(32, 4, "hidden_block_count_z")
    with pytest.raises(CodeObjectError, match="argument 'z' has the unknown type 'float'"):
        arguments([("z", "float")])


POINTER = arguments([("p", "pointer")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "9lives"}, "no symbol"),
        ({"name": ".Lhidden"}, "no symbol"),
        ({"name": "a b"}, "no symbol"),
        ({"name": "a\n"}, "no symbol"),
        ({"name": ""}, "no symbol"),
        ({"arch": "gfx90a"}, "unknown architecture 'gfx90a'; known are gfx942, gfx950"),
        ({"code_object_version": 4}, "version 4 cannot be written"),
        ({"lds_bytes": 163841}, "163841 bytes of LDS.*gfx950 has at most 163840"),
        ({"arch": "gfx942", "lds_bytes": 65540}, "65540 bytes of LDS.*gfx942 has at most 65536"),
        ({"lds_bytes": -4}, "-4 bytes of LDS"),
        ({"vgprs": 257}, "vgprs is 257, outside of 0 to 256"),
        ({"agprs": 257}, "agprs is 257"),
        ({"sgprs": 103}, "sgprs is 103"),
        ({"workitem_id": 3}, "workitem_id is 3"),
        ({"denorm32": 4}, "denorm32 is 4"),
        ({"arguments": POINTER * 1, "kernarg_preload": 15}, "kernarg_preload is 15, outside of 0 to 14"),
        ({"arguments": POINTER, "kernarg_preload": 2, "kernarg_preload_offset": 1}, "up to byte 12.*end at byte 8"),
        ({"arguments": POINTER * 2}, "argument 1 .p. begins at byte 0, before byte 8"),
        ({"arguments": (Argument(0, 4, "by_value", "it's"),)}, "argument 0 .it's. has a name"),
        ({"arguments": (Argument(0, 0, "by_value", "e"),)}, "size of 0 bytes"),
        ({"max_flat_workgroup_size": 0}, "max_flat_workgroup_size is 0"),
        ({"max_flat_workgroup_size": 1025}, "max_flat_workgroup_size is 1025"),
        ({"reqd_workgroup_size": (64, 5, 1)}, "does not fit max_flat_workgroup_size 256"),
        ({"reqd_workgroup_size": (64, 0, 1)}, "does not fit"),
        (
            {"max_flat_workgroup_size": 512, "vgprs": 256, "agprs": 4},
            "2 waves on each SIMD, which leaves 256 registers a wave; 260 are used",
        ),
    ],
)
def test_impossible_resources_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(CodeObjectError, match=message) as caught:
        replace(BASE, where="kernel.py:7", **changes)  # type: ignore[arg-type]
    assert str(caught.value).startswith("kernel.py:7: kernel ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"lds_bytes": 163840},
        {"arch": "gfx942", "lds_bytes": 65536},
        {"vgprs": 256, "agprs": 256},
        {"sgprs": 102},
        {"arguments": arguments([(f"p{i}", "pointer") for i in range(7)]), "kernarg_preload": 14},
        {"max_flat_workgroup_size": 512, "vgprs": 256},
        {"max_flat_workgroup_size": 1024, "vgprs": 64, "agprs": 64},
    ],
)
def test_resources_at_the_limit_are_accepted(changes: dict[str, object]) -> None:
    assert replace(BASE, **changes).name == "probe"  # type: ignore[arg-type]


def test_the_kernels_of_one_file_agree() -> None:
    with pytest.raises(CodeObjectError, match="one architecture and one code object version: probe, other"):
        file_trailer([BASE, replace(BASE, name="other", code_object_version=5)])
    with pytest.raises(CodeObjectError, match="no kernel at all"):
        file_trailer([])
