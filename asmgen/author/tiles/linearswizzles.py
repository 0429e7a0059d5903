"""XOR patterns by linear algebra: which of all swizzles serves a set of accesses without bank conflicts.

A tile of powers of two whose rows lie as they are, or in subtiles, is a linear map: the dwords that a phase of an access touches differ by
a space of bit vectors, the same for each fragment. An XOR pattern inverts bits of a bank by higher bits of the offset, any lower bit by any
higher one. It has no conflict where no vector of such a space becomes 0 in the bits of the bank. So the image of each higher bit is chosen
in turn, images with few bits first, and every vector is looked at once all of its bits have images. The search is exhaustive: where it
finds nothing, no XOR of bits above a bank's into bits of the bank serves these accesses on that order of the elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from asmgen.author.tiles.swizzles import Access, TileAddresses
from asmgen.isa.arch import LANES
from asmgen.isa.bankcost import DWORD
from asmgen.isa.layout import Layout
from asmgen.isa.lds import rule
from asmgen.isa.placement import Placement, Swizzle

_FRAGMENTS = 64
"""Instructions of an access that are looked at: more than a fragment has, and all fragments differ by the same vectors."""
_MOST = 100000
"""Choices of images after which a search gives up; those of real tiles take fewer than 100."""


def linear_swizzles(arch: str, dense: Layout, rows: int, columns: int, serves: Sequence[Access]) -> Iterator[Swizzle]:
    """Patterns without conflicts, those of few terms first; none for sizes that are no powers of two. Where a phase touches more dwords
    than there are banks, patterns may still have conflicts. Raises LayoutError where an access would be torn."""
    size = dense.output_sizes["offset"]
    if any(count & (count - 1) for count in (rows, columns, size)):
        return
    vectors, whole = _vectors(arch, dense, rows, columns, serves)
    for banks in sorted({banks for _, banks in vectors}, reverse=True):
        for chosen, bits in _images(vectors, (banks * DWORD).bit_length() - 1, size.bit_length() - 1, whole):
            yield Swizzle(_terms(chosen, bits))


def _images(vectors: set[tuple[int, int]], inside: int, outside: int, whole: int) -> Iterator[tuple[list[int], list[int]]]:
    """(images, bits): for each of the bits from `inside` on the lower bits that it inverts, such that no vector is 0 in its bank's bits."""
    changed = [bit for bit in range(inside) if 1 << bit >= whole]
    images = sorted((sum(1 << bit for number, bit in enumerate(changed) if chosen >> number & 1) for chosen in range(1 << len(changed))),
                    key=lambda image: (image.bit_count(), image))
    bits = list(range(inside, outside))
    checks: dict[int, list[tuple[int, int]]] = {}
    for vector, banks in vectors:
        checks.setdefault(max(vector.bit_length() - 1, inside - 1), []).append((vector, (banks - 1) * DWORD))
    if any(not vector & mask for vector, mask in checks.get(inside - 1, ())):
        return  # two dwords of one bank, whatever the higher bits do
    left = _MOST
    # These vectors have a bit and no higher one, and these of the bits below: its image decides, and may not be what those leave of one.
    deciding = [[(vector, mask, [lower for lower in range(number) if vector >> bits[lower] & 1]) for vector, mask in checks.get(bit, ())]
                for number, bit in enumerate(bits)]
    under = {mask: [image & mask for image in images] for found in checks.values() for _, mask in found}

    def extend(chosen: list[int]) -> Iterator[list[int]]:
        nonlocal left
        if len(chosen) == len(bits):
            yield list(chosen)
            return
        refused: dict[int, set[int]] = {}
        for vector, mask, lower in deciding[len(chosen)]:
            for number in lower:
                vector ^= chosen[number]
            refused.setdefault(mask, set()).add(vector & mask)
        bad = {image for mask, found in refused.items() for image, its in zip(images, under[mask], strict=True) if its in found}
        for image in images:
            left -= 1
            if left < 0:
                return
            if image not in bad:
                chosen.append(image)
                yield from extend(chosen)
                chosen.pop()

    for chosen in extend([]):
        yield chosen, bits


def _vectors(arch: str, dense: Layout, rows: int, columns: int, serves: Sequence[Access]) -> tuple[set[tuple[int, int]], int]:
    """((difference of offsets of two dwords of a phase, banks), ...), and the bytes that must stay together."""
    addresses = TileAddresses(Placement(dense), rows, columns)
    found: set[tuple[int, int]] = set()
    whole = DWORD
    for access in serves:
        whole = max(whole, access.line // LANES)
        known: set[tuple[int, ...]] = set()
        for one in itertools.islice(access.instructions(addresses), _FRAGMENTS):
            pattern = tuple(address ^ one.addresses[0] for address in one.addresses)
            whole = max(whole, 1 << (one.bits // 8).bit_length() - 1)
            if pattern in known:
                continue
            known.add(pattern)
            row = rule(arch, one.op)
            inside = [DWORD << bit for bit in range((one.bits // 8 // DWORD).bit_length() - 1)]
            for phase in row.phases:
                basis = _basis([one.addresses[lane] ^ one.addresses[phase[0]] for lane in phase] + inside)
                if 1 << len(basis) <= row.banks:
                    found |= {(vector, row.banks) for vector in _span(basis)}
    return found, whole


def _basis(vectors: Sequence[int]) -> list[int]:
    basis: list[int] = []
    for vector in vectors:
        for one in basis:
            vector = min(vector, vector ^ one)
        if vector // DWORD:
            basis.append(vector)
    return basis


def _span(basis: Sequence[int]) -> list[int]:
    """Every sum of some of the vectors but 0."""
    found = [0]
    for vector in basis:
        found += [one ^ vector for one in found]
    return found[1:]


def _terms(chosen: Sequence[int], bits: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The images as (shift, mask) terms."""
    masks: dict[int, int] = {}
    for high, image in zip(bits, chosen, strict=True):
        for low in range(image.bit_length()):
            if image >> low & 1:
                masks[high - low] = masks.get(high - low, 0) | 1 << low
    return tuple(sorted(masks.items()))
