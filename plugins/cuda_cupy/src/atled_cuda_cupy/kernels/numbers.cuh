/* Arrays of random numbers.  T: of the array.  DRAWN: which ones. */
#define UNIFORM 0
#define NORMAL 1
#define WHOLE 2

/* a + b x, rounded twice, as the reference does it: no fused multiply-add. */
static __device__ __forceinline__ double scaled(double a, double b, double x) {
#ifdef CUDA_EMULATOR
    volatile double product = b * x;
    return a + product;
#else
    return __dadd_rn(a, __dmul_rn(b, x));
#endif
}

/* low, count: of whole numbers; others have their bounds, or mu and sigma, as floats. */
extern "C" __global__ void draw_numbers(T *y, long long low, long long count, const Floats floats, const Words words) {
    const index_t size = words.w[0];
#if DRAWN == WHOLE
    const Stream stream = stream_of(floats, 0);
#else
    const Stream stream = stream_of(floats, 2);
    const double a = number(floats, 0), b = number(floats, 1);
#endif
    EACH(n, (size + 3) / 4) {
        const Block block = draw(stream, n);
        Pack<T, 4> values;
#pragma unroll
        for (int k = 0; k < 4; k++) {
#if DRAWN == UNIFORM
            values.at[k] = Element<T>::of(scaled(a, b - a, uniform(block.word[k])));
#elif DRAWN == NORMAL
            if (k & 1) continue; /* Box and Muller make pairs */
            const double radius = sqrt(-2.0 * log(1.0 - uniform(block.word[k])));
            double sine, cosine;
            circle(uniform(block.word[k + 1]), &sine, &cosine);
            values.at[k] = Element<T>::of(scaled(a, b, radius * cosine));
            values.at[k + 1] = Element<T>::of(scaled(a, b, radius * sine));
#else
            const unsigned long long product = (unsigned long long)block.word[k] * (unsigned long long)count;
            values.at[k] = (T)((long long)(product >> 32) + low); /* count is 2^32 at most */
#endif
        }
        write_four(y, n * 4, size, values);
    }
}
