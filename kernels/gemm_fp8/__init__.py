"""D[M,N] = scaled A[M,K] x B[N,K]^T in fp8 with float32 accumulation: `library` for all of it, `tiled` writes the variants of gfx950."""
