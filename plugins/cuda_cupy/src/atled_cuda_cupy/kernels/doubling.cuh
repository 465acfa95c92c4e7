// x and -x, each through a rectifier, one behind the other along an axis.
//     EXPONENTIAL: whether it is alpha (exp(x) - 1) below 0, else 0 there.  words: packs of x, packs of a run along the
//     axis and what is inside of it, with multiplier and shift.
__device__ __forceinline__ A rectified(A x, A alpha) {
#if EXPONENTIAL
    return x >= 0 ? x : alpha * expm1(minimum(x, (A)0));
#else
    return maximum((A)0, x);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
doubled(const T *__restrict__ x, T *__restrict__ y, const Floats floats, const Words words) {
    const bool aligned_x = is_aligned(x), aligned_y = is_aligned(y);
    const A alpha = FLOATS ? (A)number(floats, 0) : (A)0;
    const count_t run = (count_t)words.w[1];
    for (count_t at = (count_t)blockIdx.x * THREADS + threadIdx.x; at < (count_t)words.w[0];
         at += (count_t)gridDim.x * THREADS) {
        const count_t row = divided(at, words.w[1], words.w[2], words.w[3]);
        const Pack given = read(x, (long long)at, aligned_x);
        Pack plus, minus;
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            const A value = load(given.at[i]);
            plus.at[i] = store<T>(rectified(value, alpha));
            minus.at[i] = store<T>(rectified(-value, alpha));
        }
        write(y, (long long)(at + row * run), plus, aligned_y);
        write(y, (long long)(at + (row + 1) * run), minus, aligned_y);
    }
}
