"""What all matrix products of the library share: `contract` is what callers see, `problem` the data and the reference, `prologue` and
`epilogue` the code before and after the loop, `quadrants` and `twohalves` steps of the loop."""
