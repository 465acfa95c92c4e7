/* Pooling of regions of interest. x is (IMAGES, CHANNELS, HEIGHT, WIDTH), cells are (BOXES, CHANNELS, ROWS, COLUMNS); R is
   the type of boxes, B the one in which they are computed with. Sizes in capitals are words, defined by regions.py. */

/* The image of a box; -1 for one that is not there, and where a coordinate is not finite. */
static __device__ __forceinline__ index_t image_of(const Words &words, const R *box) {
    bool is_finite = true;
#pragma unroll
    for (int k = 0; k < 5; k++) is_finite = is_finite && load(box[k]) - load(box[k]) == 0;
    const B image = load(box[0]);
    return is_finite && image > -1 && image < IMAGES ? (index_t)image : -1;
}

#define CHECK_BOXES EACH(box, BOXES) if (image_of(words, rois + 5 * box) < 0) fail(flag, failure);
#define CHECK_PLACES                                                                                                   \
    EACH(j, CELLS) if (place[j] < -1 || place[j] >= HEIGHT * WIDTH) fail(flag, failure);

/* Corners beyond 2^28 are beyond every image. */
static __device__ __forceinline__ long long corner(B value, double scale) {
    const B far = 268435456, scaled = value * (B)scale;
    return (long long)rint(scaled > far ? far : scaled < -far ? -far : scaled);
}

/* Where a cell begins and ends along an axis, cut to the image. */
static __device__ __forceinline__ void cut(long long first, long long last, index_t cell, index_t count, index_t size,
                                           index_t &begin, index_t &end) {
    const long long length = last - first + 1 > 1 ? last - first + 1 : 1, most = size;
    const long long from = first + cell * length / count, to = first + ((cell + 1) * length + count - 1) / count;
    begin = (index_t)(from < 0 ? 0 : from > most ? most : from);
    end = (index_t)(to < 0 ? 0 : to > most ? most : to);
}

extern "C" __global__ void pool_regions(const T *x, const R *rois, T *y, int *place, long long *flag, long long failure,
                                        const Floats floats, const Words words) {
    CHECK_BOXES
    const double scale = number(floats, 0);
    EACH(i, CELLS) {
        const index_t over = OVER(i, COLUMNS), column = REMAINDER(i, over, COLUMNS);
        const index_t slice = OVER(over, ROWS), row = REMAINDER(over, slice, ROWS);
        const index_t box = OVER(slice, CHANNELS), channel = REMAINDER(slice, box, CHANNELS);
        const R *roi = rois + 5 * box;
        const index_t image = image_of(words, roi);
        A best = 0;
        index_t found = -1;
        if (image >= 0) {
            index_t top, bottom, left, right;
            cut(corner(load(roi[2]), scale), corner(load(roi[4]), scale), row, ROWS, HEIGHT, top, bottom);
            cut(corner(load(roi[1]), scale), corner(load(roi[3]), scale), column, COLUMNS, WIDTH, left, right);
            const T *from = x + (image * CHANNELS + channel) * (HEIGHT * WIDTH);
            for (index_t h = top; h < bottom; h++)
                for (index_t w = left; w < right; w++) {
                    const A value = load(from[h * WIDTH + w]);
                    if (found < 0 || value > best || (value != value && best == best))
                        best = value, found = h * WIDTH + w;
                }
        }
        y[i] = store<T>(best);
        place[i] = (int)found;
    }
}

/* Each element looks for itself among the places of the boxes on its image, so that sums are in their order. */
extern "C" __global__ void pool_regions_back(const T *gy, const R *rois, const int *place, T *gx, long long *flag,
                                             long long failure, const Floats floats, const Words words) {
    CHECK_BOXES
    CHECK_PLACES
    EACH(i, COUNT) {
        const index_t map = OVER(i, ELEMENTS), own = REMAINDER(i, map, ELEMENTS);
        const index_t image = OVER(map, CHANNELS), channel = REMAINDER(map, image, CHANNELS);
        A sum = 0;
        for (index_t box = 0; box < BOXES; box++) {
            if (image_of(words, rois + 5 * box) != image) continue;
            const index_t first = (box * CHANNELS + channel) * (ROWS * COLUMNS);
            for (index_t cell = first; cell < first + ROWS * COLUMNS; cell++)
                if (place[cell] == own) sum += load(gy[cell]);
        }
        gx[i] = store<T>(sum);
    }
}

extern "C" __global__ void gather_regions(const T *x, const R *rois, const int *place, T *y, long long *flag,
                                          long long failure, const Floats floats, const Words words) {
    CHECK_BOXES
    CHECK_PLACES
    EACH(i, CELLS) {
        const index_t over = OVER(i, COLUMNS), slice = OVER(over, ROWS), box = OVER(slice, CHANNELS);
        const index_t image = image_of(words, rois + 5 * box), channel = REMAINDER(slice, box, CHANNELS);
        const bool is = image >= 0 && place[i] >= 0 && place[i] < HEIGHT * WIDTH;
        y[i] = store<T>(is ? load(x[(image * CHANNELS + channel) * (HEIGHT * WIDTH) + place[i]]) : (A)0);
    }
}
