/* The ops that draw arrays of numbers, and dropout.  T: of the arrays.  A: what dropout computes in. */
static __device__ __forceinline__ double uniform(unsigned word) { return (word >> 8) * 0x1p-24; }

/* a + b x, rounded twice, as the reference does it: no fused multiply-add. */
static __device__ __forceinline__ double scaled(double a, double b, double x) {
#ifdef CUDA_EMULATOR
    volatile double product = b * x;
    return a + product;
#else
    return __dadd_rn(a, __dmul_rn(b, x));
#endif
}

/* Sine and cosine of 2 pi x. */
static __device__ __forceinline__ void circle(double x, double *sine, double *cosine) {
#ifdef CUDA_EMULATOR
    sincos(6.283185307179586 * x, sine, cosine);
#else
    sincospi(2.0 * x, sine, cosine); /* no reduction of large arguments, which takes local memory */
#endif
}

/* y[at] to y[at + 3], as far as they are there. */
template <class E> static __device__ __forceinline__ void write_four(E *y, index_t at, index_t size, const Pack<E, 4> &values) {
    if (at + 4 <= size && is_aligned<E, 4>(y)) {
        write_pack(y + at, values);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (at + k < size) y[at + k] = values.at[k];
}

#if defined(UNIFORM)
extern "C" __global__ void draw_uniform(T *y, const Floats floats, const Words words) {
    const index_t size = words.w[0];
    const Stream stream = stream_of(floats, 2);
    const double low = number(floats, 0), range = number(floats, 1) - low;
    EACH(n, (size + 3) / 4) {
        const Block block = draw(stream, n);
        Pack<T, 4> values;
#pragma unroll
        for (int k = 0; k < 4; k++) values.at[k] = Element<T>::of(scaled(low, range, uniform(block.word[k])));
        write_four(y, n * 4, size, values);
    }
}
#elif defined(NORMAL)
extern "C" __global__ void draw_normal(T *y, const Floats floats, const Words words) {
    const index_t size = words.w[0];
    const Stream stream = stream_of(floats, 2);
    const double mu = number(floats, 0), sigma = number(floats, 1);
    EACH(n, (size + 3) / 4) {
        const Block block = draw(stream, n);
        Pack<T, 4> values;
#pragma unroll
        for (int k = 0; k < 4; k += 2) { /* Box and Muller */
            double radius = sqrt(-2.0 * log(1.0 - uniform(block.word[k]))), sine, cosine;
            circle(uniform(block.word[k + 1]), &sine, &cosine);
            values.at[k] = Element<T>::of(scaled(mu, sigma, radius * cosine));
            values.at[k + 1] = Element<T>::of(scaled(mu, sigma, radius * sine));
        }
        write_four(y, n * 4, size, values);
    }
}
#elif defined(WHOLE)
extern "C" __global__ void draw_whole(int *y, long long bound, long long low, const Floats floats, const Words words) {
    const index_t size = words.w[0];
    const Stream stream = stream_of(floats, 0);
    EACH(n, (size + 3) / 4) {
        const Block block = draw(stream, n);
        Pack<int, 4> values;
#pragma unroll
        for (int k = 0; k < 4; k++) /* bound is 2^32 at most */
            values.at[k] = (int)((long long)((unsigned long long)block.word[k] * (unsigned long long)bound >> 32) + low);
        write_four(y, n * 4, size, values);
    }
}
#else
/* y = x mask; the mask is kept where there is an array for it. */
extern "C" __global__ void dropout(const T *x, T *y, T *mask, const Floats floats, const Words words) {
    const index_t size = words.w[0];
    const Stream stream = stream_of(floats, 1);
    const double p = number(floats, 0);
    const unsigned least = (unsigned)ceil(p * 16777216.0); /* of the 24 bits of an element that is kept */
    const A scale = (A)(1.0 / (1.0 - p));
    const bool aligned = is_aligned<T, 4>(x);
    EACH(n, (size + 3) / 4) {
        const index_t at = n * 4;
        const Block block = draw(stream, n);
        Pack<T, 4> values, factors;
        if (at + 4 <= size && aligned) values = read_pack<T, 4>(x + at);
        else {
#pragma unroll
            for (int k = 0; k < 4; k++) values.at[k] = x[at + k < size ? at + k : size - 1];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const A factor = block.word[k] >> 8 >= least ? scale : (A)0;
            values.at[k] = Element<T>::of((A)load(values.at[k]) * factor);
            factors.at[k] = Element<T>::of(factor);
        }
        write_four(y, at, size, values);
        if (mask) write_four(mask, at, size, factors);
    }
}
#endif
