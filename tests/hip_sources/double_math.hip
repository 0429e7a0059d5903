// o[6 i ..] = a / b, sqrt(|a|), fma(a, b, a), rounded towards -inf, largest of a and b, a scaled by 2^(i % 5).
#include "common.h"

KERNEL(64) double_math(double* o, const double* a, const double* b, int n) {
    int i = global_id(64);
    if (i >= n) return;
    double x = a[i], y = b[i];
    o += 6 * i;
    o[0] = x / y;
    o[1] = __builtin_sqrt(__builtin_fabs(x));
    o[2] = __builtin_fma(x, y, x);
    o[3] = __builtin_floor(x);
    o[4] = __builtin_fmax(x, y);
    o[5] = __builtin_ldexp(x, i % 5);
}

// o[4 i ..] = the same quotient, root, and the remainder of a / b in single precision, then a as an integer.
KERNEL(64) single_math(float* o, const float* a, const float* b, int n) {
    int i = global_id(64);
    if (i >= n) return;
    float x = a[i], y = b[i];
    o += 4 * i;
    o[0] = x / y;
    o[1] = __builtin_sqrtf(__builtin_fabsf(x));
    o[2] = x - y * __builtin_truncf(x / y);
    o[3] = (float)(int)x;
}
