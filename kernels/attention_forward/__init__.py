"""O = softmax(scale Q K^T + mask) V: `family` is what callers see, `problem` the data; `place` and `epilogue` the code around the loops."""
