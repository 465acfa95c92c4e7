// Rows of zeros with a one where the index says.
//     T: of y.  DIMS: numbers that an index has.
//     words: packs in all, those of a row with multiplier and shift, then the sizes.
extern "C" __global__ void __launch_bounds__(THREADS)
one_hot(const long long *__restrict__ x, T *__restrict__ y, long long *flag, long long failure, const Floats floats,
        const Words words) {
    const bool aligned = is_aligned(y);
    const T zero = store<T>(0.0f), one = store<T>(1.0f);
    for (count_t at = (count_t)blockIdx.x * THREADS + threadIdx.x; at < (count_t)words.w[0];
         at += (count_t)gridDim.x * THREADS) {
        const count_t row = divided(at, words.w[1], words.w[2], words.w[3]);
        long long hot = 0;
        bool inside = true;
#pragma unroll
        for (int k = 0; k < DIMS; k++) {
            const long long index = x[(long long)row * DIMS + k], size = words.w[4 + k];
            inside = inside && index >= 0 && index < size;
            hot = inside ? hot * size + index : 0;
        }
        if (!inside) fail(flag, failure);
        hot -= (long long)(at - row * (count_t)words.w[1]) * PACK;
        Pack pack;
#pragma unroll
        for (int i = 0; i < PACK; i++) pack.at[i] = inside && hot == i ? one : zero;
        write(y, (long long)at, pack, aligned);
    }
}
