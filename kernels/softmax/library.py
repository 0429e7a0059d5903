"""softmax with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.softmax.family import SOFTMAX
from asmgen.kernels.softmax.onepass import one_pass  # isort: split

from asmgen.kernels.softmax.twopasses import two_passes

__all__ = ["SOFTMAX", "one_pass", "two_passes"]
