"""Compiled runs against numpy: random straight-line programs leave the same registers, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding import lowering
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.binding.runs import Run
from asmgen.emulator.machine.codemap import CodeMap
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import EXEC, Group, Machine
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.isa.arch import architecture
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, new_machine

INTEGERS = sorted(set(lowering._INTEGER) - {"v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_cndmask_b32"})
FLOATS = sorted(lowering._FLOAT)
RELATIONS = ("eq", "lt", "le", "gt", "ge", "lg", "o", "neq", "nlt", "nle", "ngt", "nge", "nlg", "u")
PATTERNS = (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7FC00000,
            0xFFFFFFFF, 0x7FFFFFFF, 0x4B000000, 0xCF000000, 0x4F800000, 0x3F000000)


def vector_line(rng: random.Random, arch: str) -> str:
    """One vector instruction on v0 to v11, s0 to s11 and vcc."""
    def register() -> str:
        return f"v{rng.randrange(12)}"

    def first(floating: bool) -> str:
        text = rng.choice((register(), register(), f"s{rng.randrange(12)}", str(rng.randrange(-16, 65)), "1.0"))
        if floating and text[0] == "v":
            text = rng.choice((text, text, "-" + text, f"|{text}|", f"-|{text}|"))
        return text

    kind = rng.randrange(10)
    if kind == 0:
        name = rng.choice(("add", "sub", "subrev"))
        carrying = f"v_{name[:3]}{'b' if name != 'add' else 'c'}{name[3:]}_co_u32"
        return rng.choice((f"v_{name}_co_u32 {register()}, vcc, {first(False)}, {register()}",
                           f"{carrying} {register()}, vcc, {register()}, {register()}, vcc"))
    if kind == 1:
        kinds = rng.choice(("f32", "u32", "i32"))
        relation = rng.choice(RELATIONS if kinds == "f32" else ("eq", "ne", "lt", "le", "gt", "ge"))
        target = rng.choice(("vcc", "s[4:5]", "s[10:11]"))
        return f"v_cmp_{relation}_{kinds} {target}, {first(kinds == 'f32')}, {register()}"
    if kind == 2:
        return rng.choice((f"v_cndmask_b32 {register()}, {register()}, {register()}, {rng.choice(('vcc', 's[4:5]'))}",
                           f"v_accvgpr_write_b32 a{rng.randrange(4)}, {register()}",
                           f"v_accvgpr_read_b32 {register()}, a{rng.randrange(4)}",
                           f"v_readfirstlane_b32 s{rng.randrange(12)}, {register()}"))
    if kind == 3:
        low = [2 * rng.randrange(6) for _ in range(4)]
        name, count = rng.choice((("v_pk_add_f32", 2), ("v_pk_mul_f32", 2), ("v_pk_fma_f32", 3)))
        return f"{name} " + ", ".join(f"v[{n}:{n + 1}]" for n in low[:count + 1])
    floating = kind < 6
    name = rng.choice(FLOATS if floating else INTEGERS)
    if name in ("v_fmamk_f32", "v_fmaak_f32"):
        sources = [register(), "0x40490fdb", register()] if "mk" in name else [register(), register(), "0x40490fdb"]
        return f"{name} {register()}, " + ", ".join(sources)
    if name == "v_fmac_f32":
        return f"{name} {register()}, {register()}, {register()}"
    if arch == "gfx942" and name in ("v_bitop3_b32", "v_cvt_pk_bf16_f32"):
        return f"v_mov_b32 {register()}, {first(False)}"
    table = lowering._FLOAT if floating else lowering._INTEGER
    count = len(table[name][1])
    sources = [first(floating or name == "v_cvt_pk_bf16_f32"), *(register() for _ in range(count - 1))]
    return f"{name} {register()}, " + ", ".join(sources) + (f" bitop3:{rng.randrange(256)}" if name == "v_bitop3_b32" else "")


def scalar_line(rng: random.Random) -> str:
    """One scalar instruction on s0 to s11, exec now and then."""
    name = rng.choice(sorted({**lowering._SALU, **lowering._SAVING}) + ["s_cmp", "s_cmpk", "s_bitcmp"] * 3)

    def register(wide: bool) -> str:
        return f"s[{(n := 2 * rng.randrange(6))}:{n + 1}]" if wide else f"s{rng.randrange(12)}"

    def source(wide: bool) -> str:
        return rng.choice((register(wide), register(wide), str(rng.randrange(-16, 65)), "exec" if wide else "0x12345678"))

    if name == "s_cmp":
        relation = rng.choice(("eq", "lg", "lt", "le", "gt", "ge"))
        kind = rng.choice(("u32", "i32", "u64") if relation in ("eq", "lg") else ("u32", "i32"))
        wide = kind == "u64"
        return f"s_cmp_{relation}_{kind} {register(wide)}, {register(wide)}"
    if name == "s_cmpk":
        return f"s_cmpk_{rng.choice(('eq', 'lg', 'lt', 'le', 'gt', 'ge'))}_{rng.choice('ui')}32 {register(False)}, {rng.randrange(1 << 15)}"
    if name == "s_bitcmp":
        return f"s_bitcmp{rng.randrange(2)}_b32 {register(False)}, {source(False)}"
    wide = "64" in name
    if name in ("s_movk_i32", "s_addk_i32", "s_mulk_i32", "s_cmovk_i32"):
        return f"{name} {register(False)}, {rng.randrange(-32768, 32768)}"
    target = "exec" if wide and rng.random() < 0.1 else register(wide)
    if name in ("s_mov_b32", "s_mov_b64", "s_not_b32", "s_not_b64", "s_cmov_b32", "s_cmov_b64") or "saveexec" in name:
        return f"{name} {target if 'saveexec' not in name else register(True)}, {source(wide)}"
    second = source(wide and name not in ("s_lshl_b64", "s_lshr_b64", "s_ashr_i64"))
    return f"{name} {target}, {register(wide)}, {second}"


def machine_of(arch: str, waves: int, mode: int, seed: int, full: bool) -> Machine:
    """Random registers, a third of them awkward numbers, and random LDS."""
    rng = np.random.default_rng(seed)
    machine = new_machine(arch, waves, lds_bytes=4096)
    machine.lds[:] = rng.integers(0, 256, len(machine.lds), dtype=np.uint8)
    machine.mode[:] = mode
    for slot in (*range(12), *range(256, 260)):
        values = rng.integers(0, 1 << 32, (waves, 64), dtype=np.uint32)
        near = (rng.standard_normal((waves, 64)) * 100).astype(np.float32).view(np.uint32)
        choice = rng.integers(0, 3, (waves, 64))
        machine.vector[slot] = np.select([choice == 0, choice == 1], [values, near], rng.choice(np.array(PATTERNS, np.uint32), (waves, 64)))
    machine.scalar[:12] = rng.integers(0, 1 << 32, (12, waves), dtype=np.uint32)
    machine.scalar[106:108] = rng.integers(0, 1 << 32, (2, waves), dtype=np.uint32)
    machine.scc[:] = rng.integers(0, 2, waves).astype(bool)
    if not full:
        machine.scalar[EXEC:EXEC + 2] = rng.choice(np.array([0, 1, 0xFFFFFFFF, 0x0F0F5555], np.uint32), (2, waves))
    return machine


def decoder_of(program: Program, machine: Machine) -> Decoder:
    counters = Counters(machine.waves)
    return Decoder(program, CodeMap.of(program), machine, Context(machine, counters, Findings(), Deliveries(machine, counters), None),
                   LdsContext(machine, counters, None, None))


def same(lines: Iterable[str], arch: str, waves: int, mode: int, seed: int, full: bool) -> None:
    """Run the lines both ways."""
    (program,) = read_text("\n".join([*lines, "s_endpgm\n"]), arch, "run", "run.s")
    machines = [machine_of(arch, waves, mode, seed, full) for _ in range(2)]
    before = machines[0].vector.copy()
    groups = [Group(machine, np.arange(waves, dtype=np.int64), 0) for machine in machines]
    steps = [[decoder_of(program, machine).step(position, mode, 0) for position in range(len(program) - 1)] for machine in machines]
    run = Run(machines[1], mode)
    with np.errstate(all="ignore"):
        for step, other in zip(*steps, strict=True):
            assert step is not None and step.run is not None and other is not None
            step.run(groups[0])
            if not run.add(other):
                assert other.instruction.name.startswith(("v_pk_", "v_mfma_f32_4x4x4")), f"a run does not know {other.instruction.text}"
                for action in (*run.actions(compiled=True), other.run):
                    assert action is not None
                    action(groups[1])
                run = Run(machines[1], mode)
        for action in run.actions(compiled=True):
            action(groups[1])
    for name in ("scalar", "scc"):
        left, right = (getattr(machine, name) for machine in machines)
        assert (left == right).all(), (name, np.argwhere(left != right)[:4], program.instructions)
    left, right = (machine.vector for machine in machines)
    if not (left == right).all():
        slot, wave, lane = np.argwhere(left != right)[0]
        raise AssertionError(f"v{slot} wave {wave} lane {lane}: {left[slot, wave, lane]:#x}, compiled {right[slot, wave, lane]:#x}, "
                             f"before {before[:, wave, lane][:12]}\n" + "\n".join(str(one) for one in program.instructions))
    assert (groups[0].mask is None) == (groups[1].mask is None)
    assert (groups[0].lanes() == groups[1].lanes()).all()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [MODE_DEFAULT, MODE_KEEP, MODE_DEFAULT & ~0x200])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_random_programs(arch: str, mode: int) -> None:
    for seed in range(120):
        rng = random.Random(seed)
        length = 1 if seed < 60 else 12
        lines = [vector_line(rng, arch) if rng.random() < 0.7 else scalar_line(rng) for _ in range(length)]
        same(lines, arch, rng.choice((1, 3)), mode, seed, full=bool(seed % 2))


def product_line(rng: random.Random, arch: str) -> str:
    """A product of 16- or 8-bit values from v0 to v11, into v16 and up or a0 and up."""
    names = [("v_mfma_f32_16x16x16_f16", 2, 4), ("v_mfma_f32_16x16x16_bf16", 2, 4), ("v_mfma_f32_32x32x8_bf16", 2, 16),
             ("v_mfma_f32_32x32x4_2b_f16", 2, 32), ("v_mfma_f32_4x4x4_16b_f16", 2, 4), ("v_mfma_f32_16x16x32_fp8_bf8", 2, 4)]
    if arch == "gfx950":
        names += [("v_mfma_f32_16x16x32_bf16", 4, 4), ("v_mfma_f32_32x32x16_f16", 4, 16), ("v_mfma_f32_16x16x128_f8f6f4", 8, 4)]
    name, held, size = rng.choice(names)
    first, second = (rng.randrange(0, 12 - held, 2) for _ in range(2))
    file = rng.choice("va")
    low = rng.choice((16, 16 + size, 80)) if file == "v" else rng.choice((0, size))
    target = f"{file}[{low}:{low + size - 1}]"
    c = rng.choice((target, target, "0", "1.0", f"{file}[{low + 128}:{low + 128 + size - 1}]"))
    formats = f" cbsz:{rng.randrange(2)} blgp:{rng.randrange(2)}" if "f8f6f4" in name else ""
    return f"{name} {target}, v[{first}:{first + held - 1}], v[{second}:{second + held - 1}], {c}{formats}"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_products_among_arithmetic(arch: str) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        lines = [product_line(rng, arch) if rng.random() < 0.7 else f"v_add_u32 v{rng.randrange(12)}, v3, v{rng.randrange(32)}"
                 for _ in range(1 + seed // 2)]
        same(lines, arch, rng.choice((1, 3)), MODE_DEFAULT, seed, full=bool(seed % 2))


def test_reads_of_lds_among_arithmetic() -> None:
    """Of all widths and two places, beyond the end too, with the address among the results."""
    for seed in range(60):
        rng = random.Random(seed)
        lines = [f"v_and_b32 v{n}, {rng.choice(('0xff0', '0xff0', '0x1ff8', '0xffd'))}, v{n}" for n in range(4)]
        for _ in range(1 + seed // 3):
            name, count = rng.choice((("ds_read_b32", 1), ("ds_read_b64", 2), ("ds_read_b96", 3), ("ds_read_b128", 4), ("ds_read2_b32", 2),
                                      ("ds_read2st64_b64", 4)))
            low = 2 * rng.randrange(8)
            target = f"v[{low}:{low + count - 1}]" if count > 1 else f"v{low}"
            where = "offset0:1 offset1:3" if "read2" in name else f"offset:{16 * rng.randrange(20)}"
            lines.append(f"{name} {target}, v{rng.randrange(4)} {where}" if rng.random() < 0.8 else "v_and_b32 v2, 0xff0, v3")
        same(lines, "gfx950", rng.choice((1, 3)), MODE_DEFAULT, seed, full=bool(seed % 2))


@pytest.mark.parametrize("line", ["v_add_f32_sdwa v1, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD",
                                  "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf", "v_add_f32 v1, v2, v3 clamp",
                                  "v_mul_f32 v1, v2, v3 mul:2", "v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]",
                                  "v_cmp_class_f32 vcc, v1, v2", "s_cbranch_scc1 end"])
def test_left_to_numpy(line: str) -> None:
    (program,) = read_text(f"{line}\nend: s_endpgm\n", "gfx950", "run", "run.s")
    machine = machine_of("gfx950", 1, MODE_DEFAULT, 1, True)
    step = decoder_of(program, machine).step(0, MODE_DEFAULT, 0)
    assert step is not None and not Run(machine, MODE_DEFAULT).add(step)


def test_other_rounding_is_left_to_numpy() -> None:
    (program,) = read_text("v_add_f32 v1, v2, v3\ns_endpgm\n", "gfx950", "run", "run.s")
    machine = machine_of("gfx950", 1, MODE_DEFAULT | 1, 1, True)
    step = decoder_of(program, machine).step(0, MODE_DEFAULT | 1, 0)
    assert step is not None and not Run(machine, MODE_DEFAULT | 1).add(step)


@pytest.mark.parametrize("line", ["v_mov_b32 v200, v1", "v_add_u32 v1, v2, v200", "v_pk_mul_f32 v[0:1], v[2:3], v[180:181]",
                                  "v_readfirstlane_b32 s1, v200", "v_cmp_eq_u32 vcc, v200, v1"])
def test_registers_beyond_the_allocation(line: str) -> None:
    (program,) = read_text(f"{line}\ns_endpgm\n", "gfx950", "run", "run.s")
    machine = Machine(architecture("gfx950"), 1, 1, 180, 180, 0, Memory())
    step = decoder_of(program, machine).step(0, MODE_DEFAULT, 0)
    assert step is not None and not Run(machine, MODE_DEFAULT).add(step)


def test_bytes_by_selectors() -> None:
    """v_perm_b32 with every selector below 16 at every place, which random words have too seldom: bytes, signs, zeros and ones."""
    for seed in range(4):
        same(["v_and_b32 v3, 0x0f0f0f0f, v3", "v_perm_b32 v5, v1, v2, v3", "v_perm_b32 v6, v2, s1, v3", "v_perm_b32 v3, v5, v3, v3"],
             "gfx942", 3, MODE_DEFAULT, seed, full=bool(seed % 2))
