"""The formulas of layer calls on images in NumPy, written from their definitions: loops over windows."""

import itertools
import math

import numpy as np


def steps(counts):
    return itertools.product(*map(range, counts))


def window_sums(x, f, counts, pad, stride, dilation):
    """`O[k,m,p,q,n]` of images (C, D, H, W, N) and filters (C, T, R, S, K)."""
    out = np.zeros((f.shape[-1], *counts, x.shape[-1]))
    for at, tap, place in _pairs(x, f, counts, pad, stride, dilation):
        out[(slice(None), *at)] += f[(slice(None), *tap)].T @ x[(slice(None), *place)]
    return out


def spread(f, e, image, pad, stride, dilation):
    """`grad_I[c,d,h,w,n]` of filters and errors (K, M, P, Q, N)."""
    out = np.zeros((f.shape[0], *image, e.shape[-1]))
    for at, tap, place in _pairs(out, f, e.shape[1:-1], pad, stride, dilation):
        out[(slice(None), *place)] += f[(slice(None), *tap)] @ e[(slice(None), *at)]
    return out


def correlated(x, e, window, pad, stride, dilation):
    """`grad_F[c,t,r,s,k]` of images and errors."""
    out = np.zeros((x.shape[0], *window, e.shape[0]))
    for at, tap, place in _pairs(x, out, e.shape[1:-1], pad, stride, dilation):
        out[(slice(None), *tap)] += x[(slice(None), *place)] @ e[(slice(None), *at)].T
    return out


def _pairs(x, f, counts, pad, stride, dilation):
    for at in steps(counts):
        for tap in steps(f.shape[1:-1]):
            place = [i * s - p + t * d for i, s, p, t, d in zip(at, stride, pad, tap, dilation, strict=True)]
            if all(0 <= i < size for i, size in zip(place, x.shape[1:-1], strict=True)):
                yield at, tap, tuple(place)


def windows(layer):
    """Per window its position and its elements, along maps, depth, height and width."""
    for at in steps((layer.K, layer.M, layer.P, layer.Q)):
        cuts = []
        for i, s, p, width, size in zip(at, layer.strides, layer.padding, layer.JTRS, layer.dimI, strict=False):
            begin = i * s - p
            cuts.append(slice(max(begin, 0), min(begin + width, size)))
        yield at, tuple(cuts)


def pooled(layer, x):
    """The result of a pooling, and of maxima their places."""
    out, place = np.zeros(layer.dimO), np.zeros(layer.dimO, int)
    for at, cut in windows(layer):
        seen = x[cut].reshape(-1, layer.N)
        place[at] = seen.argmax(0)
        out[at] = {"max": seen.max(0), "avg": seen.mean(0), "l2": np.sqrt((seen**2).sum(0))}[layer.op]
    return out, place


def unpooled(layer, x, e):
    """The gradient of a pooling."""
    out, (y, place) = np.zeros(layer.dimI), pooled(layer, x)
    for at, cut in windows(layer):
        seen = x[cut].reshape(-1, layer.N)
        share = {
            "max": np.arange(len(seen))[:, None] == place[at],
            "avg": np.full(seen.shape, 1 / len(seen)),
            "l2": seen / y[at],
        }[layer.op]
        out[cut] += (share * e[at]).reshape(out[cut].shape)
    return out


def around(x, width):
    """Sums over the maps around each one."""
    half = width // 2
    return np.stack([x[max(c - half, 0) : c + half + 1].sum(0) for c in range(len(x))])


def local_response(x, width, scale, power):
    """Result and denominator."""
    denom = 1 + scale / width * around(x * x, width)
    return x * denom**-power, denom


def boxes(images, rois, cells, scale):
    """Maxima of the cells of boxes, (C, PH, PW, R), and their places; images are (C, H, W, N)."""
    c, height, width, _ = images.shape
    out, place = np.zeros((c, *cells, len(rois))), np.full((c, *cells, len(rois)), -1)
    for r, (image, *corners) in enumerate(rois):
        left, top, right, bottom = np.rint(np.multiply(corners, scale)).astype(int)
        for i, j in steps(cells):
            rows = _cell(top, bottom, i, cells[0], height)
            columns = _cell(left, right, j, cells[1], width)
            for h, w in itertools.product(rows, columns):
                value = images[:, h, w, int(image)]
                wins = (place[:, i, j, r] < 0) | (value > out[:, i, j, r])
                out[:, i, j, r] = np.where(wins, value, out[:, i, j, r])
                place[:, i, j, r] = np.where(wins, h * width + w, place[:, i, j, r])
    return out, place


def _cell(first, last, number, count, size):
    length = max(last - first + 1, 1)
    begin = first + math.floor(number * length / count)
    end = first + math.ceil((number + 1) * length / count)
    return range(min(max(begin, 0), size), min(max(end, 0), size))


def differences(f, x, step=1e-6):
    """The gradient of a function of an array, by central differences."""
    out = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[at] += step
        low[at] -= step
        out[at] = (f(high) - f(low)) / (2 * step)
    return out
