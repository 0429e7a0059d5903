"""Gradients of layer norm and RMS norm: of rows, and of weight and bias in two passes without atomics."""
