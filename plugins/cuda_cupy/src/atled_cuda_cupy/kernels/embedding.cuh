// Rows of a table by index. An index that is out of range sets the flag.
//     words: units in all; those of a row, 1 where rows have none, with multiplier and shift; rows of the table; whether
//     rows have units.
extern "C" __global__ void __launch_bounds__(THREADS)
embed(const long long *__restrict__ x0, const unit *__restrict__ table, unit *__restrict__ y, long long *flag,
         long long failure, const Floats floats, const Words words) {
    const count_t count = (count_t)words.w[0], width = (count_t)words.w[1];
    const long long rows = words.w[4];
    const bool moves = words.w[5], aligned_table = is_aligned(table), aligned_y = is_aligned(y);
    for (count_t first = FIRST_UNIT; first < count; first += ALL_UNITS) {
        unit values[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            values[i] = unit();
            const count_t at = first + i * THREADS;
            if (at < count) {
                const count_t number = divided(at, words.w[1], words.w[2], words.w[3]);
                const long long row = x0[number];
                if (row < 0 || row >= rows)
                    fail(flag, failure);
                else if (moves)
                    values[i] = read(table, (index_t)row * (index_t)width + (index_t)(at - number * width), aligned_table);
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (moves && first + i * THREADS < count) write(y, (index_t)(first + i * THREADS), values[i], aligned_y);
    }
}
