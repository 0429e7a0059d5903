"""What a pipelined step is made of: iterations, units and their effects, how units merge into placed code."""
