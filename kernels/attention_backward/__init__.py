"""dQ, dK, dV of attention: `family` is what callers see, `problem` the data; `sides` are the kernels before and after the main one."""
