/* Softmax and its loss. After rows.cuh. */
#if HAS_FORMULAS && BLOCK <= 512 /* with formulas the compiler else takes 32 registers and spills */
#define LEAST_BLOCKS , 2
#else
#define LEAST_BLOCKS
#endif

#if HAS_FORMULAS
#define LOAD(at) {{READ_0(x, at)}}
#define STORE(y, at, pack, is_result) \
    if (is_result) STORE_0(y, at, (pack).v[0]); \
    else (y)[at] = store<T>((pack).v[0])
#else
#define LOAD(at) load_pack(x + (at), aligned)
#define STORE(y, at, pack, is_result) store_pack((y) + (at), pack, aligned)
#endif

/* y = softmax; IS_LOSS: y is the loss, and p softmax, or null if nobody asks. */
extern "C" __global__ void __launch_bounds__(BLOCK LEAST_BLOCKS)
    softmax(const T *x, const long long *target, T *y, T *p, long long *flag, long long failure OPERANDS,
            const Floats floats, const Words words) {
    NUMBERS
    const index_t row = ROW, begin = BEGIN(row), end = row < ROWS ? CLASSES : 0;
    T *made = IS_LOSS ? p : y;
    const bool aligned = (((size_t)x | (size_t)made) & 15) == 0;
    A top = -INFINITE, sum = 0;
#if ITEMS
    Pack packs[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const index_t c = (GROUP_LANE + i * GROUP) * VEC;
#pragma unroll
        for (int j = 0; j < VEC; j++) packs[i].v[j] = -INFINITE;
        if (c < end) packs[i] = LOAD(PLACE(begin, c));
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int j = 0; j < VEC; j++) top = maximum(top, packs[i].v[j]);
    top = group_all<Maximum>(top);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int j = 0; j < VEC; j++) sum += packs[i].v[j] = exp_of(packs[i].v[j] - top);
    sum = group_all<Sum>(sum);
    const A scale = 1 / sum;
    if (!IS_LOSS || made)
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const index_t c = (GROUP_LANE + i * GROUP) * VEC;
#pragma unroll
            for (int j = 0; j < VEC; j++) packs[i].v[j] *= scale;
            if (c < end) { STORE(made, PLACE(begin, c), packs[i], !IS_LOSS); }
        }
#else
    /* The sum follows the maximum so far: of what was added before it was found, it is scaled down. */
    for (index_t first = GROUP_LANE * VEC; first < end; first += UNROLL * GROUP * VEC) {
        Pack packs[UNROLL];
        A higher = top, more = 0;
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            const index_t c = first + i * GROUP * VEC;
#pragma unroll
            for (int j = 0; j < VEC; j++) packs[i].v[j] = -INFINITE;
            if (c < end) packs[i] = LOAD(PLACE(begin, c));
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
#pragma unroll
            for (int j = 0; j < VEC; j++) higher = maximum(higher, packs[i].v[j]);
        if (higher == -INFINITE) continue; /* no difference of infinities before the row is known to have no other */
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
#pragma unroll
            for (int j = 0; j < VEC; j++) more += exp_of(packs[i].v[j] - higher);
        sum = sum * exp_of(top - higher) + more;
        top = higher;
    }
    const A highest = group_all<Maximum>(top);
    sum = group_all<Sum>(sum * exp_of(top - highest));
    top = highest;
    const A scale = 1 / sum;
    if (!IS_LOSS || made)
#pragma unroll UNROLL
        for (index_t c = GROUP_LANE * VEC; c < end; c += GROUP * VEC) {
            Pack pack = LOAD(PLACE(begin, c));
#pragma unroll
            for (int j = 0; j < VEC; j++) pack.v[j] = exp_of(pack.v[j] - top) * scale;
            STORE(made, PLACE(begin, c), pack, !IS_LOSS);
        }
#endif
#if IS_LOSS
    if (GROUP_LANE == 0 && row < ROWS) {
        const index_t label = label_of(target, row, words, flag, failure);
        A loss = 0;
        if (label >= 0) {
            const index_t at = PLACE(begin, label);
            /* As a difference of scores: the probability itself has lost its digits, or is 0, far below the maximum. */
            const A log_p = READ_0(x, at) - top - log_of(sum), least = A(-87.33654475055310); /* log of the least float */
            loss = -(log_p < least ? least : log_p);
        }
        STORE_0(y, row, loss);
    }
#endif
}
