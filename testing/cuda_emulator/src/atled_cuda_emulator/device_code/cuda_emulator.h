// What NVRTC gives to kernels without an include, for a C++ compiler: types, built-in variables and functions.
// It includes nothing, so a kernel that needs a header which NVRTC lacks does not compile here either.
#pragma once

#define CUDA_EMULATOR 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ cu_address;

// --- vectors -------------------------------------------------------------------------------------------
#define CU_VECTORS(T, N)                                                                                   \
    struct N##1 { T x; };                                                                                  \
    struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; };                                       \
    struct N##3 { T x, y, z; };                                                                            \
    struct __attribute__((aligned(sizeof(T) < 4 ? 4 * sizeof(T) : 16))) N##4 { T x, y, z, w; };            \
    static inline N##1 make_##N##1(T x) { return {x}; }                                                    \
    static inline N##2 make_##N##2(T x, T y) { return {x, y}; }                                            \
    static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                                    \
    static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CU_VECTORS(signed char, char)
CU_VECTORS(unsigned char, uchar)
CU_VECTORS(short, short)
CU_VECTORS(unsigned short, ushort)
CU_VECTORS(int, int)
CU_VECTORS(unsigned, uint)
CU_VECTORS(long long, longlong)
CU_VECTORS(unsigned long long, ulonglong)
CU_VECTORS(float, float)
CU_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// --- what runtime.cpp keeps for the running thread -------------------------------------------------------
extern "C" {
extern uint3 cu_thread_index, cu_block_index;
extern uint3 cu_block_size, cu_grid_size;
extern char *cu_dynamic_shared;
void cu_wait_block(int place);
int cu_count_block(int predicate, int place);
void cu_wait_warp(unsigned mask, int place);
void cu_exchange(unsigned mask, void *value, size_t size, int source, int place);
unsigned cu_ballot(unsigned mask, int predicate, int place);
int cu_lane();
void cu_fault(const char *text, int line) __attribute__((noreturn));
int printf(const char *format, ...);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
}

#define threadIdx ((const uint3 &)cu_thread_index)
#define blockIdx ((const uint3 &)cu_block_index)
#define blockDim ((const uint3 &)cu_block_size)
#define gridDim ((const uint3 &)cu_grid_size)
static const int warpSize = 32;

struct CuKernel {
    void (*call)(char *packed);
    int count;
    unsigned total;              // bytes of the packed arguments
    const unsigned *offsets, *sizes;
    const unsigned char *pointers;
    char *shared, *shared_end;   // its static shared memory
};

template <class T> struct CuIsPointer { static constexpr bool value = false; };
template <class T> struct CuIsPointer<T *> { static constexpr bool value = true; };

template <class... A> struct CuLayout {
    unsigned offsets[sizeof...(A) + 1] = {}, sizes[sizeof...(A) + 1] = {(unsigned)sizeof(A)...}, total = 0;
    unsigned char pointers[sizeof...(A) + 1] = {CuIsPointer<A>::value...};
    constexpr CuLayout() {
        const unsigned aligns[] = {(unsigned)alignof(A)..., 1};
        for (unsigned i = 0; i < sizeof...(A); i++) {
            offsets[i] = (total + aligns[i] - 1) / aligns[i] * aligns[i];
            total = offsets[i] + sizes[i];
        }
    }
};
template <class... A> static const CuLayout<A...> cu_layout{};

template <int... I> struct CuIndices {};
template <int N, int... I> struct CuCount : CuCount<N - 1, N - 1, I...> {};
template <int... I> struct CuCount<0, I...> { typedef CuIndices<I...> type; };

template <class F, F f> struct CuEntry;
template <class... A, void (*f)(A...)> struct CuEntry<void (*)(A...), f> {
    template <int... I> static void spread(char *packed, CuIndices<I...>) { f(*(A *)(packed + cu_layout<A...>.offsets[I])...); }
    static void call(char *packed) { spread(packed, typename CuCount<sizeof...(A)>::type()); }
    static constexpr CuKernel kernel(char *shared, char *shared_end) {
        return {call, sizeof...(A), cu_layout<A...>.total, cu_layout<A...>.offsets, cu_layout<A...>.sizes,
                cu_layout<A...>.pointers, shared, shared_end};
    }
};

// --- barriers and warps ------------------------------------------------------------------------------------
#define CU_HERE (__LINE__ * 4096 + __COUNTER__ % 4096) // one value for each place that waits
#define __syncthreads() cu_wait_block(CU_HERE)
#define __syncthreads_count(p) cu_count_block((p) != 0, CU_HERE)
#define __syncthreads_or(p) (cu_count_block((p) != 0, CU_HERE) > 0)
#define __syncthreads_and(p) (cu_count_block((p) == 0, CU_HERE) == 0)
#define __syncwarp(...) cu_wait_warp(CU_FIRST(__VA_ARGS__ __VA_OPT__(, ) 0xffffffffu, 0), CU_HERE)
#define CU_FIRST(a, ...) a
#define __ballot_sync(m, p) cu_ballot(m, (p) != 0, CU_HERE)
#define __any_sync(m, p) (cu_ballot(m, (p) != 0, CU_HERE) != 0)
#define __all_sync(m, p) (cu_ballot(m, (p) == 0, CU_HERE) == 0)
#define __shfl_sync(m, ...) cu_shuffle(m, CU_SHUFFLE(__VA_ARGS__, 32, 0), CU_HERE)
#define __shfl_up_sync(m, ...) cu_shuffle_up(m, CU_SHUFFLE(__VA_ARGS__, 32, 0), CU_HERE)
#define __shfl_down_sync(m, ...) cu_shuffle_down(m, CU_SHUFFLE(__VA_ARGS__, 32, 0), CU_HERE)
#define __shfl_xor_sync(m, ...) cu_shuffle_xor(m, CU_SHUFFLE(__VA_ARGS__, 32, 0), CU_HERE)
#define CU_SHUFFLE(value, lane, width, ...) value, lane, width
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __threadfence_system() ((void)0)
#define __trap() cu_fault("__trap()", __LINE__)
#define assert(e) ((e) ? (void)0 : cu_fault("assertion failed: " #e, __LINE__))

template <class T> static T cu_exchanged(unsigned mask, T value, int source, int place) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2, "shuffles take 2, 4 or 8 bytes");
    cu_exchange(mask, &value, sizeof value, source, place);
    return value;
}
template <class T> static T cu_shuffle(unsigned m, T v, int from, int width, int place) {
    int lane = cu_lane();
    return cu_exchanged(m, v, lane / width * width + (from & (width - 1)), place);
}
template <class T> static T cu_shuffle_up(unsigned m, T v, unsigned by, int width, int place) {
    int lane = cu_lane(), source = lane - (int)by;
    return cu_exchanged(m, v, source >= lane / width * width ? source : lane, place);
}
template <class T> static T cu_shuffle_down(unsigned m, T v, unsigned by, int width, int place) {
    int lane = cu_lane(), source = lane + (int)by;
    return cu_exchanged(m, v, source / width == lane / width ? source : lane, place);
}
template <class T> static T cu_shuffle_xor(unsigned m, T v, int with, int width, int place) {
    int lane = cu_lane(), source = lane ^ with;
    return cu_exchanged(m, v, source / width <= lane / width ? source : lane, place);
}

// --- atomics: one thread runs at a time -----------------------------------------------------------------------
#define CU_ATOMIC(name, expression)                                                                        \
    template <class T, class V> static inline T name(T *p, V value) {                                      \
        T old = *p, v = (T)value;                                                                          \
        *p = (T)(expression);                                                                              \
        return old;                                                                                        \
    }
CU_ATOMIC(atomicAdd, old + v)
CU_ATOMIC(atomicSub, old - v)
CU_ATOMIC(atomicExch, v)
CU_ATOMIC(atomicOr, old | v)
CU_ATOMIC(atomicAnd, old &v)
CU_ATOMIC(atomicXor, old ^ v)
CU_ATOMIC(atomicMax, old > v ? old : v)
CU_ATOMIC(atomicMin, old < v ? old : v)
#define CU_CAS(T)                                                                                          \
    static inline T atomicCAS(T *p, T expected, T value) {                                                 \
        T old = *p;                                                                                        \
        if (old == expected) *p = value;                                                                   \
        return old;                                                                                        \
    }
CU_CAS(int) CU_CAS(unsigned) CU_CAS(unsigned long long) CU_CAS(unsigned short)

// --- loads and stores with a hint -------------------------------------------------------------------------------
#define CU_LOAD(name) template <class T> static inline T name(const T *p) { return *p; }
CU_LOAD(__ldg) CU_LOAD(__ldcs) CU_LOAD(__ldca) CU_LOAD(__ldcg) CU_LOAD(__ldlu) CU_LOAD(__ldcv)
#define CU_STORE(name) template <class T> static inline void name(T *p, T value) { *p = value; }
CU_STORE(__stcs) CU_STORE(__stcg) CU_STORE(__stwb) CU_STORE(__stwt)

// --- mathematics ---------------------------------------------------------------------------------------------------
#define CU_MATH1(name)                                                                                     \
    extern "C" double name(double);                                                                        \
    extern "C" float name##f(float);                                                                       \
    static inline float name(float x) { return name##f(x); }
CU_MATH1(sin) CU_MATH1(cos) CU_MATH1(tan) CU_MATH1(asin) CU_MATH1(acos) CU_MATH1(atan) CU_MATH1(sinh) CU_MATH1(cosh)
CU_MATH1(tanh) CU_MATH1(asinh) CU_MATH1(acosh) CU_MATH1(atanh) CU_MATH1(exp) CU_MATH1(exp2) CU_MATH1(expm1)
CU_MATH1(log) CU_MATH1(log2) CU_MATH1(log10) CU_MATH1(log1p) CU_MATH1(sqrt) CU_MATH1(cbrt) CU_MATH1(erf) CU_MATH1(erfc)
CU_MATH1(lgamma) CU_MATH1(tgamma) CU_MATH1(ceil) CU_MATH1(floor) CU_MATH1(trunc) CU_MATH1(round) CU_MATH1(rint)
CU_MATH1(nearbyint) CU_MATH1(fabs) CU_MATH1(logb)
#define CU_MATH2(name)                                                                                     \
    extern "C" double name(double, double);                                                                \
    extern "C" float name##f(float, float);                                                                \
    static inline float name(float x, float y) { return name##f(x, y); }
CU_MATH2(pow) CU_MATH2(atan2) CU_MATH2(fmod) CU_MATH2(remainder) CU_MATH2(fmax) CU_MATH2(fmin) CU_MATH2(fdim)
CU_MATH2(hypot) CU_MATH2(copysign) CU_MATH2(nextafter)
extern "C" {
double fma(double, double, double);
float fmaf(float, float, float);
double ldexp(double, int);
float ldexpf(float, int);
double scalbn(double, int);
float scalbnf(float, int);
double frexp(double, int *);
float frexpf(float, int *);
double modf(double, double *);
float modff(float, float *);
int ilogb(double);
int ilogbf(float);
long lrint(double);
long lrintf(float);
long lround(double);
long lroundf(float);
long long llrint(double);
long long llrintf(float);
long long llround(double);
long long llroundf(float);
int abs(int);
long labs(long);
long long llabs(long long);
}
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
static inline long abs(long x) { return labs(x); }
static inline long long abs(long long x) { return llabs(x); }
#define isnan(x) __builtin_isnan(x)
#define isinf(x) (__builtin_isinf_sign(x) != 0)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) (__builtin_signbit(x) != 0)
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline float exp10f(float x) { return powf(10.0f, x); }
static inline double exp10(double x) { return pow(10.0, x); }
static inline void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
static inline void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
static inline float sinpif(float x) { return (float)sin(3.14159265358979323846 * remainder((double)x, 2.0)); }
static inline float cospif(float x) { return (float)cos(3.14159265358979323846 * remainder((double)x, 2.0)); }
static inline double sinpi(double x) { return sin(3.14159265358979323846 * remainder(x, 2.0)); }
static inline double cospi(double x) { return cos(3.14159265358979323846 * remainder(x, 2.0)); }
static inline void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
static inline void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
static inline float normcdff(float x) { return (float)normcdf((double)x); }
#define CU_MINMAX(T)                                                                                       \
    static inline T min(T a, T b) { return b < a ? b : a; }                                                \
    static inline T max(T a, T b) { return a < b ? b : a; }
CU_MINMAX(int) CU_MINMAX(unsigned) CU_MINMAX(long) CU_MINMAX(unsigned long) CU_MINMAX(long long) CU_MINMAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return exp10f(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline void __sincosf(float x, float *s, float *c) { sincosf(x, s, c); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
#define CU_ROUNDED(suffix, T, P)                                                                           \
    static inline T __##P##add_##suffix(T x, T y) { return x + y; }                                        \
    static inline T __##P##sub_##suffix(T x, T y) { return x - y; }                                        \
    static inline T __##P##mul_##suffix(T x, T y) { return x * y; }                                        \
    static inline T __##P##div_##suffix(T x, T y) { return x / y; }                                        \
    static inline T __##P##sqrt_##suffix(T x) { return sqrt(x); }                                          \
    static inline T __##P##rcp_##suffix(T x) { return 1 / x; }
CU_ROUNDED(rn, float, f) CU_ROUNDED(rn, double, d)
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }

// --- bits and conversions ------------------------------------------------------------------------------------------
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
static inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)(((unsigned __int128)a * b) >> 64); }
static inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
static inline int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
static inline int __popc(unsigned x) { /* not the builtin, which is a call of a library that is not linked */
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}
static inline int __popcll(unsigned long long x) { return __popc((unsigned)x) + __popc((unsigned)(x >> 32)); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= (unsigned)(both >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
    return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) { return (unsigned)((((unsigned long long)high << 32 | low) << (by & 31)) >> 32); }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) { return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31)); }
template <class To, class From> static inline To cu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) { return cu_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return cu_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return cu_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return cu_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return cu_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return cu_bits<double>(x); }
static inline int __double2hiint(double x) { return (int)(cu_bits<long long>(x) >> 32); }
static inline int __double2loint(double x) { return (int)cu_bits<long long>(x); }
static inline double __hiloint2double(int high, int low) { return cu_bits<double>((long long)high << 32 | (unsigned)low); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
// A GPU's conversions to integers saturate, and take NaN for 0; C++ leaves both undefined.
#define CU_TO_INTEGER(name, From, To, low, high, step)                                                     \
    static inline To name(From x) { return x != x ? (To)0 : x <= (From)(low) ? (low) : x >= (From)(high) ? (high) : (To)step(x); }
#define CU_INT_MIN (-2147483647 - 1)
#define CU_LL_MIN (-9223372036854775807LL - 1)
CU_TO_INTEGER(__float2int_rz, float, int, CU_INT_MIN, 2147483647, truncf)
CU_TO_INTEGER(__float2int_rn, float, int, CU_INT_MIN, 2147483647, rintf)
CU_TO_INTEGER(__float2int_rd, float, int, CU_INT_MIN, 2147483647, floorf)
CU_TO_INTEGER(__float2int_ru, float, int, CU_INT_MIN, 2147483647, ceilf)
CU_TO_INTEGER(__float2uint_rz, float, unsigned, 0u, 4294967295u, truncf)
CU_TO_INTEGER(__float2ll_rz, float, long long, CU_LL_MIN, 9223372036854775807LL, truncf)
CU_TO_INTEGER(__float2ll_rn, float, long long, CU_LL_MIN, 9223372036854775807LL, rintf)
CU_TO_INTEGER(__double2int_rz, double, int, CU_INT_MIN, 2147483647, trunc)
CU_TO_INTEGER(__double2int_rn, double, int, CU_INT_MIN, 2147483647, rint)
CU_TO_INTEGER(__double2ll_rz, double, long long, CU_LL_MIN, 9223372036854775807LL, trunc)
CU_TO_INTEGER(__double2ll_rn, double, long long, CU_LL_MIN, 9223372036854775807LL, rint)
static inline long long clock64() { return 0; }
static inline void __nanosleep(unsigned) {}
