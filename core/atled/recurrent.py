"""Recurrent layers of described programs: LSTM, GRU and plain ones, whose gates have any activation."""

from __future__ import annotations

from collections.abc import Callable

from atled.errors import four_parts
from atled.keyed import Description, LoopValues

__all__ = ["gru", "lstm", "plain"]

Activation = str | Callable[[int], int]
"""The name of an op of one input, such as "Tanh", or a function that describes what is done with a value."""


def plain(
    d: Description,
    x: int,
    h: int,
    w: int,
    u: int,
    b: int | None = None,
    *,
    activation: Activation = "Tanh",
    backwards: bool = False,
) -> LoopValues:
    """Describe `h = activation(x w + h u + b)`, step by step.

    Args:
        x: (T, B, I); a sequence of batches.
        h: (B, H); the first state.
        w, u: (I, H) and (H, H).
        b: (H); None for none.
        activation: the name of an op, or a function that describes it.
        backwards: whether it begins with the last row of x.

    Returns:
        states: the last h.
        rows: all h, (T, B, H).
    """

    def step(x: int, h: int) -> tuple[list[int], list[int]]:
        new = _activated(d, activation, _gates(d, x, h, w, u, b))
        return [new], [new]

    return d.loop(step, [x], [h], backwards=backwards)


def lstm(
    d: Description,
    x: int,
    h: int,
    c: int,
    w: int,
    u: int,
    b: int | None = None,
    *,
    shape: tuple[int, int],
    activation: Activation = "Tanh",
    gate_activation: Activation = "Sigmoid",
    order: str = "ifgo",
    backwards: bool = False,
) -> LoopValues:
    """Describe `c = gate(f) c + gate(i) activation(g); h = gate(o) activation(c)`, step by step.

    The gates i, f, g and o are parts of `x w + h u + b`.

    Args:
        x: (T, B, I); a sequence of batches.
        h, c: (B, H); the first states.
        w, u: (I, 4 H) and (H, 4 H).
        b: (4 H); None for none.
        shape: B and H.
        activation, gate_activation: names of ops, or functions that describe them.
        order: of the gates in w, u and b: input, forget, new content (g) and output.
        backwards: whether it begins with the last row of x.

    Returns:
        states: the last h and c.
        rows: all h, (T, B, H).

    Raises ValueError for another order than of these four. Source: Hochreiter and Schmidhuber, Long Short-Term Memory,
    1997; Gers et al., Learning to Forget, 2000.
    """
    _require_order("an LSTM", order, "ifgo")

    def step(x: int, h: int, c: int) -> tuple[list[int], list[int]]:
        total = _gates(d, x, h, w, u, b)
        cut = {name: _columns(d, total, shape, number) for number, name in enumerate(order)}
        i, f, o = (_activated(d, gate_activation, cut[name]) for name in "ifo")
        kept = d.call("Mul2", f, c)
        new_c = d.call("Add2", kept, d.call("Mul2", i, _activated(d, activation, cut["g"])))
        new_h = d.call("Mul2", o, _activated(d, activation, new_c))
        return [new_h, new_c], [new_h]

    return d.loop(step, [x], [h, c], backwards=backwards)


def gru(
    d: Description,
    x: int,
    h: int,
    w: int,
    u: int,
    b: int | None = None,
    inner_b: int | None = None,
    *,
    shape: tuple[int, int],
    activation: Activation = "Tanh",
    gate_activation: Activation = "Sigmoid",
    order: str = "zrn",
    reset_after: bool = False,
    backwards: bool = False,
) -> LoopValues:
    """Describe `h = gate(z) h + (1 - gate(z)) activation(n)`, step by step.

    z and r are parts of `x w + b + h u + inner_b`. With reset_after, n is `x w_n + b_n + gate(r) (h u_n + inner_b_n)`;
    else `x w_n + b_n + (gate(r) h) u_n + inner_b_n`.

    Args:
        x: (T, B, I); a sequence of batches.
        h: (B, H); the first state.
        w, u: (I, 3 H) and (H, 3 H).
        b, inner_b: (3 H) each; None for none.
        shape: B and H.
        activation, gate_activation: names of ops, or functions that describe them.
        order: of the gates in w, u, b and inner_b: update (z), reset and new content.
        backwards: whether it begins with the last row of x.

    Returns:
        states: the last h.
        rows: all h, (T, B, H).

    Raises ValueError for another order than of these three. Source: Cho et al., Learning Phrase Representations using
    RNN Encoder-Decoder, 2014; reset_after as in cuDNN.
    """
    _require_order("a GRU", order, "zrn")
    hidden = shape[1]
    inner = {name: _columns(d, u, (hidden, hidden), number) for number, name in enumerate(order)}
    biases = {} if inner_b is None else {name: _columns(d, inner_b, (hidden,), n) for n, name in enumerate(order)}

    def from_h(name: str, h: int) -> int:
        return _biased(d, d.call("BatchMatmul", h, inner[name]), biases.get(name))

    def step(x: int, h: int) -> tuple[list[int], list[int]]:
        from_x = _biased(d, d.call("BatchMatmul", x, w), b)
        cut = {name: _columns(d, from_x, shape, number) for number, name in enumerate(order)}
        z, r = (_activated(d, gate_activation, d.call("Add2", cut[name], from_h(name, h))) for name in "zr")
        of_h = d.call("Mul2", r, from_h("n", h)) if reset_after else from_h("n", d.call("Mul2", r, h))
        n = _activated(d, activation, d.call("Add2", cut["n"], of_h))
        new = d.call("Add2", n, d.call("Mul2", z, d.call("Sub2", h, n)))
        return [new], [new]

    return d.loop(step, [x], [h], backwards=backwards)


def _require_order(what: str, order: str, gates: str) -> None:
    if sorted(order) != sorted(gates):
        raise ValueError(four_parts(f"{what} of order {order!r}", "these are not its gates", "", f"arrange {gates!r}"))


def _gates(d: Description, x: int, h: int, w: int, u: int, b: int | None) -> int:
    """`x w + h u + b`."""
    return d.call("Add2", _biased(d, d.call("BatchMatmul", x, w), b), d.call("BatchMatmul", h, u))


def _biased(d: Description, value: int, bias: int | None) -> int:
    return value if bias is None else d.call("Add2", value, bias)


def _columns(d: Description, value: int, shape: tuple[int, ...], number: int) -> int:
    """One of the parts of this shape that lie side by side along the last axis."""
    *rows, size = shape
    zeros = (0 for _ in rows)
    return d.call(
        "Slice", value, start=(*zeros, number * size), stop=(*rows, (number + 1) * size), step=(1,) * len(shape)
    )


def _activated(d: Description, activation: Activation, value: int) -> int:
    return activation(value) if callable(activation) else d.call(activation, value)
