/* How well scores fit labels. After rows.cuh. */

/* 1 where more than w[3] scores of a row are equal to that of the label or larger. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    top_n_error(const T *x, const long long *target, T *y, long long *flag, long long failure, const Floats floats,
                const Words words) {
    const index_t row = ROW, begin = BEGIN(row), end = row < ROWS ? CLASSES : 0;
    const index_t label = row < ROWS ? label_of(target, row, words, flag, failure) : -1;
    const A score = label < 0 ? 0 : load(x[PLACE(begin, label)]);
    A count = 0;
#pragma unroll UNROLL
    for (index_t c = GROUP_LANE; c < end; c += GROUP) count += load(x[PLACE(begin, c)]) >= score;
    count = group_all<Sum>(count);
    if (row < ROWS && GROUP_LANE == 0) y[row] = store<T>(A(count > words.w[3]));
}

/* counts, which holds zeros: of rows of each class that are taken for each. The first of the largest scores counts. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    confusion_matrix(const T *x, const long long *target, int *counts, long long *flag, long long failure,
                     const Floats floats, const Words words) {
    const index_t row = ROW, begin = BEGIN(row), end = row < ROWS ? CLASSES : 0;
    A top = -INFINITE, place = CLASSES;
#pragma unroll UNROLL
    for (index_t c = GROUP_LANE; c < end; c += GROUP) top = maximum(top, load(x[PLACE(begin, c)]));
    top = group_all<Maximum>(top);
    for (index_t c = GROUP_LANE; c < end; c += GROUP) {
        const A score = load(x[PLACE(begin, c)]);
        if (score == top || (score != score && top != top)) {
            place = c;
            break;
        }
    }
    place = group_all<Minimum>(place);
    if (row >= ROWS || GROUP_LANE) return;
    const index_t label = label_of(target, row, words, flag, failure);
    if (label >= 0) atomicAdd(counts + label * CLASSES + (index_t)place, 1); /* whole numbers: in any order */
}
