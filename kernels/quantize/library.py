"""quantize with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.quantize.family import QUANTIZE
from asmgen.kernels.quantize.rowwise import by_rows  # isort: split

__all__ = ["QUANTIZE", "by_rows"]
