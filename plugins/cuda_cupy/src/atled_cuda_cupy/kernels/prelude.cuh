/* What every kernel begins with. Defined before it: FLOATS and WORDS (counts), WIDE (whether index_t has 64 bits).
   CUDA_EMULATOR: it is compiled for the processor, by a C++ compiler, for tests. */
#if WIDE
typedef long long index_t;
#else
typedef int index_t;
#endif

/* Numbers of a call that change from run to run: in the table of a plan, or given with the launch. */
struct Floats {
    const long long *table;
    long long first;
    long long own[FLOATS > 0 ? FLOATS : 1];
};

static __device__ __forceinline__ long long word(const Floats &floats, int i) {
    return floats.table ? __ldg(floats.table + floats.first + i) : floats.own[i]; /* never changes within a launch */
}

static __device__ __forceinline__ double number(const Floats &floats, int i) {
    return __longlong_as_double(word(floats, i));
}

/* Whole numbers that belong to the launch: sizes, strides. */
struct __align__(8) Words {
    index_t w[WORDS > 0 ? WORDS : 1];
};

/* at / divisor for at >= 0, by a multiplication where indices have 32 bits; factor, shift: see division.py. */
static __device__ __forceinline__ index_t quotient(index_t at, index_t factor, index_t shift) {
#if WIDE
    return at / factor;
#else
    unsigned n = (unsigned)at;
    return (index_t)(((unsigned)(((unsigned long long)n * (unsigned)factor) >> 32) + n) >> shift);
#endif
}

/* Every element i below n, each once, by all threads of the grid. */
#define EACH(i, n)                                                                                                     \
    for (index_t i = blockIdx.x * (index_t)blockDim.x + threadIdx.x; i < (n); i += (index_t)gridDim.x * blockDim.x)

/* The first failure is the one that is told. */
static __device__ __forceinline__ void fail(long long *flag, long long number) {
    atomicCAS((unsigned long long *)flag, 0ULL, (unsigned long long)number);
}

/* ---- 16-bit floats are stored, and computed in float. No headers: NVRTC has none of its own. */
struct half_t {
    unsigned short bits;
};
struct bfloat_t {
    unsigned short bits;
};

#ifndef CUDA_EMULATOR
static __device__ __forceinline__ float half_to_float(half_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
    return x;
}
static __device__ __forceinline__ half_t half_from(float x) {
    half_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
    return h;
}
static __device__ __forceinline__ half_t half_from(double x) {
    half_t h;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h.bits) : "d"(x));
    return h;
}
#else
static __device__ __forceinline__ float half_to_float(half_t h) {
    unsigned sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31, digits = h.bits & 1023;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | digits << 13);
    float size = exponent ? __uint_as_float((exponent + 112) << 23 | digits << 13) : digits * 5.9604644775390625e-8f;
    return sign ? -size : size;
}
static __device__ __forceinline__ half_t half_from(double x) {
    unsigned long long bits = __double_as_longlong(x);
    unsigned short sign = (unsigned short)(bits >> 48 & 0x8000);
    double size = fabs(x);
    if (x != x) return half_t{(unsigned short)(sign | 0x7e00)};
    if (size >= 65520.0) return half_t{(unsigned short)(sign | 0x7c00)};
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    double unit = ldexp(1.0, (exponent < -14 ? -14 : exponent) - 10); /* distance of neighbouring halves */
    unsigned digits = (unsigned)rint(size / unit);
    unsigned base = exponent < -14 ? 0 : (unsigned)(exponent + 14) << 10; /* digits carry into the exponent */
    return half_t{(unsigned short)(sign | (base + digits))};
}
static __device__ __forceinline__ half_t half_from(float x) { return half_from((double)x); }
#endif

static __device__ __forceinline__ float bfloat_to_float(bfloat_t b) {
    return __uint_as_float((unsigned)b.bits << 16);
}
static __device__ __forceinline__ bfloat_t bfloat_from(float x) {
    unsigned bits = __float_as_uint(x);
    bits = x != x ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1); /* to nearest, ties to even; NaN stays NaN */
    return bfloat_t{(unsigned short)(bits >> 16)};
}

/* load: an element as it is computed with (T -> A).  store<T>: as it is kept. */
template <class T> static __device__ __forceinline__ T load(T x) { return x; }
static __device__ __forceinline__ float load(half_t x) { return half_to_float(x); }
static __device__ __forceinline__ float load(bfloat_t x) { return bfloat_to_float(x); }

template <class T> struct Store {
    template <class V> static __device__ __forceinline__ T from(V value) { return (T)value; }
};
template <> struct Store<bool> {
    template <class V> static __device__ __forceinline__ bool from(V value) { return value != 0; }
};
template <> struct Store<half_t> {
    template <class V> static __device__ __forceinline__ half_t from(V value) { return half_from((float)value); }
    static __device__ __forceinline__ half_t from(double value) { return half_from(value); }
};
template <> struct Store<bfloat_t> {
    template <class V> static __device__ __forceinline__ bfloat_t from(V value) { return bfloat_from((float)value); }
};
template <class T, class V> static __device__ __forceinline__ T store(V value) { return Store<T>::from(value); }

/* 16 bytes of an array at once; the address must be a multiple of 16. */
template <class T> struct __align__(16) Vector {
    static const int SIZE = 16 / sizeof(T);
    T at[16 / sizeof(T)];
};

/* ---- Sums and maxima of a warp and of a block, the same in every thread and at every run. Blocks are whole warps of
   one dimension; `parts` is shared memory for 32 values. NaN is greater than all. */
template <class A> static __device__ __forceinline__ A maximum(A a, A b) { return a > b || a != a ? a : b; }
template <class A> static __device__ __forceinline__ A minimum(A a, A b) { return a < b || a != a ? a : b; }

struct Sum {
    template <class A> static __device__ __forceinline__ A of(A a, A b) { return a + b; }
};
struct Maximum {
    template <class A> static __device__ __forceinline__ A of(A a, A b) { return maximum(a, b); }
};
struct Minimum {
    template <class A> static __device__ __forceinline__ A of(A a, A b) { return minimum(a, b); }
};

template <class Op, class A> static __device__ __forceinline__ A warp_all(A value) {
#pragma unroll
    for (int distance = 16; distance; distance >>= 1)
        value = Op::of(value, (A)__shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}

template <class Op, class A> static __device__ __forceinline__ A block_all(A value, A *parts) {
    value = warp_all<Op>(value);
    __syncthreads(); /* until then others may read what was there before */
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < (int)blockDim.x / 32; warp++) value = Op::of(value, parts[warp]);
    return value;
}

template <class A> static __device__ __forceinline__ A warp_sum(A value) { return warp_all<Sum>(value); }
template <class A> static __device__ __forceinline__ A warp_max(A value) { return warp_all<Maximum>(value); }
template <class A> static __device__ __forceinline__ A block_sum(A value, A *parts) {
    return block_all<Sum>(value, parts);
}
template <class A> static __device__ __forceinline__ A block_max(A value, A *parts) {
    return block_all<Maximum>(value, parts);
}
