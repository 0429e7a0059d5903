"""D[M,N] = A[M,K] x B[N,K]^T in bf16 with float32 accumulation: `build` for gfx950 and gfx942, `host` to run it."""
