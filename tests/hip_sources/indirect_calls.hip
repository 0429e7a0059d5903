// o[i] = f(a[i]) with f by pick[i] % 4: x + 1, x * x, x reversed bit by bit, the sum 1 + ... + (x & 15) by recursion.
#include "common.h"

FUNCTION u32 successor(u32 x) { return x + 1; }
FUNCTION u32 square(u32 x) { return x * x; }
FUNCTION u32 reversed(u32 x) { return __builtin_bitreverse32(x); }
FUNCTION u32 triangle(u32 x) { x &= 15; return x ? x + triangle(x - 1) : 0; }

KERNEL(64) indirect_calls(u32* o, const u32* a, const u32* pick) {
    u32 (*functions[4])(u32) = {successor, square, reversed, triangle};
    int i = global_id(64);
    o[i] = functions[pick[i] % 4](a[i]);
}
