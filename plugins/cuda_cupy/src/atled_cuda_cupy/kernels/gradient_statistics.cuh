/* Gradient of batch normalization, between the walks. */
/* Coefficients: slope, then what is subtracted from gy: itself, and for each unit of x - mean. */
extern "C" __global__ void __launch_bounds__(128)
    gradient_statistics(const A *parts, long long count, const T *gamma, const S *variance, T *gbeta, T *ggamma,
                        A *coefficients, const Floats floats, const Words words) {
    const index_t k = index_t(blockIdx.x) * 4 + threadIdx.x / 32, channels = words.w[0], part_count = words.w[1];
    if (k >= channels) return;
    A gy = 0, product = 0;
    for (index_t part = threadIdx.x % 32; part < part_count; part += 32) {
        gy += parts[2 * ((size_t)k * part_count + part)];
        product += parts[2 * ((size_t)k * part_count + part) + 1];
    }
    gy = warp_sum(gy);
    product = warp_sum(product);
    if (threadIdx.x % 32) return;
    const double scale = 1 / sqrt(variance[k] + number(floats, 0));
    gbeta[k] = store<T>(gy);
    ggamma[k] = store<T>(product * scale);
    coefficients[k] = A(load(gamma[k]) * scale);
    coefficients[channels + k] = gy / count;
    coefficients[2 * channels + k] = A(product * scale * scale / count);
}
