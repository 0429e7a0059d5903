"""Predictions of time: the cycle model of one compute unit and the estimate of a whole kernel (docs/ARCHITECTURE.md)."""
