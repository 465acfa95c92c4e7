/* Cross entropy of probabilities. After rows.cuh. */
#define LEAST 1.17549435e-38f

extern "C" __global__ void categorical(const T *x, const long long *target, T *y, long long *flag, long long failure,
                                       const Floats floats, const Words words) {
    EACH(row, ROWS) {
        const index_t label = label_of(target, row, words, flag, failure);
        const A p = label < 0 ? A(1) : load(x[PLACE(BEGIN(row), label)]);
        y[row] = store<T>(-log_of(maximum(p, A(LEAST))));
    }
}

/* gx holds zeros. */
extern "C" __global__ void categorical_grad(const T *gy, const T *x, const long long *target, T *gx, long long *flag,
                                            long long failure, const Floats floats, const Words words) {
    EACH(row, ROWS) {
        const index_t label = label_of(target, row, words, flag, failure);
        if (label < 0) continue;
        const index_t at = PLACE(BEGIN(row), label);
        gx[at] = store<T>(-load(gy[row]) / maximum(load(x[at]), A(LEAST)));
    }
}
