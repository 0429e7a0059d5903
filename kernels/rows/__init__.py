"""What row kernels share: who holds a row, how rows go through registers, sums over a row, dropout."""
