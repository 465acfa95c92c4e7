// The adjoint of a shift along one axis: each place collects what came from it. In double: a whole axis may meet there.
//     REFLECT: whether the border mirrors.  words: count, size of the axis, inner elements, shift.
extern "C" __global__ void __launch_bounds__(THREADS)
shift_back(const T *__restrict__ gy, T *__restrict__ gx, const Floats floats, const Words words) {
    const index_t *w = words.w, size = w[1], inner = w[2], shift = w[3];
    for (count_t at = (count_t)blockIdx.x * THREADS + threadIdx.x; at < (count_t)w[0]; at += (count_t)gridDim.x * THREADS) {
        const count_t number = at / (count_t)inner;
        const index_t place = (index_t)(number % (count_t)size);
        const T *line = gy + (index_t)at - place * inner;
        double sum = 0;
#if REFLECT
        // What lies at `place` and its mirror image in the period of two sizes; shift is 0 or more and below that.
        const index_t ways[2] = {place + shift, 2 * size - 1 - place + shift};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const index_t source = ways[i] >= 2 * size ? ways[i] - 2 * size : ways[i];
            if (source < size) sum += load(line[source * inner]);
        }
#else
        index_t first = place == 0 ? 0 : max(place + shift, (index_t)0);
        const index_t last = place == size - 1 ? size - 1 : min(place + shift, size - 1);
        for (; first <= last; first++) sum += load(line[first * inner]);
#endif
        gx[at] = store<T>(sum);
    }
}
