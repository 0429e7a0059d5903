// o[8 i ..] of x = a[i]: 2^x, log2 |x|, sin and cos of 2 pi x, 1 / x, 1 / sqrt |x|, fraction, exponent of x as an integer.
#include "common.h"

KERNEL(64) transcendental(float* o, const float* a) {
    int i = global_id(64);
    float x = a[i], p = __builtin_fabsf(x);
    o += 8 * i;
    o[0] = __builtin_amdgcn_exp2f(x);
    o[1] = __builtin_amdgcn_logf(p);
    o[2] = __builtin_amdgcn_sinf(x);
    o[3] = __builtin_amdgcn_cosf(x);
    o[4] = __builtin_amdgcn_rcpf(x);
    o[5] = __builtin_amdgcn_rsqf(p);
    o[6] = __builtin_amdgcn_fractf(x);
    o[7] = (float)__builtin_amdgcn_frexp_expf(x);
}
