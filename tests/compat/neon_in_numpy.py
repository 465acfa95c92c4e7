"""What the programs of `neon_programs` compute, in NumPy: for each a function of its name, which yields its lines."""

import numpy as np
from numpy.random import RandomState


def linear_regression(steps=25, rate=0.2):
    x = RandomState(1).normal(size=(3, 40))
    t = np.array([[2.0, -1.0, 0.5]]) @ x + 1
    w, b = np.zeros((1, 3)), np.zeros((1, 1))
    for step in range(steps):
        error = w @ x + b - t
        if step % 8 == 0:
            yield "cost", (error**2).mean()
        w, b = w - rate / 40 * error @ x.T, b - rate * error.mean()
    yield "w", *w[0]
    yield "b", b[0, 0]


def logistic_autodiff():
    x = RandomState(3).normal(size=(2, 50)).astype(np.float32)
    t = x.sum(axis=0, keepdims=True) > 0.3
    w, b = RandomState(2).normal(0, 0.1, (1, 2)), 0

    def computed():
        y = 1 / (1 + np.exp(-(w @ x + b)))
        return y, (y - t) @ x.T / 50, (y - t).mean()

    for _ in range(12):
        y, dw, db = computed()
        yield "cost", -np.where(t, np.log(y), np.log(1 - y)).mean()
        w, b = w - dw, b - db
    y, dw, db = computed()
    yield "gradients", *dw[0], db
    yield "right", ((y > 0.5) == t).mean()


def mlp_of_calls():
    data, rng = RandomState(6), RandomState(5)
    classes = data.randint(3, size=24)
    x, t = data.normal(size=(4, 24)) + 2 * np.eye(4)[:, classes], np.eye(3)[:, classes]
    w1, w2 = (rng.uniform(-k, k, shape) for shape in [(10, 4), (3, 10)] for k in [np.sqrt(6 / sum(shape))])
    for epoch in range(15):
        hidden = np.maximum(w1 @ x, 0) * (rng.uniform(size=(10, 24)) < 0.8)
        out = np.exp(w2 @ hidden)
        out /= out.sum(axis=0)
        if epoch % 5 == 4:
            yield "cost", -np.log((out * t).sum(axis=0)).mean()
        error = (out - t) / 24
        back = (w2.T @ error) * (hidden > 0)
        w1, w2 = w1 - 0.5 * back @ x.T, w2 - 0.5 * error @ hidden.T
    yield "w2", *w2.ravel()


def costs_and_metrics():
    y = RandomState(8).uniform(0.05, 1, size=(4, 8))
    y /= y.sum(axis=0)
    classes = np.array([2, 0, 1, 3, 3, 1, 0, 2])
    t = np.eye(4)[:, classes]
    binary = -(t * np.log(y) + (1 - t) * np.log(1 - y)).sum(axis=0)
    multi = -(t * np.log(y)).sum(axis=0)
    squares, error = ((y - t) ** 2).sum(axis=0) / 2, (y - t)[:, 0]
    yield "CrossEntropyBinary", *binary, *error
    yield "CrossEntropyMulti", *multi, *error
    yield "CrossEntropyMulti", *(multi / np.log(2)), *(error / np.log(2))
    yield "SumSquared", *squares, *error
    yield "MeanSquared", *(squares / 4), *(error / 4)
    yield "SmoothL1Loss", *squares, *error
    right = (y.argmax(axis=0) == classes).mean()
    assert 0 < right < 1
    yield "LogLoss", multi.mean()
    yield "Top1Misclass", 1 - right
    yield "Accuracy", right


def own_backend():
    rng = RandomState(4)
    a, b = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, (3, 6))
    c = np.maximum(0.5 * a @ b, 0) + a @ b  # relu is of the product alone
    yield "c", *c.ravel()
    yield "sums", *(a @ b).sum(axis=1)
    yield "softsign", *((c - 0.5) / (1 + abs(c - 0.5))).ravel()
    yield "counted", 180, "True", 4


def filters():
    images = np.zeros((1, 8, 8, 4))
    for n in range(4):
        images[0, n : n + 4, 2 : 4 + n, n] = 1 + n
    horizontal = np.array([[1, 1, 1], [0, 0, 0], [-1, -1, -1]])
    patches = _patches(images, 3)
    maps = np.stack([(patches[0] * f[:, :, None, None, None]).sum((0, 1)) for f in (horizontal, horizontal.T)])
    windows = maps.reshape(2, 3, 2, 3, 2, 4).transpose(0, 1, 3, 5, 2, 4).reshape(2, 3, 3, 4, 4)
    pooled, first = windows.max(-1), windows.argmax(-1)
    yield "maps", 2, 1, 6, 6, 4, 2, 1, 3, 3, 4
    yield "edges", *maps.ravel()
    yield "pooled", *pooled.ravel()
    spread = np.tanh(pooled / 8)[..., None] * np.eye(4)[first]
    delta = spread.reshape(2, 3, 3, 4, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 6, 6, 4)
    yield "dF", *np.einsum("rspqn,kpqn->rsk", patches[0], delta).ravel()


def layers_by_hand():
    data, rng = RandomState(12), RandomState(11)
    x = data.uniform(-1, 1, (2, 16)).astype(np.float32)
    t = np.sin(3 * x[:1]) * x[1:]
    params = [rng.normal(0, 0.5, (8, 2)), np.full((8, 1), 0.1), rng.normal(0, 0.5, (1, 8)), np.zeros((1, 1))]
    speeds = [0.0] * 4
    for epoch in range(20):
        w1, b1, w2, b2 = params
        h = np.tanh(w1 @ x + b1)
        y = w2 @ h + b2
        if epoch % 5 == 4:
            yield "cost", ((y - t) ** 2 / 2).mean()
        error = y - t
        back = (w2.T @ error) * (1 - h**2)
        gradients = back @ x.T, back.sum(1, keepdims=True), error @ h.T, error.sum(1, keepdims=True)
        speeds = [0.9 * v - 0.1 * (g / 16 + 0.001 * p) for v, g, p in zip(speeds, gradients, params, strict=True)]
        params = [p + v for p, v in zip(params, speeds, strict=True)]
    yield "y", *y[0]
    yield "names", "Linear", "Bias", "Activation", "Linear", "Bias", "Activation"


def own_layer():
    images = RandomState(15).normal(size=(2, 6, 6, 5))
    f, scale = RandomState(14).uniform(-0.5, 0.5, (18, 4)), np.full((4, 1), 1.5)
    columns = _patches(images, 3).reshape(18, 80)
    for epoch in range(6):
        maps = f.T @ columns
        y = (maps * scale).reshape(4, 2, 2, 2, 2, 5).mean(axis=(2, 4))
        yield "cost", 0.5 * (y**2).sum()
        error = (y / 4).repeat(2, axis=1).repeat(2, axis=2).reshape(4, 80)
        slope, df = (error * maps).sum(1, keepdims=True), columns @ (error * scale).T
        rate = 0.05 * 0.5 ** ((epoch >= 2) + (epoch >= 4))
        f, scale = f - rate * np.clip(df / 5, -2, 2), scale - rate * np.clip(slope / 5, -2, 2)
    yield "shapes", 4, 2, 2, 18, 4
    yield "scale", *scale.ravel()
    yield "description", "MapScale"


def echo_birnn():
    batch, steps, classes = 6, 7, 3
    rng = RandomState(21)
    symbols = RandomState(22).randint(classes, size=(steps, batch))
    t = np.eye(classes)[(np.roll(symbols, 1, axis=0) + np.roll(symbols, -1, axis=0)) % classes]  # (steps, batch, 3)
    k = np.sqrt(6 / 9)
    p = {"table": rng.uniform(-0.4, 0.4, (classes, 4))}
    p |= {f"in {way}": rng.uniform(-k, k, (5, 4)) for way in "fb"}
    p |= {f"recur {way}": rng.uniform(-0.4, 0.4, (5, 5)) for way in "fb"}
    p |= {f"bias {way}": np.zeros((5, 1)) for way in "fb"}
    p |= {"out": rng.uniform(-0.4, 0.4, (classes, 10)), "bias": np.zeros((classes, 1))}
    squares = {name: np.zeros_like(value) for name, value in p.items()}
    order = {"f": list(range(steps)), "b": list(range(steps))[::-1]}

    def forward():
        x = p["table"][symbols]
        h = {way: np.zeros((steps, batch, 5)) for way in "fb"}
        for way, walked in order.items():
            state = np.zeros((batch, 5))
            for step in walked:
                state = np.tanh(x[step] @ p[f"in {way}"].T + state @ p[f"recur {way}"].T + p[f"bias {way}"].T)
                h[way][step] = state
        y = np.exp(np.concatenate([h["f"], h["b"]], axis=2) @ p["out"].T + p["bias"].T)
        return x, h, y / y.sum(axis=2, keepdims=True)

    yield "shapes", 10, steps, 20, 5
    for epoch in range(12):
        x, h, y = forward()
        if epoch % 3 == 0:
            yield "bits", -np.log2((y * t).sum(axis=2)).mean()
        error = (y - t) / np.log(2)
        g = {name: np.zeros_like(value) for name, value in p.items()}
        g["out"] = np.einsum("sbk,sbh->kh", error, np.concatenate([h["f"], h["b"]], axis=2))
        g["bias"] = error.sum((0, 1))[:, None]
        of_states, of_x = error @ p["out"], np.zeros_like(x)
        for (way, walked), half in zip(order.items(), (slice(0, 5), slice(5, 10)), strict=True):
            later = np.zeros((batch, 5))
            for step, before in zip(walked[::-1], [*walked[:-1][::-1], None], strict=True):
                later = (of_states[step][:, half] + later @ p[f"recur {way}"]) * (1 - h[way][step] ** 2)
                g[f"in {way}"] += later.T @ x[step]
                g[f"bias {way}"] += later.sum(0)[:, None]
                of_x[step] += later @ p[f"in {way}"]
                if before is not None:
                    g[f"recur {way}"] += later.T @ h[way][before]
        np.add.at(g["table"], symbols, of_x)
        for name, gradient in g.items():
            clipped = np.clip(gradient / batch, -1, 1)
            squares[name] = 0.9 * squares[name] + 0.1 * clipped**2
            p[name] = p[name] - 0.02 * clipped / (np.sqrt(squares[name] + 1e-6) + 1e-6)
    yield "y", *forward()[2][0].T.ravel()


def conv_net():
    rng, pictures = RandomState(31), RandomState(32).normal(size=(2, 6, 6, 8))
    t = pictures[0].mean(axis=(0, 1)) > 0
    patches = _patches(np.pad(pictures, [(0, 0), (1, 1), (1, 1), (0, 0)]), 3).reshape(18, 288)
    p = [rng.normal(0, 0.3, (18, 4)), rng.normal(0, 0.3, (2, 4)), rng.uniform(-np.sqrt(3), np.sqrt(3), (1, 36))]
    p += [np.zeros((4, 1)), np.ones((4, 1))]
    gmean, gvar = np.zeros((4, 1)), np.zeros((4, 1))
    m, v = [0.0] * 5, [0.0] * 5

    def forward(mean, var, mask):
        xhat = (p[0].T @ patches - mean) / np.sqrt(var + 1e-3)
        normal = p[4] * xhat + p[3]
        maps = np.maximum(normal, 0) + p[1].T @ pictures.reshape(2, 288)
        windows = maps.reshape(4, 3, 2, 3, 2, 8).transpose(0, 1, 3, 5, 2, 4).reshape(4, 3, 3, 8, 4)
        pooled = windows.max(-1).reshape(36, 8) * mask
        return xhat, normal, windows.argmax(-1), pooled, 1 / (1 + np.exp(-(p[2] @ pooled)))

    for step in range(1, 6):
        z = p[0].T @ patches
        mean, var = z.mean(1, keepdims=True), z.var(1, keepdims=True)
        gmean, gvar = 0.9 * gmean + 0.1 * mean, 0.9 * gvar + 0.1 * var
        mask = rng.uniform(size=(36, 8)) < 0.75
        xhat, normal, first, pooled, y = forward(mean, var, mask)
        yield "cost", -np.where(t, np.log(y), np.log(1 - y)).mean()
        error = y - t
        of_pooled = (p[2].T @ error * mask).reshape(4, 3, 3, 8, 1) * np.eye(4)[first]
        of_maps = of_pooled.reshape(4, 3, 3, 8, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(4, 288)
        of_normal = of_maps * (normal > 0)
        of_beta, of_gamma = of_normal.sum(1, keepdims=True), (of_normal * xhat).sum(1, keepdims=True)
        of_z = p[4] / np.sqrt(var + 1e-3) * (of_normal - (xhat * of_gamma + of_beta) / 288)
        gradients = patches @ of_z.T, pictures.reshape(2, 288) @ of_maps.T, error @ pooled.T, of_beta, of_gamma
        rate = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for i, gradient in enumerate(gradients):
            m[i] = 0.9 * m[i] + 0.1 * gradient / 8
            v[i] = 0.999 * v[i] + 0.001 * (gradient / 8) ** 2
            p[i] = p[i] - rate * m[i] / (np.sqrt(v[i]) + 1e-8)
    yield "inference", *forward(gmean, gvar, 0.75)[-1][0]


def mnist_like_mlp():
    data, rng = RandomState(42), RandomState(41)
    y_train, y_test = data.randint(4, size=60), data.randint(4, size=20)
    prototypes = data.uniform(size=(4, 25))
    train = prototypes[y_train] + data.normal(0, 0.2, (60, 25))
    test = prototypes[y_test] + data.normal(0, 0.2, (20, 25))
    p = [rng.normal(0, 0.3, (12, 25)), rng.normal(0, 0.3, (4, 12))]
    v, start, costs = [0.0, 0.0], 0, []

    def forward(x):
        hidden = np.maximum(p[0] @ x, 0)
        return hidden, 1 / (1 + np.exp(-(p[1] @ hidden)))

    def error():
        return (forward(test.T)[1].argmax(axis=0) != y_test).mean()

    yield "before", error()
    for _ in range(3):
        costs = []
        while start < 60:
            chosen = np.arange(start, start + 16) % 60
            x, t = train[chosen].T, np.eye(4)[:, y_train[chosen]]
            hidden, y = forward(x)
            costs.append(-(t * np.log(y) + (1 - t) * np.log(1 - y)).sum(axis=0).mean())
            back = p[1].T @ (y - t) * (hidden > 0)
            v = [0.9 * each - 0.1 * g / 16 for each, g in zip(v, (back @ x.T, (y - t) @ hidden.T), strict=True)]
            p = [each + change for each, change in zip(p, v, strict=True)]
            start += 16
        start -= 60
    yield "epochs", 3
    yield "cost", np.mean(costs)
    yield "error", error()
    yield "outputs", *forward(test[:3].T)[1].T.ravel()


def _patches(images, size):
    """Windows (C, size, size, P, Q, N) of images (C, H, W, N)."""
    rows, columns = (extent - size + 1 for extent in images.shape[1:3])
    return np.stack(
        [
            np.stack([images[:, r : r + rows, s : s + columns] for s in range(size)], axis=1)
            for r in range(size)
        ],
        axis=1,
    )  # fmt: skip
