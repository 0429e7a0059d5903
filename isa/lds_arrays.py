"""Bank conflicts of whole arrays of addresses, for the emulator: the phases of `asmgen.isa.lds` in numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asmgen.isa.arch import LANES
from asmgen.isa.lds import addresses_per_lane, rule


def _touched(addresses: npt.NDArray[np.int64], bytes_: int) -> npt.NDArray[np.int64]:
    """The dwords that each access touches, -1 for none: [..., n] for byte addresses [...]."""
    first, last = addresses >> 2, (addresses + bytes_ - 1) >> 2
    count = int((last - first).max(initial=0)) + 1
    dwords = first[..., np.newaxis] + np.arange(count)
    return np.where(dwords <= last[..., np.newaxis], dwords, -1)


def bank_loads(arch: str, op: str, addresses: npt.ArrayLike, width_bits: int, active: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
    """How many distinct dwords each bank delivers in each phase: [waves, phases, banks].

    `addresses` are byte addresses in LDS, [waves, 64], or [waves, 64, 2] for instructions with two addresses; `width_bits` is what one
    address moves (8 to 128); `active` [waves, 64] is EXEC, absent: all lanes. An access that is not aligned touches one dword more.
    Raises AsmgenError for `op` as `lds.rule` does, ValueError for arrays of other shapes, negative addresses or no positive width in bytes.
    """
    row = rule(arch, op)
    array = np.asarray(addresses, np.int64)
    shape = (LANES,) if addresses_per_lane(op) == 1 else (LANES, 2)
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape:
        raise ValueError(f"{op} takes addresses of shape [waves, {', '.join(map(str, shape))}], not {list(array.shape)}")
    if width_bits < 8 or width_bits % 8:
        raise ValueError(f"an LDS access moves whole bytes, not {width_bits} bits")
    waves = array.shape[0]
    mask = np.ones((waves, LANES), bool) if active is None else np.asarray(active, bool)
    if mask.shape != (waves, LANES):
        raise ValueError(f"the mask of active lanes has shape {list(mask.shape)}, not [{waves}, {LANES}]")
    if (array[mask] < 0).any():
        raise ValueError("LDS addresses are not negative")
    dwords = _touched(array, width_bits // 8)
    dwords = dwords.reshape(waves, LANES, dwords[0, 0].size if waves else 1)
    dwords = np.where(mask[..., np.newaxis], dwords, -1)

    lanes = np.asarray(row.phases)
    served = np.sort(dwords[:, lanes].reshape(waves, len(lanes), lanes.shape[1] * dwords.shape[2]), axis=-1)
    new = served >= 0
    new[..., 1:] &= served[..., 1:] != served[..., :-1]
    slot = np.arange(waves * len(lanes)).reshape(waves, len(lanes), 1) * row.banks + served % row.banks
    counts = np.bincount(slot[new], minlength=waves * len(lanes) * row.banks)
    return counts.reshape(waves, len(lanes), row.banks).astype(np.int64)


def conflicts(arch: str, op: str, addresses: npt.ArrayLike, width_bits: int, active: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
    """Extra cycles of each wave that bank conflicts cost: [waves]. Arguments and errors as of `bank_loads`.

    A phase costs the load of its fullest bank; the extra is what exceeds the best that so many distinct dwords could reach. Where a
    phase moves at most one dword a bank (all rows but gfx950 ds_read_b32, ds_read_b96_tr_b6 and assumed ones) that is load - 1.
    """
    loads = bank_loads(arch, op, addresses, width_bits, active)
    best = -(-loads.sum(axis=-1) // loads.shape[-1])
    extra: npt.NDArray[np.int64] = (loads.max(axis=-1) - best).sum(axis=-1)
    return extra
