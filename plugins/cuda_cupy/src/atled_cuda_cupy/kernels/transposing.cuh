// Two axes exchanged through tiles in shared memory: rows of x are read, rows of y are written. A block has one tile.
//     RANK: other axes.  words: count; size of the axis that is innermost in y, and its stride in x; size of the one that
//     is innermost in x, and its stride in y; tiles along both; then for each other axis its size and strides in x and y.
#define TILE (UNIT <= 2 ? 64 : 32) /* of small units, too, rows of 64 bytes and more */
#define COLUMNS 32
#define ROWS (THREADS / COLUMNS)
#define GAP (UNIT < 4 ? 4 / UNIT : 1) /* the units of a column lie in different banks */

extern "C" __global__ void __launch_bounds__(THREADS)
transpose(const unit *__restrict__ x, unit *__restrict__ y, const Floats floats, const Words words) {
    __shared__ unit tile[TILE][TILE + GAP];
    const index_t *w = words.w;
    const bool aligned_x = is_aligned(x), aligned_y = is_aligned(y);
    const int column = threadIdx.x % COLUMNS, row = threadIdx.x / COLUMNS;
    index_t rest = blockIdx.x / w[6];
    const index_t over = (blockIdx.x - rest * w[6]) * TILE, along = (rest % w[5]) * TILE;
    index_t from = along * w[2] + over, to = along + over * w[4];
    rest /= w[5];
#pragma unroll
    for (int k = 0; k < RANK; k++) {
        const index_t next = rest / w[7 + 3 * k], place = rest - next * w[7 + 3 * k];
        from += place * w[8 + 3 * k];
        to += place * w[9 + 3 * k];
        rest = next;
    }
    const index_t width = min(w[1] - along, (index_t)TILE), height = min(w[3] - over, (index_t)TILE);
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
#pragma unroll
        for (int j = 0; j < TILE; j += COLUMNS)
            if (row + i < width && column + j < height)
                tile[row + i][column + j] = read(x, from + (row + i) * w[2] + column + j, aligned_x);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i += ROWS)
#pragma unroll
        for (int j = 0; j < TILE; j += COLUMNS)
            if (row + i < height && column + j < width)
                write(y, to + (row + i) * w[4] + column + j, tile[column + j][row + i], aligned_y);
}
