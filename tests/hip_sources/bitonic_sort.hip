// Sorts each 256 integers of a in place, ascending.
#include "common.h"

KERNEL(256) bitonic_sort(int* a) {
    SHARED int key[256];
    int t = thread_id();
    key[t] = a[global_id(256)];
    for (int size = 2; size <= 256; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            sync();
            int other = t ^ step;
            if (other > t) {
                int x = key[t], y = key[other];
                if ((x > y) == ((t & size) == 0)) {
                    key[t] = y;
                    key[other] = x;
                }
            }
        }
    sync();
    a[global_id(256)] = key[t];
}
