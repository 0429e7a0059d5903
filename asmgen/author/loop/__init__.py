"""Pipelines: a step becomes a prologue, a loop, a drain and a path for each count."""
