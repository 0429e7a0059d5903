// Pairs of halves and of floats in one instruction.
#include "common.h"

// o[5 i ..] = a * b + c, a + b, minimum, maximum of each half, and the halves of a * b exchanged.
KERNEL(64) packed_half(half2* o, const half2* a, const half2* b, const half2* c) {
    int i = global_id(64);
    half2 x = a[i], y = b[i], p = x * y;
    o += 5 * i;
    o[0] = __builtin_elementwise_fma(x, y, c[i]);
    o[1] = x + y;
    o[2] = __builtin_elementwise_min(x, y);
    o[3] = __builtin_elementwise_max(x, -y);
    o[4] = (half2){p.y, p.x};
}

// o[2 i ..] = a * b + c and a.yx * b of float pairs.
KERNEL(64) packed_float(float2* o, const float2* a, const float2* b, const float2* c) {
    int i = global_id(64);
    float2 x = a[i], y = b[i];
    o[2 * i] = __builtin_elementwise_fma(x, y, c[i]);
    o[2 * i + 1] = (float2){x.y, x.x} * y;
}

// o[4 i ..] = a + b, a * b, a << (b & 15), the larger of a and b, of each 16-bit integer.
KERNEL(64) packed_short(short2* o, const short2* a, const short2* b) {
    int i = global_id(64);
    short2 x = a[i], y = b[i];
    o += 4 * i;
    o[0] = x + y;
    o[1] = x * y;
    o[2] = x << (y & (short)15);
    o[3] = __builtin_elementwise_max(x, y);
}
