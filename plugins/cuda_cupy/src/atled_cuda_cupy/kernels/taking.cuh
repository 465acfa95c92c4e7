// Slices by index along an axis, x being (outer, rows, width); negative indices count from the end. One that is out of
// range sets the flag.
//     words: units in all; those of a slice, 1 where slices have none, with multiplier and shift; indices, with both;
//     rows; whether there is something to move.
extern "C" __global__ void __launch_bounds__(THREADS)
take_slices(const unit *__restrict__ x, const long long *__restrict__ index, unit *__restrict__ y, long long *flag,
            long long failure, const Floats floats, const Words words) {
    const count_t count = (count_t)words.w[0], width = (count_t)words.w[1];
    const long long rows = words.w[7];
    const bool moves = words.w[8], aligned_x = is_aligned(x), aligned_y = is_aligned(y);
    for (count_t first = FIRST_UNIT; first < count; first += ALL_UNITS) {
        unit values[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            values[i] = unit();
            const count_t at = first + i * THREADS;
            if (at < count) {
                const count_t slice = divided(at, words.w[1], words.w[2], words.w[3]);
                const count_t outer = divided(slice, words.w[4], words.w[5], words.w[6]);
                long long row = index[slice - outer * (count_t)words.w[4]];
                if (row < 0) row += rows;
                if (row < 0 || row >= rows)
                    fail(flag, failure);
                else if (moves)
                    values[i] = read(x, ((index_t)outer * (index_t)rows + (index_t)row) * (index_t)width
                                            + (index_t)(at - slice * width), aligned_x);
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (moves && first + i * THREADS < count) write(y, (index_t)(first + i * THREADS), values[i], aligned_y);
    }
}
