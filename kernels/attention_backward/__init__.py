"""Gradients of attention: `family` is what callers see, `problem` the data; `sides` are the kernels before and after the main one.

Where the instructions of a step of `pinned` go, of 32 queries and 64 keys of a wave with d = 128 (415 of gfx950, for 2560 clk of the
matrix cores): 80 matrix instructions; 128 of vectors (32 products with the scale, 32 v_exp_f32, 32 products P (dP - delta), 32
conversions to pairs of P and dS); 152 of LDS (16 reads of Q and dO, 16 of K, 96 transposing reads, 8 writes of dS, 16 reads of -LSE and
-delta, twice as many as one tile for both columns of keys would take, for which 16 VGPRs are missing); 21 of memory (16 atomics, 5
fills); 7 scalar ones, 2 barriers, 2 nops, 23 waits. Packed f32 would save 32, but stands in no shadow of a matrix instruction.

What bounds the time of b = hq = 16 and 4096 queries and keys on MI355X: the five products are 10 b hq sq sk d = 5.50e12 operations, at
2^20 a clk of the GPU 5.24e6 clk. The clock is 2714 - 12.4 e MHz where matrix cores are e percent busy
(docs/facts/model_evidence.md section 3), so e times the clock grows up to e = 100, where it is 1474 MHz: 3.56 ms at least. The kernels
beside it move O, dO, dQ and its float32 sums, 1.34 GB, 0.17 ms at the 8 TB/s of HBM. So no order of instructions brings the three launches
below 3.72 ms. With a causal mask, workgroups of 256 keys take 1088 of 2048 steps: 2.06 ms at least.

With d = 64 a step has 277 instructions for 1280 clk of the matrix cores, as K stays in registers and products begin with a column of
-LSE or -delta. One wave a SIMD issues them in 1395 clk by the timing table (4 clk each, 8 of v_exp_f32, and the issue that each matrix
instruction holds up), so matrix cores are busy 0.92 at most. 1529 clk are predicted, 0.84; half of the rest waits for the bus of LDS.
"""
