/* Outcomes drawn by probabilities and uniform numbers: a thread for each row.  T: of the result.  P: of the others. */

/* The first outcome whose running sum, from left to right, exceeds u; `outcomes` if there is none. */
template <class E> static __device__ __forceinline__ index_t outcome_of(const E *p, index_t outcomes, double u) {
    double total = 0;
    for (index_t k = 0; k < outcomes; k++) {
        total = __dadd_rn(total, (double)load(p[k]));
        if (total > u) return k;
    }
    return outcomes;
}

extern "C" __global__ void count_outcomes(const P *p, const P *unis, T *y, const Floats floats, const Words words) {
    const index_t rows = words.w[0], outcomes = words.w[1], draws = words.w[2];
    EACH(row, rows) {
        T *counts = y + row * outcomes;
        for (index_t k = 0; k < outcomes; k++) counts[k] = store<T>(0);
        for (index_t draw = 0; draw < draws; draw++) {
            const index_t k = outcome_of(p + row * outcomes, outcomes, (double)load(unis[draw * rows + row]));
            if (k < outcomes) counts[k] = store<T>(load(counts[k]) + 1);
        }
    }
}

extern "C" __global__ void choose_outcomes(const P *p, const P *unis, T *index, double *workspace, const Floats floats,
                                           const Words words) {
    const index_t rows = words.w[0], outcomes = words.w[1], draws = words.w[2];
    EACH(row, rows) {
        double *left = workspace + row * outcomes;
        for (index_t k = 0; k < outcomes; k++) left[k] = (double)load(p[row * outcomes + k]);
        for (index_t draw = 0; draw < draws; draw++) {
            const index_t k = outcome_of(left, outcomes, (double)load(unis[draw * rows + row]));
            index[row * draws + draw] = store<T>(k < outcomes ? (int)k : -1);
            if (k >= outcomes) continue;
            left[k] = 0;
            double total = 0;
            for (index_t other = 0; other < outcomes; other++) total = __dadd_rn(total, left[other]);
            for (index_t other = 0; other < outcomes; other++) left[other] /= total;
        }
    }
}
