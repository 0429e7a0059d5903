"""Listings cut into functions: padding, labels, what belongs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.program.program import NO_FALL_THROUGH, Program
from asmgen.reader.listing import Listing, ListingLine, ListingReader, jumps, parse_listing

_PADDING = frozenset({"s_nop 0", "s_code_end"})
_CODE_END = 0xBF9F0000  # s_code_end of other GPUs, which some tools pad with


def is_padding(line: ListingLine) -> bool:
    """Whether the line may be filling between functions: s_nop 0, s_code_end, or zeros, whatever those decode as."""
    return line.text in _PADDING or line.words[0] == _CODE_END or not any(line.words)


def trim(lines: Sequence[ListingLine]) -> Sequence[ListingLine]:
    """Without padding at the end that nothing flows or branches into."""
    end = len(lines)
    targets = {line.target for line in lines} if is_padding(lines[-1]) else set()
    while end > 1 and is_padding(lines[end - 1]) and lines[end - 1].address not in targets:
        end -= 1
    return lines[:end] if lines[end - 1].mnemonic in NO_FALL_THROUGH else lines


def labels_of(chunks: Sequence[Sequence[ListingLine]], names: Mapping[int, str]) -> dict[int, str]:
    """A label by address for each chunk that has a name, and for each branch target."""
    labels = {chunk[0].address: names[chunk[0].address] for chunk in chunks if chunk[0].address in names}
    addresses = {line.address for chunk in chunks for line in chunk}
    for chunk in chunks:
        for line in jumps(chunk):
            target = line.target
            if target in addresses and target is not None:
                labels.setdefault(target, f"L_{target:x}")
    return labels


def listing_programs(text: str, arch: str, name: str, file: str) -> list[Program]:
    """The Programs of a listing that was written to a file: one for each symbol that no other code runs or branches into.

    Labels are named after the addresses. Raises ReadError for lines that are no instructions of `arch`.
    """
    listing = parse_listing(text, file)
    reader = ListingReader(arch, file)
    programs = []
    for chunk in _functions(listing):
        lines = trim(chunk)
        items = tuple(reader.read(lines, labels_of([lines], {})))
        programs.append(Program(listing.symbols.get(lines[0].address, name), arch, items))
    return programs


def _functions(listing: Listing) -> list[Sequence[ListingLine]]:
    """The lines between symbols, joined where control passes from one to the next."""
    lines = listing.lines
    positions = {line.address: position for position, line in enumerate(lines)}
    # How many branches pass over the gap before each position.
    passing = [0] * (len(lines) + 1)
    for position, line in enumerate(lines):
        target = positions.get(line.target) if line.target is not None else None
        if target is not None:
            low, high = sorted((position, target))
            passing[low + 1] += 1
            passing[high + 1 if high < len(lines) else high] -= 1
    starts = []
    over = 0
    last_code: ListingLine | None = None
    for position, line in enumerate(lines):
        over += passing[position]
        ended = last_code is None or last_code.mnemonic in NO_FALL_THROUGH
        if position == 0 or line.address in listing.symbols and ended and not over:
            starts.append(position)
        if not is_padding(line):
            last_code = line
    return [lines[first:last] for first, last in zip(starts, [*starts[1:], len(lines)], strict=True)]
