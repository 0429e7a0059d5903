"""D[M,N] = scaled A[M,K] x B[N,K]^T in fp8 with float32 accumulation: `library` for all of it, `tiled` and `copied` write the variants."""
