// Calls of functions in branches that only some lanes take.
#include "common.h"

// x * (0 + 1 + ... + (n - 1)), summed one by one.
FUNCTION float weighted(float x, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x * i;
    return sum;
}

// The number of steps of the Collatz sequence from n to 1, at most limit.
FUNCTION int collatz(u32 n, int limit) {
    int steps = 0;
    while (n > 1 && steps < limit) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        ++steps;
    }
    return steps;
}

// o[i] = weighted(a[i], i % 7) where a[i] > 0, collatz(i + 1, 100) where a[i] < -1, else a[i]; i < n.
KERNEL(128) divergent_calls(float* o, const float* a, int n) {
    int i = global_id(128);
    if (i >= n) return;
    float x = a[i];
    if (x > 0) o[i] = weighted(x, i % 7);
    else if (x < -1) o[i] = (float)collatz(i + 1, 100);
    else o[i] = x;
}
