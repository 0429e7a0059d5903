// o[6 i ..] = a + b, a * b - c, a / b, sqrt |a|, a rounded to integer, a < b ? c : -c in f16; q[i] = a * b + c with bf16 sources in single precision.
#include "common.h"

KERNEL(64) half_arithmetic(half* o, const half* a, const half* b, const half* c, int n) {
    int i = global_id(64);
    if (i >= n) return;
    half x = a[i], y = b[i], z = c[i];
    o += 6 * i;
    o[0] = x + y;
    o[1] = __builtin_elementwise_fma(x, y, -z);
    o[2] = x / y;
    o[3] = __builtin_elementwise_sqrt(__builtin_elementwise_abs(x));
    o[4] = __builtin_elementwise_rint(x);
    o[5] = x < y ? z : -z;
}

KERNEL(64) bf16_arithmetic(bf16* o, float* q, const bf16* a, const bf16* b, const float* c, int n) {
    int i = global_id(64);
    if (i >= n) return;
    o[i] = (bf16)((float)a[i] + (float)b[i]);
    q[i] = __builtin_fmaf((float)a[i], (float)b[i], c[i]);
}

// o[i] = a . b of four halves each, summed in single precision (mixed fma), plus c.
KERNEL(64) mixed_fma(float* o, const half4* a, const half4* b, float c) {
    int i = global_id(64);
    half4 x = a[i], y = b[i];
    float sum = c;
    for (int k = 0; k < 4; ++k) sum = __builtin_fmaf((float)x[k], (float)y[k], sum);
    o[i] = sum;
}
