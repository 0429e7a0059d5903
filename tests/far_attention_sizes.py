"""Launches of attention-backward at the largest sizes that its contract allows, against small ones: sq, sk, hq, b * hq, rows of all
sequences, the longest sequence, and what dropout's counter begins at. One more must be refused.

A large launch has the small one's data in its last rows, heads and batches, and zeros elsewhere; masks keep the others' keys away. Of its
workgroups only those run that have a part of the data, so both must have the same bits. Memory is sparse: what is not touched does not
exist, and workspaces have exactly their bytes.

    python -m tests.far_attention_sizes [NUMBER ...]      # these cases, or all
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest.mock import patch

import ml_dtypes
import numpy as np

from asmgen.author.address.headorder import heads_in_order
from asmgen.author.contract.contract import ContractError, KernelContract
from asmgen.author.contract.problem import Problem
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.machine.dispatch import Dispatch, Ids
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tuning.started import values_of

TENSORS = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
OF_KEYS = ("k", "v", "dk", "dv")
WRITTEN = ("dq", "dk", "dv")
QUERIES, KEYS = 224, 256
"""Rows of the small launches; what is left of large ones is a multiple of each tile's rows."""
_CANARY = -123.0
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's mmap does not name
_PAGE = 4096
Array = np.ndarray[Any, Any]
Sizes = dict[str, Any]


@dataclass(frozen=True)
class Chosen(Dispatch):
    """A dispatch of which only some workgroups run, by number."""

    numbers: ClassVar[tuple[int, ...]] = ()

    @property
    def workgroups(self) -> int:
        """How many of them run."""
        return len(self.numbers)

    def workgroup_ids(self, first: int, count: int) -> Ids:
        """Those of the chosen ones."""
        number = np.array(self.numbers[first:first + count], np.int64)
        x, rest = number % self.grid[0], number // self.grid[0]
        return np.stack([x, rest % self.grid[1], rest // self.grid[1]], axis=1).astype(np.uint32)


class Sparse:
    """Zeros, of which only touched pages exist."""

    def __init__(self, nbytes: int) -> None:
        self._map = mmap.mmap(-1, -(-nbytes // _PAGE) * _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.address, self.nbytes = self.bytes.ctypes.data, nbytes

    def view(self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Array:
        """Elements of it; strides count elements."""
        size = np.dtype(dtype).itemsize
        elements = self.bytes[:self.bytes.size // size * size].view(dtype)
        return np.lib.stride_tricks.as_strided(elements, sizes, tuple(size * one for one in strides))


@dataclass(frozen=True)
class Case:
    """A build, a small shape, and the sizes that grow, in this order, each as far as the contract allows."""

    arch: str
    build: tuple[tuple[str, Any], ...]
    small: tuple[tuple[str, Any], ...]
    grown: tuple[str, ...]


def _case(arch: str, build: Sizes, small: Sizes, *grown: str) -> Case:
    return Case(arch, tuple(build.items()), tuple(small.items()), grown)


def cases() -> list[Case]:
    """Each size of both architectures, both widths of rows and both ways to add up dQ."""
    found = []
    rows = {"b": 1, "hq": 1, "sq": QUERIES, "sk": 200}
    keys = {"b": 1, "hq": 1, "sq": 96, "sk": KEYS}
    near = {"window": True}
    lengths = {"varlen": True, "padded": True}
    few = {"b": 2, "hq": 4, "hkv": 2, "sq": 8, "sk": 40}
    for arch in ("gfx950", "gfx942"):
        for d, dq in ((128, "atomic"), (64, "ordered"), (64, "atomic"), (128, "ordered")):
            build = {"d": d, "dq": dq}
            found += [_case(arch, build | {"causal": True}, rows, "sq"),
                      _case(arch, build | near, keys | {"left": 60, "right": 5}, "sk"),
                      _case(arch, build, few, "hq"), _case(arch, build, few, "b", "hq")]
        found += [_case(arch, lengths | {"causal": True}, rows | {"b": 2, "max_sq": QUERIES, "max_sk": 200}, "sq"),
                  _case(arch, lengths | {"causal": True}, rows | {"b": 2, "max_sq": QUERIES, "max_sk": 200}, "sq", "max_sq"),
                  _case(arch, lengths | near, keys | {"b": 2, "max_sq": 96, "max_sk": KEYS, "left": 60, "right": 5}, "sk"),
                  _case(arch, lengths | near, keys | {"b": 2, "max_sq": 96, "max_sk": KEYS, "left": 60, "right": 5}, "sk", "max_sk"),
                  _case(arch, lengths, few | {"max_sq": 8, "max_sk": 40}, "b"),
                  _case(arch, {"dq_type": "bf16", "causal": True}, rows, "sq"),
                  *(_case(arch, {"dropout": True, "d": d}, few | {"b": 1, "hq": 1, "hkv": 1, "p": 0.3, "seed": (1 << 64) - 1,
                                                                  "offset": (1 << 64) - 64}, "b", "hq") for d in (128, 64))]
    return found


def largest(contract: KernelContract, given: Sizes, name: str) -> Sizes:
    """The launch with a size as large as the contract takes it; hq and hkv grow together."""
    group = given["hq"] // given["hkv"]

    def of(count: int) -> Sizes:
        return {**given, **({"hq": count * group, "hkv": count} if name == "hq" else {name: count})}

    def taken(count: int) -> bool:
        try:
            contract.resolve_run(of(count))
        except ContractError:
            return False
        return True

    low, high = given["hkv" if name == "hq" else name], 1 << 25
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if taken(middle) else (low, middle)
    assert not taken(low + 1), f"{name} has no largest value"
    return of(low)


def launches(contract: KernelContract, case: Case) -> tuple[Sizes, Sizes]:
    """Parameters of the small launch and of the large one; the small one has as many rows more as make tiles end alike."""
    small = {**dict(case.build), **dict(case.small)}
    small.setdefault("hkv", small["hq"])
    far = dict(small)
    for name in case.grown:
        far = largest(contract, far, name)
    for name, tile in (("sq", 256), ("sk", 768)) if not small.get("varlen") else ():
        if name in case.grown:
            rows = far[name] % tile
            small[name] = rows if rows >= small[name] else rows + tile
    if "p" in small:  # the small launch's only head draws as the last one of the large launch does
        small["offset"] = (small["offset"] + 64 * (far["b"] * far["hq"] - 1)) % (1 << 64)
    return contract.resolve_run(small), contract.resolve_run(far)


class Launch:
    """One launch's memory: the data of the `small` one stand last."""

    def __init__(self, contract: KernelContract, p: Sizes, small: Sizes, data: Mapping[str, Array]) -> None:
        self.p, self.small, self.batches = p, small, 1 if p["varlen"] else int(small["b"])
        self.memory: dict[str, Sparse] = {}
        self.views: dict[str, Array] = {}
        self.around: dict[str, Array] = {}
        batches = 1 if p["varlen"] else p["b"]
        for name in TENSORS:
            heads, rows = ("hkv", "sk") if name in OF_KEYS else ("hq", "sq")
            strides = (*(p.get(f"{name}_stride_{letter}", 0) if batches > 1 or letter != "b" else 0 for letter in "bsh"), 1)
            self._put(name, (batches, p[rows], p[heads], p["d"]), strides, ml_dtypes.bfloat16, data[name])
        self._put("lse", (batches, p["hq"], p["sq"]), (p["hq"] * p["sq"], p["sq"], 1), np.float32, data["lse"])
        for side in "qk" if p["varlen"] else "":
            rows, count = p[f"s{side}"], small[f"s{side}"]  # all sequences but the last are padding
            self._put(f"cu_seqlens_{side}", (p["b"] + 1,), (1,), np.int32, np.array([rows - count, rows], np.int32))
            self._put(f"seqused_{side}", (p["b"],), (1,), np.int32, np.array([count], np.int32))
        self.memory |= {name: Sparse(nbytes) for name, nbytes in contract.workspace_bytes_of(p).items()}

    def _put(self, name: str, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: Any, data: Array) -> None:
        size = np.dtype(dtype).itemsize
        made = self.memory[name] = Sparse((sum(one * (count - 1) for one, count in zip(strides, sizes, strict=True)) + 1) * size)
        whole = made.view(sizes, strides, dtype)
        begins = [count - least for count, least in zip(sizes, data.shape, strict=True)]
        self.views[name] = whole[tuple(slice(begin, None) for begin in begins)]
        if name in WRITTEN:  # with the last row, head and batch of zeros before the data
            self.around[name] = whole[tuple(slice(max(0, begin - 1), None) for begin in begins)]
            self.around[name][...] = _CANARY
        self.views[name][...] = data

    def gradients(self) -> dict[str, Array]:
        """What was written, which must be all of it and nothing else."""
        for name, around in self.around.items():
            inside = np.zeros(around.shape, bool)
            inside[tuple(slice(-count, None) for count in self.views[name].shape)] = True
            assert (around[~inside].astype(float) == _CANARY).all(), f"{name} was written before its last rows"
        return {name: self.views[name].astype(np.float64) for name in WRITTEN}

    def numbers(self, stem: str, grid: tuple[int, int, int], keys: int) -> tuple[int, ...]:
        """The workgroups of a kernel that have a part of the data."""
        p, small = self.p, self.small
        if stem.endswith(("delta", "convert")):  # x counts blocks of queries, y heads, z batches
            blocks = grid[0] if p["max_sq"] == small["max_sq"] else -(-small["max_sq"] // -(-p["max_sq"] // grid[0]))
            first = 0 if p["varlen"] else grid[0] - blocks
            return tuple(x + grid[0] * (y + grid[1] * z) for z in range(p["b"] - self.batches, p["b"])
                         for y in range(p["hq"] - small["hq"], p["hq"]) for x in range(first, first + blocks))
        by_queries = stem.endswith("dq")
        size = ("max_sq", 256) if by_queries else ("max_sk", keys)
        tiles, most = (-(-one[size[0]] // size[1]) for one in (p, small))
        wanted = {batch * p["hkv"] + head for batch in range(p["b"] - self.batches, p["b"])
                  for head in range(p["hkv"] - small["hkv"], p["hkv"])}
        first = 0 if p["varlen"] else tiles - most
        order = heads_in_order(p["b"] * p["hkv"], p["hq"] // p["hkv"] if by_queries else 1, tiles, p["causal"])
        assert len(order) == grid[0], (len(order), grid)
        return tuple(number for number, (unit, _, tile) in enumerate(order) if unit in wanted
                     and first <= (tiles - 1 - tile if p["causal"] and not by_queries else tile) < first + most)


@contextmanager
def chosen(numbers: tuple[int, ...]) -> Iterator[None]:
    """Only these workgroups of launches run."""
    with patch.object(Chosen, "numbers", numbers), patch("asmgen.launch.emulated.Dispatch", Chosen):
        yield


def launched(built: Built, arch: str, launch: Launch) -> dict[str, Array]:
    """All kernels of a build; the gradients."""
    contract, p = built.kernel.contract, launch.p
    code, keys = CodeObject.load(built.code_object), family("attention-backward").select(arch, built.kernel.parameters).tile[1]
    numbers = {argument.name: p[argument.name] for argument in contract.given if argument.name in p}
    places = {name: made.address for name, made in launch.memory.items()}
    values = {**values_of(contract, Problem(numbers, ()), {}), **places}
    with EmulatedDevice(arch) as device:
        for name, made in launch.memory.items():
            device.memory.register(made.address, made.nbytes, name)
        for one, kernel in zip(contract.launches, built.kernel.launches, strict=True):
            grid, names = one.grid_of(p), {argument.name for argument in one.arguments}
            with chosen(launch.numbers(one.stem, grid, keys)):
                device.launch(code.kernel(kernel.resources.name), grid, one.workgroup,
                              {name: value for name, value in values.items() if name in names})
        for made in launch.memory.values():
            device.memory.free(made.address)
    return launch.gradients()


def data_of(p: Sizes) -> dict[str, Array]:
    """Tensors (batch, rows, heads, d) and LSE of a launch without variable lengths."""
    library = family("attention-backward")
    build = {name: p[name] for name in ("d", "causal", "window")}
    plain = {**build, "b": 1 if p["varlen"] else p["b"], **{name: p[name] for name in ("hq", "hkv", "sq", "sk", "left", "right")}}
    problem = library.problem(library.contract("gfx950", build).resolve_run(plain), 3)
    found = {name: problem.arguments[name].reshape(plain["b"], plain["sk" if name in OF_KEYS else "sq"],
                                                   plain["hkv" if name in OF_KEYS else "hq"], plain["d"]) for name in TENSORS}
    return {**found, "lse": problem.arguments["lse"]}


def faults(case: Case) -> list[str]:
    """What is wrong with a case."""
    built = build_kernel(family("attention-backward"), case.arch, dict(case.build))
    contract = built.kernel.contract
    small, far = launches(contract, case)
    data = data_of(small)
    expected, found = (launched(built, case.arch, Launch(contract, p, small, data)) for p in (small, far))
    said = f"{case.arch} {dict(case.build)}: " + ", ".join(f"{name} {far[name]}" for name in case.grown)
    print(said, flush=True)
    return [f"{said}: {name} differs in {int((found[name] != value).sum())} elements" for name, value in expected.items()
            if not np.array_equal(found[name], value, equal_nan=True) or not value.any()]


def main() -> int:
    """Exit status 1 where a launch is wrong."""
    every = cases()
    numbers = [int(number) for number in sys.argv[1:]] or range(len(every))
    wrong = [fault for number in numbers for fault in faults(every[number])]
    print("\n".join(wrong or [f"{len(numbers)} cases at both sides of their sizes, 0 wrong"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
