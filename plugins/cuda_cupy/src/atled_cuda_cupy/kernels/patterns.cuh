/* Arrays that follow from numbers alone. Sizes in capitals are words, defined by patterns.py. */

/* The steps between, rounded as NumPy does: not in one with the sum. */
extern "C" __global__ void numbers_at_distances(T *y, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        const double far = __dmul_rn((double)i, number(floats, 1));
        y[i] = store<T>(__dadd_rn(number(floats, 0), far));
    }
}

extern "C" __global__ void identity(T *y, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        const index_t row = OVER(i, COLUMNS);
        y[i] = store<T>(REMAINDER(i, row, COLUMNS) - row == OFFSET ? 1.0f : 0.0f);
    }
}
