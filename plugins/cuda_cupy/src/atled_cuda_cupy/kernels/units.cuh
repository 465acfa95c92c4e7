// What moves at once: UNIT bytes, several elements of ITEM bytes side by side, whatever those mean.
template <int BYTES> struct Bytes;
template <> struct Bytes<1> {
    typedef unsigned char type;
};
template <> struct Bytes<2> {
    typedef unsigned short type;
};
template <> struct Bytes<4> {
    typedef unsigned int type;
};
template <> struct Bytes<8> {
    typedef uint2 type;
};
template <> struct Bytes<16> {
    typedef uint4 type;
};
typedef Bytes<UNIT>::type unit;
typedef Bytes<ITEM>::type item;

union Items {
    unit all;
    item each[UNIT / ITEM];
};

// Arrays of users may begin at any element; then the elements of a unit move one by one.
__device__ __forceinline__ bool is_aligned(const unit *x) { return UNIT == ITEM || is_multiple(x, UNIT); }

__device__ __forceinline__ unit read(const unit *x, index_t at, bool aligned) {
    if (aligned) return x[at];
    Items found;
#pragma unroll
    for (int i = 0; i < UNIT / ITEM; i++) found.each[i] = ((const item *)x)[at * (UNIT / ITEM) + i];
    return found.all;
}

__device__ __forceinline__ void write(unit *y, index_t at, unit value, bool aligned) {
    if (aligned) {
        y[at] = value;
        return;
    }
    Items made;
    made.all = value;
#pragma unroll
    for (int i = 0; i < UNIT / ITEM; i++) ((item *)y)[at * (UNIT / ITEM) + i] = made.each[i];
}

#define FIRST_UNIT ((count_t)blockIdx.x * (THREADS * ITEMS) + threadIdx.x)
#define ALL_UNITS ((count_t)gridDim.x * (THREADS * ITEMS))
