// o[g] = sum of a[256 g .. 256 g + 255], elements from n on count as 0. A tree in LDS.
#include "common.h"

KERNEL(256) lds_reduce(float* o, const float* a, int n) {
    SHARED float part[256];
    int t = thread_id(), i = global_id(256);
    part[t] = i < n ? a[i] : 0.0f;
    for (int step = 128; step > 0; step >>= 1) {
        sync();
        if (t < step) part[t] += part[t + step];
    }
    if (t == 0) o[group_id()] = part[0];
}

// o[g] = maximum of the 256 integers of group g, by way of an LDS atomic.
KERNEL(256) lds_maximum(int* o, const int* a) {
    SHARED int best;
    if (thread_id() == 0) best = -2147483647 - 1;
    sync();
    __hip_atomic_fetch_max(&best, a[global_id(256)], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    sync();
    if (thread_id() == 0) o[group_id()] = best;
}
