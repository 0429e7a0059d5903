"""Predictions of time: the cycle model of one compute unit and the estimate of a whole kernel (design.md section 5)."""
