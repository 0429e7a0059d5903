"""What all matrix products of the library share, whatever the types of A and B: `contract` for what callers see, `problem` for what D must
be, `quadrants` for one step of the loop, `ends` for what stands before and behind it."""
