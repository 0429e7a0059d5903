"""Predicting launches of a family's kernels, and choosing among its variants by what is predicted."""
