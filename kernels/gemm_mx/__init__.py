"""D[M,N] = A[M,K] x B[N,K]^T of microscaled elements: each 32 columns of a row share a scale of 8 bits. `tiled` and `streamed`
write the variants, `library` has all."""
