// The gradient of a table, whose indices are sorted: rows of gy are added up in the order of their places.
#define CHUNK 64 /* places of a row that are added up apart where it has many */

// Where each row begins among the sorted indices, and where the last one ends. words: indices, rows.
extern "C" __global__ void __launch_bounds__(THREADS)
find_borders(const int *__restrict__ keys, int *__restrict__ starts, const Floats floats, const Words words) {
    for (long long row = (long long)blockIdx.x * THREADS + threadIdx.x; row <= words.w[1];
         row += (long long)gridDim.x * THREADS) {
        int low = 0, high = (int)words.w[0];
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (keys[middle] < row)
                low = middle + 1;
            else
                high = middle;
        }
        starts[row] = low;
    }
}

// The sums of all chunks that belong to one row. words: packs of all chunks, packs of a row.
extern "C" __global__ void __launch_bounds__(THREADS)
add_chunks(const T *__restrict__ gy, const int *__restrict__ keys, const int *__restrict__ places, A *__restrict__ sums,
       const Floats floats, const Words words) {
    const long long width = words.w[1];
    const bool aligned = is_aligned(gy);
    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < words.w[0];
         at += (long long)gridDim.x * THREADS) {
        const long long chunk = at / width, column = at - chunk * width;
        const int *own = places + chunk * CHUNK;
        if (keys[chunk * CHUNK] != keys[chunk * CHUNK + CHUNK - 1]) continue;
        A sum[PACK] = {};
#pragma unroll 4
        for (int i = 0; i < CHUNK; i++) add(sum, read(gy, own[i] * width + column, aligned));
#pragma unroll
        for (int i = 0; i < PACK; i++) sums[at * PACK + i] = sum[i];
    }
}

// The rows of the gradient. words: packs of the table, packs of a row.
extern "C" __global__ void __launch_bounds__(THREADS)
add_rows(const T *__restrict__ gy, const int *__restrict__ places, const int *__restrict__ starts,
     const A *__restrict__ sums, T *__restrict__ gw, const Floats floats, const Words words) {
    const long long width = words.w[1];
    const bool aligned = is_aligned(gy), aligned_gw = is_aligned(gw);
    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < words.w[0];
         at += (long long)gridDim.x * THREADS) {
        const long long row = at / width, column = at - row * width;
        const int end = starts[row + 1];
        A sum[PACK] = {};
        for (int i = starts[row]; i < end;) {
            if (i % CHUNK == 0 && end - i >= CHUNK) {
#pragma unroll
                for (int j = 0; j < PACK; j++) sum[j] += sums[(i / CHUNK * width + column) * PACK + j];
                i += CHUNK;
            } else {
                add(sum, read(gy, places[i] * width + column, aligned));
                i++;
            }
        }
        Pack pack;
#pragma unroll
        for (int i = 0; i < PACK; i++) pack.at[i] = store<T>(sum[i]);
        write(gw, at, pack, aligned_gw);
    }
}
