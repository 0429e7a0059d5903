// Float atomics of the hardware, sums over all i < n: s[0] += a[i]; d[0] += a[i], d[1] = min, d[2] = max; h += (a[i], 1) in f16; b likewise in bf16.
#include "common.h"

KERNEL(64) float_atomics(float* s, double* d, half2* h, short2* b, const float* a, int n) {
    int i = global_id(64);
    if (i >= n) return;
    float x = a[i];
    __builtin_amdgcn_global_atomic_fadd_f32((GLOBAL float*)s, x);
    __builtin_amdgcn_global_atomic_fadd_f64((GLOBAL double*)d, (double)x);
    __builtin_amdgcn_global_atomic_fmin_f64((GLOBAL double*)(d + 1), (double)x);
    __builtin_amdgcn_global_atomic_fmax_f64((GLOBAL double*)(d + 2), (double)x);
    __builtin_amdgcn_global_atomic_fadd_v2f16((GLOBAL half2*)h, (half2){(half)x, (half)1});
    bf16x2 pair = {(bf16)x, (bf16)1.0f};
    __builtin_amdgcn_global_atomic_fadd_v2bf16((GLOBAL short2*)b, __builtin_bit_cast(short2, pair));
}

// The same sums through generic pointers and in LDS: o[g] = sum of the group's 64 values.
KERNEL(64) lds_float_atomics(float* o, float* total, const float* a) {
    SHARED float sum;
    if (thread_id() == 0) sum = 0;
    sync();
    float x = a[global_id(64)];
    __builtin_amdgcn_ds_atomic_fadd_f32((LDS float*)&sum, x);
    __builtin_amdgcn_flat_atomic_fadd_f32(total, x);
    sync();
    if (thread_id() == 0) o[group_id()] = sum;
}
