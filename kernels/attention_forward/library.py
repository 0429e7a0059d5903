"""attention-forward as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.pingpong import ping_pong

__all__ = ["ATTENTION", "ping_pong"]
