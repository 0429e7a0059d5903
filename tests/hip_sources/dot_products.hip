// o[6 i ..] = c + dot products of the packed integers in a and b: 4 x i8, 4 x u8, 8 x i4, 8 x u4, 2 x i16, 2 x u16. f[i] = c + 2 x f16.
#include "common.h"

KERNEL(64) dot_products(int* o, float* f, const int* a, const int* b, int c) {
    int i = global_id(64), x = a[i], y = b[i];
    o += 6 * i;
    o[0] = __builtin_amdgcn_sdot4(x, y, c, false);
    o[1] = __builtin_amdgcn_udot4(x, y, c, false);
    o[2] = __builtin_amdgcn_sdot8(x, y, c, false);
    o[3] = __builtin_amdgcn_udot8(x, y, c, false);
    o[4] = __builtin_amdgcn_sdot2(__builtin_bit_cast(short2, x), __builtin_bit_cast(short2, y), c, false);
    typedef u16 ushort2 __attribute__((ext_vector_type(2)));
    o[5] = __builtin_amdgcn_udot2(__builtin_bit_cast(ushort2, x), __builtin_bit_cast(ushort2, y), c, false);
    f[i] = __builtin_amdgcn_fdot2(__builtin_bit_cast(half2, x), __builtin_bit_cast(half2, y), (float)c, false);
}

// o[i] = the sum of 64 products of signed bytes of row i of a (64 bytes) and of b (64 bytes).
KERNEL(64) row_dot(int* o, const int* a, const int* b) {
    int i = global_id(64), sum = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k) sum = __builtin_amdgcn_sdot4(a[16 * i + k], b[k], sum, false);
    o[i] = sum;
}
