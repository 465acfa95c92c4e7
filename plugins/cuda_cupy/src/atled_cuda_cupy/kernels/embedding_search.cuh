// The gradient of a small table: each row looks through all indices.
//     words: packs of the table, packs of a row, 1 where it has none; rows, indices.
extern "C" __global__ void __launch_bounds__(THREADS, 4) /* else spills for the sake of more blocks */
search(const T *__restrict__ gy, const long long *__restrict__ x0, T *__restrict__ gw, long long *flag,
         long long failure, const Floats floats, const Words words) {
    const bool aligned = is_aligned(gy), aligned_gw = is_aligned(gw);
    const long long width = words.w[1], size = words.w[3];
    long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    const long long row = at / width, column = at - row * width;
    if (at && at >= words.w[0]) return; /* one looks at the indices in any case */
    A sum[PACK] = {};
    for (long long i = 0; i < size; i++) {
        const long long index = x0[i];
        if (index < 0 || index >= words.w[2]) fail(flag, failure);
        if (index == row && at < words.w[0]) add(sum, read(gy, i * width + column, aligned));
    }
    if (at >= words.w[0]) return;
    Pack pack;
#pragma unroll
    for (int i = 0; i < PACK; i++) pack.at[i] = store<T>(sum[i]);
    write(gw, at, pack, aligned_gw);
}
