"""D[M,N] = A[M,K] x B[N,K]^T in bf16 with float32 accumulation: `tiled` and `roles` write the variants, `library` has all of them."""
