"""Activations of rows: gelu, silu, and swiglu with limits, alone or times a second tensor, and their gradients."""
