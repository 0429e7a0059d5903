// Integer and float atomics on memory and LDS, with and without the old value, 32 and 64 bits.
#include "common.h"

#define FETCH(name, p, v) __hip_atomic_fetch_##name(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

// With v = a[i] of every i < n: c[0] += v, c[1] = min, c[2] = max, c[3] &= v, c[4] |= v, c[5] ^= v, u[6] = umax, u[7] = umin.
KERNEL(64) atomics_integer(int* c, const int* a, int n) {
    int i = global_id(64);
    if (i >= n) return;
    u32* u = (u32*)c;
    int v = a[i];
    FETCH(add, c, v);
    FETCH(min, c + 1, v);
    FETCH(max, c + 2, v);
    FETCH(and, c + 3, v);
    FETCH(or, c + 4, v);
    FETCH(xor, c + 5, v);
    FETCH(max, u + 6, (u32)v);
    FETCH(min, u + 7, (u32)v);
}

// The same with 64-bit values in c[0] to c[5]; c[6] counts the threads, and ticket[i] is the count before thread i (a permutation).
KERNEL(64) atomics_wide(i64* c, u64* ticket, const i64* a, int n) {
    int i = global_id(64);
    if (i >= n) return;
    i64 v = a[i];
    FETCH(add, c, v);
    FETCH(min, c + 1, v);
    FETCH(max, c + 2, v);
    FETCH(and, c + 3, v);
    FETCH(or, c + 4, v);
    FETCH(xor, c + 5, v);
    ticket[i] = FETCH(add, (u64*)c + 6, 1ull);
}

// c[0] += a[i] * a[i] by compare and swap; s[0] counts up and wraps behind 9 (inc), s[1] counts down from 9 (dec), s[2] = some i (swap).
KERNEL(64) atomics_exchange(float* c, u32* s, const float* a, int n) {
    int i = global_id(64);
    if (i >= n) return;
    float old = __hip_atomic_load(c, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (!__hip_atomic_compare_exchange_strong(c, &old, old + a[i] * a[i], __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {}
    __builtin_amdgcn_atomic_inc32(s, 9, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec32(s + 1, 9, __ATOMIC_RELAXED, "agent");
    __hip_atomic_exchange(s + 2, (u32)i, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_AGENT);
}

// h[b] = how many of the 256 values of a have a[i] % 32 == b, summed over groups; counted in LDS first.
KERNEL(256) histogram(u32* h, const u32* a) {
    SHARED u32 bins[32];
    int t = thread_id();
    if (t < 32) bins[t] = 0;
    sync();
    __hip_atomic_fetch_add(bins + a[global_id(256)] % 32, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    sync();
    if (t < 32) FETCH(add, h + t, bins[t]);
}
