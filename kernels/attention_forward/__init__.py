"""O = softmax(scale Q K^T + mask) V: `family` is what callers see, `problem` its data, `place` and `ends` what stands around the loops."""
