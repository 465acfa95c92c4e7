/* One element of each result of a reduction, by its place among the elements of that result. After walk.cuh. */
#define COUNT words.w[1]
#define PLACE(k, r) (KEPT_OFFSET(k) + REDUCED_OFFSET(r))

/* gx, which holds zeros, gets gy at the places. */
extern "C" __global__ void put(const T *gy, const long long *places, T *gx, long long *flag, long long failure,
                               const Floats floats, const Words words) {
    EACH(k, RESULTS) {
        const long long r = places[k];
        if (r < 0 || r >= COUNT) fail(flag, failure);
        else gx[PLACE(k, (index_t)r)] = gy[k];
    }
}

extern "C" __global__ void take(const T *x, const long long *places, T *y, long long *flag, long long failure,
                                const Floats floats, const Words words) {
    EACH(k, RESULTS) {
        const long long r = places[k];
        const bool is_place = r >= 0 && r < COUNT;
        if (!is_place) fail(flag, failure);
        y[k] = is_place ? x[PLACE(k, (index_t)r)] : store<T>(0.0f);
    }
}
