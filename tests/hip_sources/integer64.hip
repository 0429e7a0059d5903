// o[8 i ..] = a * b, a / b, a % b, a << (b & 63), a >> (b & 63) (signed), unsigned a / b, unsigned a >> (b & 63), high half of a * b; b != 0.
#include "common.h"

KERNEL(64) integer64(i64* o, const i64* a, const i64* b, int n) {
    int i = global_id(64);
    if (i >= n) return;
    i64 x = a[i], y = b[i];
    int s = y & 63;
    o += 8 * i;
    o[0] = x * y;
    o[1] = x / y;
    o[2] = x % y;
    o[3] = x << s;
    o[4] = x >> s;
    o[5] = (u64)x / (u64)y;
    o[6] = (u64)x >> s;
    o[7] = ((__int128)x * y) >> 64;
}
