"""A kernel of a code object as a Program, by way of llvm-objdump."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

from asmgen.codeobject.descriptor import PRELOAD_SKIP
from asmgen.codeobject.load import CodeObject, KernelRecord
from asmgen.garbage import collection_paused
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted, shorten
from asmgen.program.codeaddresses import code_addresses
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Align, Item, Program
from asmgen.reader.errors import ReadError
from asmgen.reader.limits import Limited
from asmgen.reader.listing import Listing, ListingLine, ListingReader, jumps, parse_listing
from asmgen.reader.pieces import labels_of, trim
from asmgen.toolchain import ToolError, disassemble

_WHOLE_BYTES = 1 << 20  # code objects with more code than this are disassembled in parts of about so much
_CALLS = ("s_swappc_b64", "s_setpc_b64")


def read_kernel(code_object: CodeObject, kernel: KernelRecord, piped: str = "") -> Program:
    """The kernel from its entry on, then the functions of the code object that it may call, each after a label of its name.

    Instructions have their addresses and sizes. `entry` is set where waves begin after a compatibility entry. Padding after a
    function's last instruction is left out. `piped` is the name of the source where the code object was assembled from a pipe.
    Raises ReadError for an instruction that asmgen does not know, with its text, its address and the nearest known mnemonics, and for
    data between instructions; ToolError without llvm-objdump.
    """
    return _kernel(_Pieces(code_object, piped), kernel)


def read_programs(code_object: CodeObject, piped: str = "") -> Iterator[Program]:
    """Each kernel as `read_kernel` reads it, or each function where there is no kernel, one after the other.

    Who drops a Program before asking for the next holds never more than one, and a listing of some megabytes. Raises as they do.
    """
    for _, read in program_readers(code_object, piped):
        yield read()


def program_readers(code_object: CodeObject, piped: str = "") -> Iterator[tuple[str, Callable[[], Program]]]:
    """The name of each Program of `read_programs` and how to read it: who goes on after one that raises gets the others."""
    pieces = _Pieces(code_object, piped)
    for kernel in code_object.kernels.values():
        yield kernel.name, partial(_kernel, pieces, kernel)
    if not code_object.kernels:
        for start, name in sorted(pieces.functions.items()):
            yield name, partial(_function, pieces, start)


def _kernel(pieces: _Pieces, kernel: KernelRecord) -> Program:
    with collection_paused():
        return _read(pieces, kernel)


def _read(pieces: _Pieces, kernel: KernelRecord) -> Program:
    code_object = pieces.code_object
    chunks, sure = pieces.reachable(kernel)
    names = {chunk[0].address: pieces.functions[chunk[0].address] for chunk in chunks[1:]}
    labels = labels_of(chunks, names)
    reader = ListingReader(code_object.arch, code_object.origin)
    items: list[Item] = []
    entry = ""
    if kernel.start != kernel.entry:
        position = next((number for number, line in enumerate(chunks[0]) if line.address == kernel.start), None)
        if position is None:
            raise ReadError(f"kernel {quoted(kernel.name)} preloads arguments, but no instruction stands at {kernel.start:#x}, where its "
                            "waves begin", code_object.origin)
        entry = labels.setdefault(kernel.start, f"L_{kernel.start:x}")
        before = trim(chunks[0][:position])
        items += reader.read(before, labels)
        if len(before) < position:
            items.append(Align(PRELOAD_SKIP))
        chunks[0] = chunks[0][position:]
    guessed = labels[chunks[sure][0].address] if sure < len(chunks) else ""
    for chunk in chunks:
        items += reader.read(chunk, labels)
    return Program(kernel.name, code_object.arch, tuple(items), accum_offset=kernel.descriptor.accum_offset, entry=entry,
                   workitem_dims=min(2, kernel.descriptor.workitem_id_dims), guessed=guessed)


def read_functions(code_object: CodeObject, piped: str = "") -> list[Program]:
    """Every function of the code object, kernels too, as a Program of its own, in the order of their addresses.

    Code without any function symbol is one Program without a name. Raises as read_kernel does.
    """
    pieces = _Pieces(code_object, piped)
    return [_function(pieces, start) for start in sorted(pieces.functions)]


def _function(pieces: _Pieces, start: int) -> Program:
    code_object, chunk = pieces.code_object, pieces.chunk(start)
    reader = ListingReader(code_object.arch, code_object.origin)
    return Program(pieces.functions[start], code_object.arch, tuple(reader.read(chunk, labels_of([chunk], {}))))


class _Pieces:
    """The functions of a code object and their listings."""

    def __init__(self, code_object: CodeObject, piped: str) -> None:
        self.code_object = code_object
        self._piped = piped
        kernels = {kernel.entry: kernel.name for kernel in code_object.kernels.values()}
        self.functions = {symbol.address: symbol.name for symbol in code_object.symbols.values()
                          if symbol.kind == "func" and self._segment_end(symbol.address)} | kernels
        if not self.functions:
            # Plain text without function symbols: all of its code is one piece.
            self.functions = {part.vaddr: "" for part in code_object.image if part.executable}
        self._sizes = {symbol.address: symbol.size for symbol in code_object.symbols.values() if symbol.kind == "func"}
        self._sizes |= {kernel.entry: kernel.code_size for kernel in code_object.kernels.values()}
        self._kernels = kernels
        self._starts = sorted(self.functions)
        self._code = sum(len(part.data) for part in code_object.image if part.executable)
        self._cuts = self._cut()
        self._broken: set[int] = set()

    def _cut(self) -> list[int]:
        """Where the pieces begin that are disassembled at once: at functions, as many together as have _WHOLE_BYTES."""
        cuts: list[int] = []
        for start in self._starts:
            if not cuts or start - cuts[-1] >= _WHOLE_BYTES:
                cuts.append(start)
        return cuts

    def _segment_end(self, address: int) -> int:
        """Where the executable segment with an address ends, 0 where there is none."""
        return next((part.vaddr + len(part.data) for part in self.code_object.image
                     if part.executable and part.vaddr <= address < part.vaddr + len(part.data)), 0)

    def chunk(self, start: int) -> Sequence[ListingLine]:
        """The listing of the function at an address, without the padding after it."""
        end = self._segment_end(start)
        size = self._sizes.get(start, 0)
        if not 0 < size <= end - start:
            following = bisect_right(self._starts, start)
            size = min(end, self._starts[following] if following < len(self._starts) else end) - start
        lines = _slice(self._listing(start, start + size), start, start + size)
        if not lines or lines[0].address != start:
            raise ReadError(f"llvm-objdump shows no instruction at {start:#x}, where {quoted(self.functions.get(start, 'code'))} begins",
                            self.code_object.origin)
        return trim(lines)

    def _listing(self, start: int, stop: int) -> Listing:
        data = self.code_object.data
        number = bisect_right(self._cuts, start)
        first, last = 0, 0
        if self._code > _WHOLE_BYTES:
            first = self._cuts[number - 1]
            last = self._cuts[number] if number < len(self._cuts) else max(stop, self._segment_end(start))
        if first not in self._broken and stop <= (last or stop):
            try:
                return _disassembled(data, self.code_object.arch, first, last, self._piped)
            except ReadError:
                self._broken.add(first)  # LLVM 22 crashes on some words: they may stand in other functions
        try:
            return _disassembled(data, self.code_object.arch, start, stop, self._piped)
        except ReadError as error:
            raise ReadError(error.sentence, self.code_object.origin) from None

    def reachable(self, kernel: KernelRecord) -> tuple[list[Sequence[ListingLine]], int]:
        """The kernel's chunk, then those of the functions that it reaches by known targets, then those of all that it may reach besides,
        each in the order of their addresses; and how many come before the last of these groups."""
        found = {kernel.entry: self.chunk(kernel.entry)}
        known = self._closure(kernel.entry, found, guess=False)
        others = self._closure(kernel.entry, found, guess=True) - known
        ordered = [kernel.entry, *sorted(known - {kernel.entry}), *sorted(others)]
        return [found[start] for start in ordered], len(known)

    def _closure(self, entry: int, found: dict[int, Sequence[ListingLine]], guess: bool) -> set[int]:
        """The starts of what is reached from an entry; `found` gets their chunks. `guess`: any function by a call of unknown target."""
        seen, waiting = {entry}, [entry]
        while waiting:
            for target in self._jump_targets(found[waiting.pop()], guess):
                function = self._function_of(target)
                if function is not None and function not in seen:
                    seen.add(function)
                    waiting.append(function)
                    if function not in found:
                        found[function] = self.chunk(function)
        return seen

    def _function_of(self, address: int) -> int | None:
        """The start of the function with an address; None outside of the code."""
        position = bisect_right(self._starts, address) - 1
        return self._starts[position] if position >= 0 and self._segment_end(address) else None

    def _jump_targets(self, lines: Sequence[ListingLine], guess: bool) -> set[int]:
        """Addresses outside of a chunk that it may continue at: its branches, its calls, with `guess` all functions where a call's target
        is unknown."""
        targets = {line.target for line in jumps(lines) if line.target is not None}
        if any(line.text.startswith(_CALLS) for line in lines):
            known, unknown = self._computed_targets(lines)
            targets |= known
            if unknown and guess:
                targets |= {start for start in self.functions if start not in self._kernels}
        first, last = lines[0].address, lines[-1].end
        return {target for target in targets if not first <= target < last}

    def _computed_targets(self, lines: Sequence[ListingLine]) -> tuple[set[int], bool]:
        """The addresses that a chunk makes of its own position and continues at, and whether an s_swappc goes to one that it does not make
        so. An s_setpc to an unknown address is a return: what it returns to is in the code that called."""
        items = ListingReader(self.code_object.arch, self.code_object.origin).read(lines, labels_of([lines], {}))
        program = Program("", self.code_object.arch, tuple(items))
        flow = control_flow(program)
        known = code_addresses(program, flow)
        unknown = any(program.instructions[block.last].name == "s_swappc_b64" and block.number not in known for block in flow.blocks)
        return set(known.values()), unknown


def _slice(listing: Listing, start: int, stop: int) -> Sequence[ListingLine]:
    first = bisect_left(listing.lines, start, key=lambda line: line.address)
    last = bisect_left(listing.lines, stop, key=lambda line: line.address)
    return listing.lines[first:last]


@lru_cache(maxsize=3)
def _disassembled(data: bytes, arch: str, start: int, stop: int, piped: str) -> Listing:
    """The listing of a whole code object, or of a range of addresses; the last few are kept, as kernels are read one by one.

    Raises ReadError where llvm-objdump fails.
    """
    options = ["--disassemble-zeroes"]
    if b".debug_line" in data:
        options.append("--line-numbers")
    if stop:
        options += [f"--start-address={start:#x}", f"--stop-address={stop:#x}"]
    try:
        limits = Limited.for_object(len(data))
        text = disassemble(data, arch, *options, objdump=limits.objdump(), bounds=limits.bounds)
    except ToolError:
        raise
    except AsmgenError as error:
        raise ReadError(shorten(error.sentence)) from None
    except UnicodeDecodeError:
        raise ReadError("llvm-objdump prints names of it that are no text in UTF-8: a damaged code object") from None
    return parse_listing(text, "llvm-objdump", piped)
