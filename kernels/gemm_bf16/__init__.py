"""D[M,N] = A[M,K] x B[N,K]^T in bf16 with float32 accumulation: `library` for all of it, `tiled` and `roles` write the variants."""
