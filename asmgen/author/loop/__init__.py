"""Pipelines: a step becomes prologue, loop, drain and a path for each count."""
