/* ImageAugmentation: what an image draws is worked out once, then each pixel is interpolated.  T: of the images.
   ROWS, COLUMNS: height and width, of x (X_) and y.  PAD_: pixels that x is thought wider by on each side.
   FLIP_LR, FLIP_UD, BRIGHTNESS_EACH, CONTRAST_EACH: flags. */
struct Geometry {
    double row_scale, column_scale, row_centre, column_centre, cosine, sine, bend, row_sign, column_sign, sigma;
};

/* drawn: per image a Geometry, then brightness and contrast of each channel.  words: images, channels. */
extern "C" __global__ void draw_images(double *drawn, const Floats floats, const Words words) {
    const Stream stream = stream_of(floats, 9);
    const int channels = (int)words.w[1];
    const double min_scale = number(floats, 0), max_scale = number(floats, 1), angle = number(floats, 2);
    const double ratio = number(floats, 3), distortion = number(floats, 4), brightness = number(floats, 5);
    const double contrast = number(floats, 6);
    EACH(image, words.w[0]) {
        const unsigned long long first = (unsigned long long)image * (9 + 2 * channels);
        double u[8];
#pragma unroll
        for (int k = 0; k < 8; k++) u[k] = uniform(drawn_word(stream, first + k));
        double *place = drawn + image * (index_t)(10 + 2 * channels);
        Geometry &to = *(Geometry *)place;
        const double scale = min_scale * pow(max_scale / min_scale, u[0]);
        const double stretch = pow(ratio, (2 * u[1] - 1) / 2), turn = angle * (2 * u[2] - 1);
        to.row_scale = scale / stretch;
        to.column_scale = scale * stretch;
        to.cosine = cos(turn);
        to.sine = sin(turn);
        to.bend = distortion * (2 * u[3] - 1);
        to.column_sign = FLIP_LR && u[4] >= 0.5 ? -1 : 1;
        to.row_sign = FLIP_UD && u[5] >= 0.5 ? -1 : 1;
        /* The outermost places of the output's centre, so that it just fits into the padded image. */
        double extent = ROWS / to.row_scale;
        to.row_centre = u[6] * (X_ROWS + 2 * PAD_ROWS - extent) - PAD_ROWS + (extent - 1) / 2;
        extent = COLUMNS / to.column_scale;
        to.column_centre = u[7] * (X_COLUMNS + 2 * PAD_COLUMNS - extent) - PAD_COLUMNS + (extent - 1) / 2;
        to.sigma = number(floats, 8) * uniform(drawn_word(stream, first + 8 + 2 * channels));
        for (int channel = 0; channel < channels; channel++) {
            const double b = uniform(drawn_word(stream, first + 8 + 2 * (BRIGHTNESS_EACH ? channel : 0)));
            const double c = uniform(drawn_word(stream, first + 9 + 2 * (CONTRAST_EACH ? channel : 0)));
            place[10 + 2 * channel] = brightness * (2 * b - 1);
            place[11 + 2 * channel] = pow(contrast, 2 * c - 1);
        }
    }
}

/* A normal number, as numbers.cuh draws them. */
static __device__ __forceinline__ double normal(Stream stream, unsigned long long n) {
    const double radius = sqrt(-2.0 * log(1.0 - uniform(drawn_word(stream, n & ~1ULL))));
    double sine, cosine;
    circle(uniform(drawn_word(stream, n | 1)), &sine, &cosine);
    return radius * (n & 1 ? sine : cosine);
}

/* words: pixels of all images, channels. */
extern "C" __global__ void augment(const T *x, const double *drawn, T *y, const Floats floats, const Words words) {
    const int channels = (int)words.w[1];
    const double centre = number(floats, 7);
    Stream stream = stream_of(floats, 9);
    stream.call += 1ULL << 62; /* which no call reaches: no word is used for two numbers */
    const double half_row = (ROWS - 1) / 2.0, half_column = (COLUMNS - 1) / 2.0;
    const double corner = fmax(sqrt(half_row * half_row + half_column * half_column), 1e-9);
    EACH(pixel, words.w[0]) {
        const index_t line = pixel / COLUMNS, image = line / ROWS;
        const double *place = drawn + image * (index_t)(10 + 2 * channels);
        const Geometry &by = *(const Geometry *)place;
        const double row = by.row_sign * ((double)(line % ROWS) - half_row);
        const double column = by.column_sign * ((double)(pixel % COLUMNS) - half_column);
        const double bent = (1 + by.bend * (row * row + column * column) / (corner * corner)) / (1 + by.bend);
        double r = bent * (row * by.cosine - column * by.sine) / by.row_scale + by.row_centre;
        double c = bent * (column * by.cosine + row * by.sine) / by.column_scale + by.column_centre;
        r = fmin(fmax(r, 0.0), X_ROWS - 1.0); /* NaN becomes 0 */
        c = fmin(fmax(c, 0.0), X_COLUMNS - 1.0);
        const int top = (int)r, left = (int)c;
        const index_t beside = left + 1 < X_COLUMNS, below = top + 1 < X_ROWS ? X_COLUMNS : 0;
        const double down = r - top, right = c - left;
        for (int channel = 0; channel < channels; channel++) {
            const T *at = x + ((image * channels + channel) * X_ROWS + top) * X_COLUMNS + left;
            const double upper = (double)load(at[0]) * (1 - right) + (double)load(at[beside]) * right;
            const double lower = (double)load(at[below]) * (1 - right) + (double)load(at[below + beside]) * right;
            const double taken = upper * (1 - down) + lower * down;
            double value = (taken - centre) * place[11 + 2 * channel] + centre + place[10 + 2 * channel];
            const index_t to = (image * channels + channel) * (ROWS * COLUMNS) + pixel % (ROWS * COLUMNS);
            if (by.sigma != 0) value += by.sigma * normal(stream, to);
            y[to] = Element<T>::of(value);
        }
    }
}
