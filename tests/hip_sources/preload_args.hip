// Compiled so that the hardware loads the arguments into registers: o[i] = a[i] * scale + shift + bias for i < n.
#include "common.h"

KERNEL(64) preload_args(float* o, const float* a, int n, float scale, float shift, double bias) {
    int i = global_id(64);
    if (i < n) o[i] = a[i] * scale + shift + (float)bias;
}
