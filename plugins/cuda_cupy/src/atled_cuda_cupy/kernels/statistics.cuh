/* Batch normalization, between the walks. T: type of gamma, S: of statistics. After channel_state.cuh. */
/* A warp for each channel: all its parts, or without any the running statistics; coefficients: mean, then slope. */
extern "C" __global__ void __launch_bounds__(128)
    statistics(const A *parts, long long count, const T *gamma, S *mean, S *variance, S *batch_mean, S *batch_variance,
               A *coefficients, const long long *flag, const Floats floats, const Words words) {
    const index_t k = index_t(blockIdx.x) * 4 + threadIdx.x / 32, channels = words.w[0], part_count = words.w[1];
    if (k >= channels) return;
    A m = 0, v = 0;
    if (part_count) {
        State all{0, 0, 0};
        for (index_t part = threadIdx.x % 32; part < part_count; part += 32)
            all = merged(all, reinterpret_cast<const State *>(parts)[(size_t)k * part_count + part]);
        for (int lanes = 16; lanes; lanes /= 2) all = merged(all, swapped(all, lanes));
        m = all.mean;
        v = all.squares / all.n;
        v = v < 0 ? 0 : v; /* by rounding */
    } else {
        m = mean[k];
        v = variance[k];
    }
    if (threadIdx.x % 32) return;
    if (part_count && !*flag) {
        const double past = number(floats, 0), unbiased = count > 1 ? v * ((double)count / (count - 1)) : v;
        mean[k] = S(past * mean[k] + (1 - past) * m);
        variance[k] = S(past * variance[k] + (1 - past) * unbiased);
    }
    if (batch_mean) batch_mean[k] = m;
    if (batch_variance) batch_variance[k] = v;
    coefficients[k] = m;
    coefficients[channels + k] = A(load(gamma[k]) / sqrt(v + number(floats, 1)));
}
