/* Local response normalization: each element by the squares of those on the maps around. Sizes in capitals are words. */
extern "C" __global__ void local_response(const T *x, T *y, T *denom, const Floats floats, const Words words) {
    const A scale = (A)(number(floats, 0) / SIDE), power = (A)number(floats, 1), bias = (A)number(floats, 2);
    EACH(i, COUNT) {
        const index_t outer = OVER(i, INNER), image = OVER(outer, MAPS), map = REMAINDER(outer, image, MAPS);
        const index_t first = max(map - SIDE / 2, (index_t)0), last = min(map + SIDE / 2, MAPS - 1);
        A sum = 0;
        for (index_t other = first; other <= last; other++) {
            const A value = load(x[i + (other - map) * INNER]);
            sum += value * value;
        }
        const A divisor = bias + scale * sum;
        denom[i] = store<T>(divisor);
        y[i] = store<T>(load(x[i]) / pow(divisor, power));
    }
}
