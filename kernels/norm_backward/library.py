"""norm-backward with all its variants and the kernel after them. The first variant of an architecture is its default."""

from asmgen.kernels.norm_backward.family import NORM_BACKWARD
from asmgen.kernels.norm_backward.rowwise import gradients  # isort: split

from asmgen.kernels.norm_backward.columnsums import sum_columns  # isort: split

from asmgen.kernels.norm_backward.addition import add_parts  # isort: split

__all__ = ["NORM_BACKWARD", "add_parts", "gradients", "sum_columns"]
