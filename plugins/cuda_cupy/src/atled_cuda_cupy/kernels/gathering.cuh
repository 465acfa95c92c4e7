// One array from the units of another one, or the other way round.
//     RANK: axes.  SCATTER: 1 where the places in y are computed, 0 for those in x.
//     MAP: what an axis that is not taken as it is does: SPREAD: x has every STEP-th place from START on, and the fill
//     is elsewhere; NEAREST: what is before START or behind is the border; MIRROR, REFLECT: it is mirrored, the border
//     element repeated, or not.
//     words: count, base, then for each axis its size, multiplier, shift, stride and, if there is a map, start, count,
//     step, multiplier, shift.
#define SPREAD 1
#define NEAREST 2
#define MIRROR 3
#define REFLECT 4

#if MAP
#define FIELDS 9
#else
#define FIELDS 4
#endif
#define AXIS(k, field) words.w[2 + (k) * FIELDS + (field)]

// Where in its axis the unit of a place is; inside: whether there is one.
__device__ __forceinline__ index_t taken(index_t place, int k, const Words &words, bool &inside) {
#if MAP
    const index_t start = AXIS(k, 4), count = AXIS(k, 5);
    place -= start;
#if MAP == SPREAD
    if (place < 0) {
        inside = false;
        return 0;
    }
    index_t number = (index_t)divided((count_t)place, AXIS(k, 6), AXIS(k, 7), AXIS(k, 8));
    if (number * AXIS(k, 6) != place || number >= count) {
        inside = false;
        return 0;
    }
    return number;
#elif MAP == NEAREST
    return place < 0 ? 0 : place >= count ? count - 1 : place;
#elif MAP == MIRROR
    if (place < 0) place += 2 * count;
    return place < count ? place : 2 * count - 1 - place;
#else
    if (place < 0) place = -place;
    return place < count ? place : 2 * (count - 1) - place;
#endif
#else
    return place;
#endif
}

// The place in the array that is walked by strides.
__device__ __forceinline__ index_t place_of(count_t rest, const Words &words, bool &inside) {
    index_t at = words.w[1];
#pragma unroll
    for (int k = RANK - 1; k > 0; k--) {
        count_t next = divided(rest, AXIS(k, 0), AXIS(k, 1), AXIS(k, 2));
        at += taken((index_t)(rest - next * (count_t)AXIS(k, 0)), k, words, inside) * AXIS(k, 3);
        rest = next;
    }
    return at + taken((index_t)rest, 0, words, inside) * AXIS(0, 3);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather(const unit *__restrict__ x, unit *__restrict__ y, const Floats floats, const Words words) {
    const count_t count = (count_t)words.w[0];
    const bool aligned_x = is_aligned(x), aligned_y = is_aligned(y);
    unit fill = {};
#if MAP == SPREAD
    union {
        unit all;
        T each[UNIT / sizeof(T)];
    } padding;
    const T constant = store<T>(FLOATS ? number(floats, 0) : 0.0);
#pragma unroll
    for (int i = 0; i < UNIT / (int)sizeof(T); i++) padding.each[i] = constant;
    fill = padding.all;
#endif
    for (count_t first = FIRST_UNIT; first < count; first += ALL_UNITS) {
        unit values[ITEMS];
        index_t places[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            count_t at = first + i * THREADS;
            if (at < count) {
                bool inside = true;
                index_t place = place_of(at, words, inside);
                places[i] = SCATTER ? place : (index_t)at;
                place = SCATTER ? (index_t)at : place;
                values[i] = inside ? read(x, place, aligned_x) : fill;
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (first + i * THREADS < count) write(y, places[i], values[i], aligned_y);
    }
}
