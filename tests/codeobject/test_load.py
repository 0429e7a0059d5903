"""Reading code objects that clang made: kernels, arguments, image, relocations, bundles, fat binaries; and damaged ones."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from asmgen.codeobject import bundle, metadata
from asmgen.codeobject.descriptor import CodeObjectError, KernelDescriptor
from asmgen.codeobject.elf import Relocation
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.toolchain import assemble, find_tool, require_objdump, require_tool

# zig's clang assembles but does not drive HIP compilation; the marker stands for the LLVM that does.
pytestmark = pytest.mark.needs_objdump

# clang makes bundles by a tool of a package that is often absent, and packs them with zstd; the format itself is tested without both.
BUNDLER = find_tool("clang-offload-bundler") or ()
BUNDLES = (["bundle", "fat"] + ["zstd"] * bool(shutil.which("zstd") or find_spec("zstandard"))) if BUNDLER else []

HIP = """
#define GLOBAL __attribute__((global))
struct dim3 { unsigned x, y, z; };  // this and the next three: what clang's host code for a kernel calls
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long, void*);
extern "C" int __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
struct Pair { int a; float b; };
extern "C" {
__attribute__((device)) int counter[5] = {1, 2, 3, 4, 5};
__attribute__((device)) int* where = counter + 2;
}
extern "C" GLOBAL void add(const float* a, float* b, int n, Pair s, long q) {
  int i = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workgroup_id_y() * 256;
  if (i < n) b[i] = a[i] + s.b + q + *where;
}
extern "C" GLOBAL void spill(float* b, int n) {
  volatile float x[100];
  for (int i = 0; i < n; i++) x[i % 100] = i;
  b[0] = x[n % 7] + __builtin_amdgcn_workitem_id_z();
}
static __attribute__((shared)) float tile[72];
extern "C" GLOBAL void share(float* b) {
  tile[__builtin_amdgcn_workitem_id_x()] = b[0];
  __builtin_amdgcn_s_barrier();
  b[1] = tile[3];
}
"""
HIP_FLAGS = ["-x", "hip", "-nogpulib", "-nogpuinc", "-O2"]
TARGETS = ["--offload-arch=gfx942", "--offload-arch=gfx950"]


def clang(folder: Path, output: str, *flags: str, source: str = HIP) -> Path:
    (folder / "k.hip").write_text(source)
    target = folder / output
    done = subprocess.run([*require_tool("clang"), *HIP_FLAGS, *flags, folder / "k.hip", "-o", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("objects")
    plain = ["--offload-device-only", "--no-gpu-bundle-output"]
    bundles = {
        "bundle": ("bundle.hipfb", "--offload-device-only", *TARGETS),
        "zstd": ("zstd.hipfb", "--offload-device-only", "--offload-compress", *TARGETS),
        "fat": ("host.o", "-c", *TARGETS),
    }
    return {
        **{arch: clang(folder, f"{arch}.co", *plain, f"--offload-arch={arch}") for arch in ("gfx942", "gfx950")},
        "v5": clang(folder, "v5.co", *plain, "--offload-arch=gfx950:sramecc+:xnack-", "-mcode-object-version=5"),
        "v4": clang(folder, "v4.co", *plain, "--offload-arch=gfx942", "-mcode-object-version=4"),
        **{kind: clang(folder, *bundles[kind]) for kind in BUNDLES},
    }


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_kernels_of_a_hip_source(objects: dict[str, Path], arch: str) -> None:
    loaded = CodeObject.load(objects[arch])
    assert (loaded.arch, loaded.abi_version, loaded.xnack, loaded.sramecc) == (arch, 6, "any", "any")
    assert list(loaded.kernels) == ["add", "spill", "share"]
    add, spill, share = loaded.kernels.values()
    shape = [(argument.offset, argument.size, argument.value_kind) for argument in add.arguments]
    assert shape == [
        (0, 8, "global_buffer"), (8, 8, "global_buffer"), (16, 4, "by_value"), (20, 8, "by_value"), (32, 8, "by_value"),
    ]  # fmt: skip
    assert add.arguments[1].address_space == "global"
    assert add.descriptor.sgpr_layout() == [("kernarg_segment_ptr", 0, 2), ("workgroup_id_x", 2, 1), ("workgroup_id_y", 3, 1)]
    assert (add.resources.kernarg_size, add.resources.max_flat_workgroup_size, add.resources.wavefront_size) == (40, 1024, 64)
    # Scratch adds no SGPR: flat scratch is architected on both chips.
    assert spill.descriptor.sgpr_layout() == [("kernarg_segment_ptr", 0, 2), ("workgroup_id_x", 2, 1)]
    assert spill.descriptor.scratch_enable and spill.descriptor.workitem_id_dims == 2
    assert spill.resources.scratch == spill.descriptor.private_segment_fixed_size == 416
    assert share.resources.lds == share.descriptor.group_segment_fixed_size == 288
    assert share.descriptor.float_mode == 0xF0
    for kernel in loaded.kernels.values():
        assert kernel.entry % 256 == 0
        assert b"\x00\x00\x81\xbf" in loaded.code(kernel)  # s_endpgm


def test_target_features_and_older_versions(objects: dict[str, Path]) -> None:
    five, four = CodeObject.load(objects["v5"]), CodeObject.load(str(objects["v4"]), "gfx942")
    assert (five.abi_version, five.sramecc, five.xnack, four.abi_version) == (5, "on", "off", 4)
    assert CodeObject.load(objects["v5"], "gfx950:xnack-").arch == "gfx950"
    with pytest.raises(CodeObjectError, match="xnack off, not for gfx950:xnack[+]"):
        CodeObject.load(objects["v5"], "gfx950:xnack+")
    with pytest.raises(CodeObjectError, match="v5.co: it holds code for gfx950, not for gfx942"):
        CodeObject.load(objects["v5"], "gfx942")


def test_image_relocations_and_symbols(objects: dict[str, Path]) -> None:
    loaded = CodeObject.load(objects["gfx950"])
    segments = loaded.segments()
    assert [(segment.writable, segment.executable) for segment in segments][:2] == [(False, False), (False, True)]
    counter = loaded.symbols["counter"]
    assert (counter.size, counter.kind, counter.is_global) == (20, "object", True)
    assert struct.unpack("<5i", loaded.read(counter.address, 20)) == (1, 2, 3, 4, 5)
    listing = subprocess.run([*require_objdump(), "-R", objects["gfx950"]], capture_output=True, text=True, check=True).stdout
    expected = re.findall(r"^([0-9a-f]{16}) (R_AMDGPU_\w+) +(\S+)$", listing, re.MULTILINE)
    found = [(f"{one.offset:016x}", one.kind, f"{one.symbol or '*ABS*'}+{one.addend:#x}") for one in loaded.relocations()]
    assert found == expected
    assert loaded.relocations() == [Relocation(loaded.symbols["where"].address, "R_AMDGPU_RELATIVE64", "", 0, counter.address + 8)]
    assert not [name for name in loaded.symbols if name.endswith("num_vgpr")]
    with pytest.raises(CodeObjectError, match="are in no segment"):
        loaded.read(segments[-1].vaddr + len(segments[-1].data) - 1, 2)


def test_relocations_that_name_symbols() -> None:
    loaded = CodeObject.load(assemble(".data\n.globl here\nhere: .quad there+24\nnext: .quad here+8\n", "gfx942"))
    assert loaded.kernels == {}
    here = loaded.symbols["here"].address
    assert set(loaded.relocations()) == {
        Relocation(here + 8, "R_AMDGPU_ABS64", "here", here, 8),
        Relocation(here, "R_AMDGPU_ABS64", "there", None, 24),
    }
    with pytest.raises(CodeObjectError, match="it holds no kernel"):
        loaded.kernel()


def test_bss_is_zero_filled(tmp_path: Path) -> None:
    source = 'extern "C" { __attribute__((device)) int space[777]; __attribute__((global)) void k() { space[5]++; } }'
    loaded = CodeObject.load(clang(tmp_path, "b.co", "--offload-device-only", "--no-gpu-bundle-output", TARGETS[0], source=source))
    assert loaded.read(loaded.symbols["space"].address, 777 * 4) == bytes(777 * 4)


@pytest.mark.parametrize("kind", [*BUNDLES, "made"])
def test_bundles_pick_the_architecture(objects: dict[str, Path], kind: str) -> None:
    source = pack(objects) if kind == "made" else objects[kind]
    for arch in ("gfx942", "gfx950"):
        loaded = CodeObject.load(source, arch)
        assert loaded.arch == arch
        assert {"add", "spill", "share"} == set(loaded.kernels)
        assert loaded.data.startswith(b"\x7fELF")
    with pytest.raises(CodeObjectError, match="holds gfx942, gfx950: name the architecture"):
        CodeObject.load(source)
    with pytest.raises(CodeObjectError, match="unknown architecture 'gfx90a'"):
        CodeObject.load(source, "gfx90a")


HOST = "host-x86_64-unknown-linux-gnu-"
GPU = "hipv4-amdgcn-amd-amdhsa--"


def make_bundle(members: dict[str, bytes]) -> bytes:
    """A plain bundle by clang's documentation of the format: magic, count, then offset, size, id length and id of each entry."""
    head = 32 + sum(24 + len(triple) for triple in members)
    table, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(members)), b""
    for triple, data in members.items():
        table += struct.pack("<QQQ", head + len(body), len(data), len(triple)) + triple.encode()
        body += data
    return table + body


def pack(objects: dict[str, Path]) -> bytes:
    return make_bundle({HOST: b"", **{GPU + arch: objects[arch].read_bytes() for arch in ("gfx942", "gfx950")}})


def test_bundle_with_features_and_with_one_architecture(objects: dict[str, Path]) -> None:
    one = make_bundle({HOST: b"host code", GPU + "gfx950:sramecc+:xnack-": objects["v5"].read_bytes()})
    assert CodeObject.load(one).xnack == "off"
    assert CodeObject.load(one, "gfx950").abi_version == 5
    with pytest.raises(CodeObjectError, match="without code for gfx950:xnack[+]; it holds gfx950:sramecc[+]:xnack-"):
        CodeObject.load(one, "gfx950:xnack+")
    with pytest.raises(CodeObjectError, match="without code for gfx942"):
        CodeObject.load(one, "gfx942")
    two = make_bundle({GPU + f"gfx950:xnack{sign}": objects["v5"].read_bytes() for sign in "+-"})
    assert CodeObject.load(two, "gfx950:xnack-").xnack == "off"
    with pytest.raises(CodeObjectError, match="several of which are gfx950: name one with its features"):
        CodeObject.load(two, "gfx950")
    with pytest.raises(CodeObjectError, match="holds nothing for a GPU"):
        CodeObject.load(make_bundle({HOST: b"host code"}))


def test_zlib_bundles_of_every_header_version(objects: dict[str, Path], tmp_path: Path) -> None:
    plain = pack(objects)
    packed = zlib.compress(plain)
    headers = {
        1: struct.pack("<4sHHIQ", b"CCOB", 1, 0, len(plain), 0),
        2: struct.pack("<4sHHIIQ", b"CCOB", 2, 0, 24 + len(packed), len(plain), 0),
        3: struct.pack("<4sHHQQQ", b"CCOB", 3, 0, 32 + len(packed), len(plain), 0),
    }
    for header in headers.values():
        assert CodeObject.load(header + packed, "gfx942").arch == "gfx942"
    # Two bundles behind each other, as a program of two source files has them.
    both = headers[2] + packed + bytes(100) + plain
    assert len(CodeObject.load_all(both, "gfx950")) == 2
    with pytest.raises(CodeObjectError, match="2 code objects of gfx950"):
        CodeObject.load(both, "gfx950")
    for damaged, message in (
        (headers[2] + packed[:-9], "sizes that do not fit"),
        (headers[1] + b"\xff" * 40, "damaged .zlib."),
        (headers[1] + packed[:-300], "does not unpack to so many"),
        (struct.pack("<4sHHIQ", b"CCOB", 1, 0, len(plain) - 1, 0) + packed, "announces"),
        (struct.pack("<4sHHIQ", b"CCOB", 1, 7, len(plain), 0) + packed, "unknown method 7"),
        (struct.pack("<4sHHIQ", b"CCOB", 9, 0, len(plain), 0) + packed, "unknown version 9"),
        (struct.pack("<4sHHQQQ", b"CCOB", 3, 0, 32 + len(packed), 1 << 60, 0) + packed, "sizes that do not fit"),
        (b"CCOB", "cut off"),
    ):
        with pytest.raises(CodeObjectError, match=message):
            CodeObject.load(damaged, "gfx942")


def test_zstd_without_any_decompressor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(bundle.importlib, "import_module", absent)
    monkeypatch.setattr(bundle.shutil, "which", lambda name: None)
    packed = struct.pack("<4sHHIIQ", b"CCOB", 2, 1, 30, 1000, 0) + bytes(6)
    with pytest.raises(CodeObjectError, match="^<bytes>: .*pip install zstandard"):
        CodeObject.load(packed, "gfx942")


def test_kernels_without_metadata() -> None:
    source = """
        .text
        .globl bare
        .p2align 8
        .type bare,@function
        bare:
          v_mov_b32 v0, 0
          s_endpgm
        .p2align 8
        other:
          s_nop 3
          s_endpgm
        .rodata
        .p2align 6
        .amdhsa_kernel bare
          .amdhsa_next_free_vgpr 40
          .amdhsa_next_free_sgpr 20
          .amdhsa_accum_offset 24
          .amdhsa_group_segment_fixed_size 512
          .amdhsa_kernarg_size 24
          .amdhsa_user_sgpr_dispatch_ptr 1
          .amdhsa_user_sgpr_queue_ptr 1
          .amdhsa_user_sgpr_kernarg_segment_ptr 1
          .amdhsa_user_sgpr_dispatch_id 1
          .amdhsa_user_sgpr_private_segment_size 1
          .amdhsa_enable_private_segment 1
          .amdhsa_system_sgpr_workgroup_info 1
        .end_amdhsa_kernel
        .amdhsa_kernel other
          .amdhsa_next_free_vgpr 1
          .amdhsa_next_free_sgpr 1
          .amdhsa_accum_offset 4
        .end_amdhsa_kernel
    """
    loaded = CodeObject.load(assemble(source, "gfx942"))
    assert set(loaded.kernels) == {"bare", "other"}
    kernel = loaded.kernel("bare")
    assert (kernel.metadata, kernel.arguments) == ({}, ())
    resources = kernel.resources
    assert (resources.vgpr_count, resources.agpr_count, resources.lds, resources.kernarg_size) == (40, 16, 512, 24)
    assert kernel.descriptor.sgpr_layout() == [
        ("dispatch_ptr", 0, 2), ("queue_ptr", 2, 2), ("kernarg_segment_ptr", 4, 2), ("dispatch_id", 6, 2),
        ("private_segment_size", 8, 1), ("workgroup_id_x", 9, 1), ("workgroup_info", 10, 1),
    ]  # fmt: skip
    assert kernel.code_size == 256  # no .size: up to the next kernel
    assert loaded.code(kernel)[4:8] == bytes.fromhex("000081bf")


@pytest.mark.parametrize(("code", "says"), [("k: s_endpgm\n.size k, .-k\n.type k,@function\n", ""),
                                            ("s_getpc_b64 s[0:1]\ns_add_u32 s0, s0, gone@rel32@lo+4\ns_endpgm\n.hidden gone\n", "gone")])
def test_object_that_is_not_linked(tmp_path: Path, code: str, says: str) -> None:
    """It is linked; where that fails, the sentence tells what the linker lacks."""
    (tmp_path / "k.s").write_text(code)
    clang = [*require_tool("clang"), "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942"]
    subprocess.run([*clang, "-c", str(tmp_path / "k.s"), "-o", str(tmp_path / "k.o")], check=True)
    if says:
        with pytest.raises(CodeObjectError, match=f"k.o: an ELF file of type 1, not a linked code object, and .* cannot link it: .*{says}"):
            CodeObject.load(tmp_path / "k.o")
    else:
        assert "k" in CodeObject.load(tmp_path / "k.o").symbols


def test_hidden_argument_sizes_are_those_of_clang(tmp_path: Path) -> None:
    (tmp_path / "h.ll").write_text("""
        target triple = "amdgcn-amd-amdhsa"
        declare void @outside()
        define amdgpu_kernel void @k(ptr addrspace(1) inreg %p, i32 inreg %n) { call void @outside() ret void }
        !llvm.module.flags = !{!0}
        !0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
    """)
    text = subprocess.run(
        [*require_tool("llc"), "-mcpu=gfx942", tmp_path / "h.ll", "-o", "-"], check=True, capture_output=True, text=True
    ).stdout
    sizes = {kind: int(size) for size, kind in re.findall(r"\.size: +(\d+)\n +\.value_kind: +(hidden_\w+)", text)}
    shared = sizes.keys() & metadata.HIDDEN_SIZES.keys()
    assert len(shared) >= 13
    assert {kind: sizes[kind] for kind in shared} == {kind: metadata.HIDDEN_SIZES[kind] for kind in shared}


def test_descriptor_decodes_every_bit_by_itself() -> None:
    zero = KernelDescriptor.from_bytes(bytes(64))
    assert (zero.vgprs, zero.sgprs, zero.accum_offset, zero.sgpr_layout()) == (8, 8, 4, [])
    for offset, bit, field, value in (
        (0, 3, "group_segment_fixed_size", 8), (4, 2, "private_segment_fixed_size", 4), (8, 5, "kernarg_size", 32),
        (16, 8, "entry_offset", 256), (48, 4, "vgprs", 136), (48, 8, "sgprs", 40), (48, 13, "round32", 2), (48, 14, "round16_64", 1),
        (48, 16, "denorm32", 1), (48, 19, "denorm16_64", 2), (48, 21, "dx10_clamp", True), (48, 23, "ieee_mode", True),
        (48, 26, "fp16_overflow", True), (52, 0, "scratch_enable", True), (52, 5, "user_sgpr_count", 16),
        (52, 7, "workgroup_id_x", True), (52, 8, "workgroup_id_y", True), (52, 9, "workgroup_id_z", True),
        (52, 10, "workgroup_info", True), (52, 12, "workitem_id_dims", 2), (52, 26, "fp_exceptions", 4), (44, 4, "accum_offset", 68),
        (44, 16, "tg_split", True), (56, 0, "private_segment_buffer", True), (56, 1, "dispatch_ptr", True), (56, 2, "queue_ptr", True),
        (56, 3, "kernarg_segment_ptr", True), (56, 4, "dispatch_id", True), (56, 5, "flat_scratch_init", True),
        (56, 6, "private_segment_size", True), (56, 11, "uses_dynamic_stack", True), (58, 6, "preload_length", 64),
        (58, 15, "preload_offset", 256),
    ):  # fmt: skip
        data = bytearray(64)
        data[offset + bit // 8] |= 1 << bit % 8
        decoded = KernelDescriptor.from_bytes(bytes(data))
        raw = {"rsrc1", "rsrc2", "rsrc3", "properties", "preload"}
        changed = {name: got for name, got in vars(decoded).items() if got != getattr(zero, name) and name not in raw}
        assert changed == {field: value}
    with pytest.raises(CodeObjectError, match="64 bytes, not 63"):
        KernelDescriptor.from_bytes(bytes(63))
    backwards = struct.pack("<III4xq40x", 0, 0, 0, -512)
    assert KernelDescriptor.from_bytes(backwards).entry_offset == -512


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "an empty file"),
        (lambda data: b"#!/bin/sh\n", "neither an ELF file nor an offload bundle"),
        (lambda data: data[:40], "cut off in its ELF header"),
        (lambda data: data[:-1], "section headers do not fit|symbol table is damaged|beyond the end"),
        (lambda data: data[:18] + b"\x3e\x00" + data[20:], "x86-64 without a .hip_fatbin"),
        (lambda data: data[:48] + b"\x3f" + data[49:], "another GPU .machine 0x3f"),
        (lambda data: data[:8] + b"\x09" + data[9:], "ABI version byte 9"),
        (lambda data: data[:4] + b"\x01" + data[5:], "not a 64-bit little-endian"),
        (lambda data: data[:56] + b"\xff\xff" + data[58:], "program headers do not fit"),
        (lambda data: data[:60] + b"\x00\x00" + data[62:], "a count of 0"),
        (lambda data: data.replace(b"amdhsa.kernels", b"\xc1mdhsa.kernels"), "decode|msgpack"),
        (lambda data: data.replace(b"\xa7.symbol", b"\xa7.symbox"), "no printable text for .symbol"),
        (lambda data: data.replace(b"\xa6add.kd", b"\xa6bdd.kd"), "no symbol 'bdd.kd', the descriptor of kernel 'add'"),
        (lambda data: data.replace(b"\xa5spill", b"\xa3add\xc0\xc0"), "msgpack|twice"),
        (lambda data: data.replace(b"\xa5.size\x08", b"\xa5.size\xff"), "not a number of 32 bits"),
    ],
)
def test_damage_is_one_sentence(objects: dict[str, Path], tmp_path: Path, change: object, message: str) -> None:
    path = tmp_path / "bad.co"
    original = objects["gfx950"].read_bytes()
    path.write_bytes(change(original))  # type: ignore[operator]
    assert path.read_bytes() != original
    with pytest.raises(CodeObjectError, match=message) as caught:
        CodeObject.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_descriptor_outside_of_the_file_or_pointing_nowhere(objects: dict[str, Path]) -> None:
    data = bytearray(objects["gfx950"].read_bytes())
    kernel = CodeObject.load(bytes(data)).kernel("add")
    at = kernel.descriptor_address + 16
    for offset, message in (
        (1 << 40, "executable segment"),
        (kernel.descriptor.entry_offset + 4, "not at a multiple of 256"),
        (0, "executable"),
    ):
        broken = bytes(data[:at]) + struct.pack("<q", offset) + bytes(data[at + 8 :])
        with pytest.raises(CodeObjectError, match=f"^<bytes>: .*{message}"):
            CodeObject.load(broken)
    places = [match.start() for match in re.finditer(re.escape(struct.pack("<QQ", kernel.descriptor_address, 64)), data)]
    assert places
    for place in places:
        struct.pack_into("<Q", data, place, 1 << 33)
    with pytest.raises(CodeObjectError, match="64 bytes at address 0x200000000 are in no segment"):
        CodeObject.load(bytes(data))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CodeObjectError, match="absent.co: cannot be read: No such file"):
        CodeObject.load(tmp_path / "absent.co")
    with pytest.raises(CodeObjectError, match="cannot be read: it is a folder"):
        CodeObject.load(str(tmp_path))
    with pytest.raises(CodeObjectError, match="cannot be read|damaged"):
        CodeObject.load("nul\0byte.co")


def _mutant(rng: random.Random, data: bytes) -> bytes:
    """The file with a few bytes, a header word or its length changed; half of the changes hit the headers and tables."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(changed), rng.choice((64, 64 + 9 * 56, 0x900, len(data), len(data)))))
        choice = rng.randrange(6)
        if choice == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif choice == 1:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xC1, 0xDD, 0xDF, 0xFF))
        elif choice == 2:
            struct.pack_into(
                "<Q", changed, min(at & ~7, len(changed) - 8), rng.choice((0, 1 << 63, (1 << 64) - 1, 1 << 31, rng.getrandbits(64)))
            )
        elif choice == 3:
            changed[at : at + 16] = rng.randbytes(len(changed[at : at + 16]))
        elif choice == 4:
            struct.pack_into("<I", changed, rng.randrange(len(changed) - 4), rng.choice((0, 0xFFFFFFFF, 0x7FFFFFFF, rng.getrandbits(12))))
        elif rng.random() < 0.2:
            del changed[max(65, at) :]
            changed += bytes(8)
    return bytes(changed)


def _survives(data: bytes, arch: str | None = None) -> bool:
    """Whether the file loads and can be used; anything but success and CodeObjectError fails the test."""
    try:
        loaded = CodeObject.load(data, arch)
    except CodeObjectError as error:
        assert str(error).startswith("<bytes>: ") and "\n" not in str(error)
        return False
    for kernel in loaded.kernels.values():
        assert isinstance(kernel, KernelRecord)
        assert len(loaded.code(kernel)) == kernel.code_size
        kernel.descriptor.sgpr_layout()
    return True


@pytest.mark.slow
def test_fuzzed_code_objects(objects: dict[str, Path]) -> None:
    rng = random.Random(20)
    data = objects["gfx950"].read_bytes()
    results = [_survives(_mutant(rng, data)) for _ in range(1000)]
    assert 100 < sum(results) < 900  # both outcomes are exercised


def test_fuzzed_truncations_and_noise(objects: dict[str, Path]) -> None:
    rng = random.Random(21)
    data = objects["gfx950"].read_bytes()
    assert not any(_survives(data[:length]) for length in range(0, len(data) - 1, 23))
    assert not any(_survives(rng.randbytes(rng.randrange(400))) for _ in range(300))
    assert not any(_survives(data[:16] + rng.randbytes(rng.randrange(800))) for _ in range(300))


@pytest.mark.parametrize("kind", [*BUNDLES, "made"])
def test_fuzzed_bundles(objects: dict[str, Path], kind: str) -> None:
    rng = random.Random(22)
    data = pack(objects) if kind == "made" else objects[kind].read_bytes()
    hits = data.find(b"__CLANG_OFFLOAD_BUNDLE__") if kind != "zstd" else 0
    for _ in range(150 if kind != "zstd" else 30):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at = hits + rng.randrange(200 if kind != "zstd" else 40)
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        _survives(bytes(changed), rng.choice(("gfx942", "gfx950", None)))
    assert not any(_survives(data[:length], "gfx950") for length in (30, 60, 100, hits + 90, hits + 140))


@pytest.mark.slow
def test_fuzzed_metadata(objects: dict[str, Path]) -> None:
    rng = random.Random(23)
    loaded = CodeObject.load(objects["gfx950"])
    start = objects["gfx950"].read_bytes().index(b"amdhsa.kernels") - 2
    note = bytearray(loaded.data[start : start + 1300])
    outcomes = set()
    for _ in range(600):
        changed = bytearray(loaded.data)
        for _ in range(rng.randint(1, 3)):
            changed[start + rng.randrange(len(note))] = rng.randrange(256)
        outcomes.add(_survives(bytes(changed)))
    assert outcomes == {True, False}
