"""Philox 4x32, the counter-based generator of dropout, as data: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011); the numbers that CK and PyTorch use stand in docs/facts/draws.md section 1."""

from __future__ import annotations

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
"""Of counter words 0 and 2."""
BUMPS = 0x9E3779B9, 0xBB67AE85
"""What the key's words grow by from round to round."""
ROUNDS = 7, 10
"""The numbers of rounds that are used: 7 by CK and flash_attn on ROCm, 10 by PyTorch, Triton and cuRAND."""
XOR3 = 0x96
"""The truth table of v_bitop3_b32 for the XOR of three sources."""
