// Arrays side by side in one whole, whose rows hold a run of each of them.
//     PARTS: pointers.  SPLIT: 1 where the parts are written.
//     words: parts, units in a row; then for each part its units, those of a run with multiplier and shift, and the place
//     of the run in a row.
struct Parts {
    unit *of[PARTS];
};

extern "C" __global__ void __launch_bounds__(THREADS)
join(unit *__restrict__ whole, const __grid_constant__ Parts parts, const Floats floats,
     const __grid_constant__ Words words) {
    const index_t *w = words.w;
    // Blocks that follow each other have the same rows.
    const unsigned part = blockIdx.x % (unsigned)w[0], block = blockIdx.x / (unsigned)w[0];
    const unsigned blocks = gridDim.x / (unsigned)w[0];
    const index_t *own = w + 2 + part * 5;
    unit *mine = parts.of[part];
    const count_t count = (count_t)own[0];
    const bool aligned_whole = is_aligned(whole), aligned = is_aligned(mine);
    for (count_t first = (count_t)block * (THREADS * ITEMS) + threadIdx.x; first < count;
         first += (count_t)blocks * (THREADS * ITEMS)) {
        unit values[ITEMS];
        index_t places[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const count_t at = first + i * THREADS;
            if (at < count) {
                const count_t row = divided(at, own[1], own[2], own[3]);
                places[i] = (index_t)(row * (count_t)w[1] + (at - row * (count_t)own[1])) + own[4];
                values[i] = SPLIT ? read(whole, places[i], aligned_whole) : read(mine, (index_t)at, aligned);
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const count_t at = first + i * THREADS;
            if (at >= count) continue;
            if (SPLIT)
                write(mine, (index_t)at, values[i], aligned);
            else
                write(whole, places[i], values[i], aligned_whole);
        }
    }
}
