// o[i] = a[i] + b[i] for i < n; 256 threads, one element each.
#include "common.h"

KERNEL(256) vector_add(float* o, const float* a, const float* b, int n) {
    int i = global_id(256);
    if (i < n) o[i] = a[i] + b[i];
}

// o[i] = alpha * a[i] + b[i], four elements a thread; n is a multiple of 4.
KERNEL(256) axpy4(float4* o, const float4* a, const float4* b, float alpha, int n) {
    int i = global_id(256);
    if (4 * i < n) o[i] = alpha * a[i] + b[i];
}
