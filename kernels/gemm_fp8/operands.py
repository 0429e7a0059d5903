"""What A and B of gemm-fp8 are: their types, and how many of their elements share a scale."""

ELEMENTS = {"e4m3": "fp8", "e5m2": "bf8"}
"""Types of A and B by parameter, as matrix instructions call them."""

BLOCK = 128
"""Columns of K, and rows of B, that have one scale in scales=block."""
