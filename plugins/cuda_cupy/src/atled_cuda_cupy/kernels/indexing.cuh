// Places counted and divided.
#define ITEMS 4 /* what a thread has under way at once */
#define THREADS 256

// Unsigned: the numbers of what lies a step of the grid behind the last element do not overflow.
#if WIDE
typedef unsigned long long count_t;
#else
typedef unsigned int count_t;
#endif

// n / divisor, by a multiplication where n is below 2^31; multiplier, shift: see division.py.
__device__ __forceinline__ count_t divided(count_t n, index_t divisor, index_t multiplier, index_t shift) {
#if WIDE
    return n / (count_t)divisor;
#else
    return (__umulhi(n, (unsigned)multiplier) + n) >> shift;
#endif
}

__device__ __forceinline__ bool is_multiple(const void *address, int bytes) {
    return (unsigned long long)address % bytes == 0;
}
