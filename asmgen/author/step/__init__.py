"""The parts of a pipelined step: iterations, units and their effects, and merging of units into placed code."""
