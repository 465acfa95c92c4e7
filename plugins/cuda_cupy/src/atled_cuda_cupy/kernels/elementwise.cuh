/* What kernels of formulas are made of; the kernels themselves are written by elementwise.py. */

/* N elements that are read and written at once, in pieces of 16 bytes or less. */
template <class E, int N> struct alignas(sizeof(E) * N < 16 ? sizeof(E) * N : 16) Pack {
    E at[N];
};
template <class E, int N> static __device__ __forceinline__ Pack<E, N> read_pack(const E *x) {
    return *(const Pack<E, N> *)x;
}
template <class E, int N> static __device__ __forceinline__ void write_pack(E *y, const Pack<E, N> &pack) {
    *(Pack<E, N> *)y = pack;
}
template <class E, int N> static __device__ __forceinline__ bool is_aligned(const E *x) {
    return (unsigned long long)x % alignof(Pack<E, N>) == 0;
}

/* A float next to a double, so that rounding it once more is as rounding the double: inexact ones are odd. */
static __device__ __forceinline__ float odd_float(double x) {
    float y = (float)x;
    if ((double)y == x || x != x || isinf(y)) return y;
    unsigned bits = __float_as_uint(y);
    if (bits & 1) return y;
    bool is_beyond = fabs((double)y) > fabs(x);
    return __uint_as_float(is_beyond ? bits - 1 : bits + 1);
}

/* A value as an element of type E, rounded once. */
template <class E> struct Element {
    template <class V> static __device__ __forceinline__ E of(V x) { return store<E>(x); }
};
template <> struct Element<bfloat_t> {
    template <class V> static __device__ __forceinline__ bfloat_t of(V x) { return store<bfloat_t>(x); }
    static __device__ __forceinline__ bfloat_t of(double x) { return store<bfloat_t>(odd_float(x)); }
};

/* A small whole number: by way of a large one, which wraps around as NumPy's do. */
template <class E> struct Small {
    template <class V> static __device__ __forceinline__ E of(V x) { return (E)(long long)x; }
};
template <> struct Element<signed char> : Small<signed char> {};
template <> struct Element<unsigned char> : Small<unsigned char> {};
template <> struct Element<short> : Small<short> {};
template <> struct Element<unsigned short> : Small<unsigned short> {};
template <> struct Element<unsigned> : Small<unsigned> {};

/* An element as one of another type; of the same type it keeps its bits. */
template <class To, class From> struct Copied {
    static __device__ __forceinline__ To of(From x) { return Element<To>::of(load(x)); }
};
template <class E> struct Copied<E, E> {
    static __device__ __forceinline__ E of(E x) { return x; }
};
