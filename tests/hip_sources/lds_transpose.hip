// o = transpose of the 64 x 64 matrix a of group g (halves, row-major).
#include "common.h"

KERNEL(256) lds_transpose(half* o, const half* a) {
    SHARED half tile[64][66];
    int t = thread_id();
    a += group_id() * 4096;
    o += group_id() * 4096;
    for (int i = t; i < 4096; i += 256) tile[i / 64][i % 64] = a[i];
    sync();
    for (int i = t; i < 4096; i += 256) o[i] = tile[i % 64][i / 64];
}

#if __gfx950__
// What the transposing reads return when lane l addresses byte 8 l (16-bit, 8-bit, 4-bit elements) of 512 bytes of a, and byte 16 l of 1024 (6-bit).
KERNEL(64) lds_read_transposed(int2* o16, int2* o8, int2* o4, int3* o6, const int* a) {
    SHARED __attribute__((aligned(16))) int buffer[256];
    int l = thread_id();
    for (int i = 0; i < 4; ++i) buffer[64 * i + l] = a[64 * i + l];
    sync();
    o16[l] = __builtin_bit_cast(int2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((LDS short4*)buffer + l));
    o8[l] = __builtin_amdgcn_ds_read_tr8_b64_v2i32((LDS int2*)buffer + l);
    o4[l] = __builtin_amdgcn_ds_read_tr4_b64_v2i32((LDS int2*)buffer + l);
    o6[l] = __builtin_amdgcn_ds_read_tr6_b96_v3i32((LDS int3*)((LDS int4*)buffer + l));
}
#endif
