/* Mean subtraction. mean is moved by the sums of a batch of `batch` elements. */
extern "C" __global__ void move_mean(const A *sums, long long batch, S *mean, const long long *t, const long long *flag,
                                     const Floats floats, const Words words) {
    if (*flag) return;
    EACH(k, words.w[0]) mean[k] = S(mean[k] + ((double)sums[k] / batch - mean[k]) / (double)(*t + 1));
}

/* One thread. batch: 0 if nothing moves. */
extern "C" __global__ void count_call(long long *t, T *scale, long long batch, const long long *flag,
                                      const Floats floats, const Words words) {
    if (batch && !*flag) *t += 1;
    *scale = store<T>(batch ? 1 - 1 / ((double)*t * batch) : 1.0);
}
