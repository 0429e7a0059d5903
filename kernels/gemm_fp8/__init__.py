"""D[M,N] = scaled A[M,K] x B[N,K]^T in fp8 with float32 accumulation: `tiled`, `blocks` and `cdna3` write the variants, `library` has
all."""
