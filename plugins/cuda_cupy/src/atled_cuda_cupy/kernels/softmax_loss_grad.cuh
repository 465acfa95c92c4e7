/* After rows.cuh. */
/* gx = gy (p - 1 at the label, p elsewhere). blockIdx.y: a part of the classes, of w[3]. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    softmax_loss_grad(const T *gy, const T *p, const long long *target, T *gx, long long *flag, long long failure,
                      const Floats floats, const Words words) {
    const index_t row = ROW, begin = BEGIN(row), first = index_t(blockIdx.y) * words.w[3];
    if (row >= ROWS) return;
    const index_t end = first + words.w[3] < CLASSES ? first + words.w[3] : CLASSES;
    const bool aligned = (((size_t)p | (size_t)gx) & 15) == 0;
    const index_t label = label_of(target, row, words, flag, failure);
    const A slope = load(gy[row]);
    for (index_t c0 = first + GROUP_LANE * VEC; c0 < end; c0 += UNROLL * GROUP * VEC) {
        Pack packs[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            const index_t c = c0 + i * GROUP * VEC;
            if (c < end) packs[i] = load_pack(p + PLACE(begin, c), aligned);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            const index_t c = c0 + i * GROUP * VEC;
            if (c >= end) break;
#pragma unroll
            for (int j = 0; j < VEC; j++) packs[i].v[j] = slope * (packs[i].v[j] - A(c + j == label));
            store_pack(gx + PLACE(begin, c), packs[i], aligned);
        }
    }
}
