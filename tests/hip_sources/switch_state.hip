// Runs a small machine: code is n numbers 0 to 9, each an operation on x = a[i]; o[i] = x at the end. Operations by number: +1, *3, -i, ^code
// position, >>1 (unsigned), rotate left by 5, negate, & 0xffff, | 1, restart once from the beginning (the first time that it is met).
#include "common.h"

KERNEL(64) switch_state(u32* o, const u32* a, const u8* code, int n) {
    int i = global_id(64);
    u32 x = a[i];
    bool again = true;
    for (int p = 0; p < n; ++p) switch (code[p]) {
        case 0: x += 1; break;
        case 1: x *= 3; break;
        case 2: x -= i; break;
        case 3: x ^= p; break;
        case 4: x >>= 1; break;
        case 5: x = x << 5 | x >> 27; break;
        case 6: x = -x; break;
        case 7: x &= 0xFFFF; break;
        case 8: x |= 1; break;
        case 9: if (again) { again = false; p = -1; } break;
    }
    o[i] = x;
}
