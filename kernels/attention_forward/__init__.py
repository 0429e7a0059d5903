"""O = softmax(scale Q K^T + mask) V: `family` is what callers see, `problem` the data. `place` stands before the loops, `epilogue` after."""
