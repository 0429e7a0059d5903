"""A and B of gemm-fp8: their types, and how many of their elements share a scale."""

ELEMENTS = {"e4m3": "fp8", "e5m2": "bf8"}
"""Types of A and B by parameter, under the names that matrix instructions use."""

BLOCK = 128
"""The columns of K, and the rows of B, that share a scale with scales=block."""
