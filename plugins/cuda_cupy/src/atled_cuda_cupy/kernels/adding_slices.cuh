// The adjoint of taking slices by index, gx being (outer, rows, width): each pack looks through all indices, so that sums
// are in their order.
//     words: packs in all; those of a slice, 1 where slices have none; rows; indices.
extern "C" __global__ void __launch_bounds__(THREADS, 4) /* else spills for the sake of more blocks */
add_slices(const T *__restrict__ gy, const long long *__restrict__ index, T *__restrict__ gx, long long *flag,
           long long failure, const Floats floats, const Words words) {
    const bool aligned = is_aligned(gy), aligned_gx = is_aligned(gx);
    const long long width = words.w[1], rows = words.w[2], count = words.w[3];
    const long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at && at >= words.w[0]) return; /* one looks at the indices in any case */
    const long long slice = at / width, column = at - slice * width, outer = rows ? slice / rows : 0;
    const long long wanted = slice - outer * rows;
    A sum[PACK] = {};
    for (long long i = 0; i < count; i++) {
        long long row = index[i];
        if (row < 0) row += rows;
        if (row < 0 || row >= rows) fail(flag, failure);
        if (row == wanted && at < words.w[0]) add(sum, read(gy, (outer * count + i) * width + column, aligned));
    }
    if (at >= words.w[0]) return;
    Pack pack;
#pragma unroll
    for (int i = 0; i < PACK; i++) pack.at[i] = store<T>(sum[i]);
    write(gx, at, pack, aligned_gx);
}
