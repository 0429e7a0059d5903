"""Benchmarks: they print figures, and are no tests. `python -m benchmarks` runs all, `--quick` each for a moment (the suite does)."""
