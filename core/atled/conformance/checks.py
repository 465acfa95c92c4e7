"""What must hold for one op in one Context: values, place, gradients, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.conformance.running import RANDOM_KEY, Outcome, call, evaluate, oracle, typed, widened, with_random_state
from atled.dtypes import is_float, largest
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRValue
from atled.ops.elementwise import Elementwise, derived_name, derived_spec
from atled.ops.own import spec_of
from atled.ops.samples import Refused, Sample
from atled.ops.spec import OpSpec
from atled.type_configs import computable
from atled_contexts import Context, backend_info

_STEP = 1e-5  # of finite differences in float64: truncation about 1e-10, rounding about 1e-11


def check_values(spec: OpSpec, sample: Sample, context: Context) -> Outcome:
    """The op gives what its reference gives in float64, within its tolerance, where the Context's first backend is."""
    backend, type_config = context.backends[0]
    arrays = typed(sample.draw(), type_config)
    # The oracle sees the rounded inputs, so that only the arithmetic is judged.
    expected, changed = oracle(spec, [widened(a) for a in arrays], sample.attributes)
    outcome = call(spec, arrays, sample.attributes, context)
    tolerance = spec.allowed_error(type_config)
    for name, want, got in zip(output_names(spec, expected), expected, outcome.results, strict=True):
        compare(f"{spec.name}.{name}", want, got, tolerance)
    for position in spec.mutated:
        compare(
            f"{spec.name}: changed {spec.input_names[position]}", changed[position], outcome.inputs[position], tolerance
        )
    if not spec.views:
        assert outcome.backend_of(spec.name) == backend, f"{spec.name} ran on {outcome.backend_of(spec.name)}"
    return outcome


def check_unusual_arrays(spec: OpSpec, sample: Sample) -> None:
    """The reference computes the same from strided and from read-only arrays, and changes none it must not change."""
    arrays = sample.draw()
    expected, _ = oracle(spec, arrays, sample.attributes)
    given = [None if a is None else strided(a) for a in arrays]
    for position, array in enumerate(given):
        if array is not None and position not in spec.mutated:
            array.flags.writeable = False
    descs = [None if a is None else ArrayDesc(a.shape, a.dtype) for a in given]
    attributes = spec.check_attributes(sample.attributes, descs)
    for item in spec.attributes:
        if item.hidden and item.kind == "dtype" and not spec.user_inputs:
            attributes[item.name] = np.dtype(np.float64)
    random_state = [np.array([RANDOM_KEY, 0])] if spec.random else []
    values = spec.reference(*given, *random_state, **attributes)
    for want, got in zip(expected, [values] if isinstance(values, np.ndarray | np.generic) else values, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def check_gradient(spec: OpSpec, sample: Sample, context: Context, directions: int = 2) -> None:
    """Gradients agree with finite differences of the reference, along random directions, in float64."""
    gradients = Gradients(spec, sample, context)

    def loss(inputs: Sequence[np.ndarray | None]) -> float:
        outputs, _ = oracle(spec, inputs, sample.attributes)
        return _weighted_sum(gradients.weights, outputs)

    found = gradients.first(gradients.arrays)
    for position, gradient in zip(gradients.positions, found, strict=True):
        name = f"{spec.name}: gradient of {spec.input_at(position).name}"
        _compare_slopes(name, gradients.arrays, position, gradient, loss, directions)


def check_second_gradient(spec: OpSpec, sample: Sample, context: Context) -> None:
    """Gradients of gradients agree with finite differences of the gradients."""
    gradients = Gradients(spec, sample, context)
    rng = np.random.default_rng(1)
    inputs = [gradients.arrays[position] for position in gradients.positions]
    weights = [rng.standard_normal(x.shape) for x in inputs if x is not None]

    def loss(inputs: Sequence[np.ndarray | None]) -> float:
        return _weighted_sum(weights, gradients.first(inputs))

    found = gradients.second(gradients.arrays, weights)
    for position, gradient in zip(gradients.positions, found, strict=True):
        name = f"{spec.name}: second gradient of {spec.input_at(position).name}"
        # Steps larger and bounds wider than for first gradients: the differences are of sums of products.
        _compare_slopes(name, gradients.arrays, position, gradient, loss, 1, step=1e-4, tolerance=1e-4)


class Gradients:
    """The gradients of a fixed weighted sum of the outputs of one sample, first and second, by the engine.

    arrays: the sample's inputs in float64.  positions: of the inputs that gradients flow to.
    weights: per output its weights in the sum, None for outputs without gradient.
    """

    def __init__(self, spec: OpSpec, sample: Sample, context: Context) -> None:
        self.spec = spec
        self.attributes = sample.attributes
        self.context = context
        self.arrays = sample.draw()
        self.positions = [
            position
            for position, array in enumerate(self.arrays)
            if array is not None and spec.input_at(position).gradient == "flows" and is_float(array.dtype)
        ]
        outputs, _ = oracle(spec, self.arrays, sample.attributes)
        visible = spec.visible_count(len(outputs), spec.check_attributes(sample.attributes, _descs(self.arrays)))
        rng = np.random.default_rng(2)
        self.weights = [
            rng.standard_normal(y.shape) if is_float(y.dtype) and position < visible else None
            for position, y in enumerate(outputs)
        ]

    def first(self, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """One array per position."""
        return self._evaluate(arrays, ())

    def second(self, arrays: Sequence[np.ndarray | None], weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Gradients of the sum of the first ones weighted with `weights`; one array per position."""
        return self._evaluate(arrays, weights)

    def _evaluate(self, arrays: Sequence[np.ndarray | None], weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        inputs = with_random_state(self.spec, arrays)
        given = [weight for weight in self.weights if weight is not None]

        def build(graph: Graph, values: list[IRValue | None]) -> Sequence[IRValue]:
            made = graph.op(self.spec.name, *values[: len(inputs)], **self.attributes)
            outputs = made if isinstance(made, tuple) else (made,)
            seeds = values[len(inputs) : len(inputs) + len(given)]
            weighted = [y for y, weight in zip(outputs, self.weights, strict=True) if weight is not None]
            gradients = self._pull_back(graph, values, weighted, seeds)
            if weights:
                gradients = self._pull_back(graph, values, gradients, values[len(inputs) + len(given) :])
            return gradients

        return evaluate(build, [*inputs, *given, *weights], self.context).results

    def _pull_back(
        self,
        graph: Graph,
        values: Sequence[IRValue | None],
        outputs: Sequence[IRValue],
        seeds: Sequence[IRValue | None],
    ) -> list[IRValue]:
        collected: dict[IRValue, IRValue] = {}
        for output, seed in zip(outputs, seeds, strict=True):
            assert seed is not None
            collected[output] = collected[output] + seed if output in collected else seed
        wanted = [value for value in (values[position] for position in self.positions) if value is not None]
        found = backpropagate(graph, list(graph.nodes), collected, wanted)
        # An input that the result does not depend on has the gradient 0.
        return [found.get(value) or graph.op("MulScalar", value, val=0.0) for value in wanted]


def _weighted_sum(weights: Sequence[np.ndarray | None], arrays: Sequence[np.ndarray]) -> float:
    return float(sum((w * a).sum() for w, a in zip(weights, arrays, strict=True) if w is not None))


def check_refused(spec: OpSpec, refused: Refused, context: Context) -> None:
    """The op refuses the call with the error and the words its spec promises."""
    arrays = refused.draw()
    try:
        descs = [None if a is None else ArrayDesc(a.shape, a.dtype) for a in arrays]
        spec.check_values(spec.check_attributes(refused.attributes, descs))
        call(spec, typed(arrays, context.backends[0][1]), refused.attributes, context)
    except refused.error as error:
        assert re.search(refused.match, str(error)), f"{spec.name}: no {refused.match!r} in {str(error)!r}"
        return
    raise AssertionError(f"{spec.name} accepted {refused!r}")


def check_op(op: Any, backend: str = "reference") -> int:
    """Check an op of your own by its samples, as those of the library are; how many calls were checked.

    Values on the backend, under each of its type configs, without fallback, for the op and for the gradient ops of its
    formula; gradients of both orders against finite differences in float64; refused calls.

    op: name, class or function.  Raises AssertionError, which says what differs, or that the op has no samples.
    """
    spec = spec_of(op)
    specs = [spec]
    if isinstance(spec, Elementwise) and not spec.no_gradient:
        specs += [
            derived_spec(derived_name(spec.name, x)) for x in spec.input_names if spec.gradient_formula(x) is not None
        ]
    offered = computable(backend_info(backend).type_configs)
    contexts = [Context([f"{backend}:{name}"], fallback="raise") for name in offered]
    double = Context("reference:double", fallback="raise")
    count = 0
    for each in specs:
        samples, refused = each.samples(), each.refused()
        assert samples, f"{each.name} has no samples: define samples(self)"
        count += len(samples) + len(refused)
        for sample in samples:
            for context in contexts:
                check_values(each, sample, context)
            check_unusual_arrays(each, sample)
            if sample.differentiable and not each.no_gradient:
                check_gradient(each, sample, double)
                check_second_gradient(each, sample, double)
        for item in refused:
            check_refused(each, item, contexts[0])
    return count


# --- pieces -------------------------------------------------------------------------------------------------------


def strided(array: np.ndarray) -> np.ndarray:
    """The same values in an array with gaps, or in Fortran order where that is all there can be."""
    if array.ndim == 0:
        return array.copy()
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = wide[..., ::2]
    view[...] = array
    return view


def output_names(spec: OpSpec, outputs: Sequence[np.ndarray]) -> list[str]:
    """The names of the outputs, variadic ones numbered."""
    names = list(spec.outputs[: len(outputs)])
    return names + [f"{spec.outputs[-1]}[{i}]" for i in range(len(names), len(outputs))]


def compare(name: str, want: np.ndarray | None, got: np.ndarray | None, tolerance: float) -> None:
    """AssertionError unless two arrays agree: whole numbers exactly, others relative to the largest of `want`."""
    assert want is not None and got is not None
    assert want.shape == got.shape, f"{name}: shape {got.shape} instead of {want.shape}"
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    if not want.size:
        return
    limit = float(largest(got.dtype)) if is_float(got.dtype) else np.inf
    got = got.astype(np.float64)  # NumPy's comparisons do not know NaN in bfloat16
    # What a narrow dtype cannot hold is whatever it has for that.
    want = np.where(np.isfinite(want) & (np.abs(want) > limit), got, want)
    # Relative to the size of the whole array: cancellation makes small elements of a sum relatively inexact.
    finite = np.abs(want[np.isfinite(want)])
    scale = max(float(finite.max()) if finite.size else 0.0, 1e-3)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=name)


def _descs(arrays: Sequence[np.ndarray | None]) -> list[ArrayDesc | None]:
    return [None if a is None else ArrayDesc(a.shape, a.dtype) for a in arrays]


def _compare_slopes(
    name: str,
    arrays: Sequence[np.ndarray | None],
    position: int,
    gradient: np.ndarray,
    loss: Callable[[Sequence[np.ndarray | None]], float],
    directions: int,
    step: float = _STEP,
    tolerance: float = 1e-5,
) -> None:
    x = arrays[position]
    assert x is not None
    rng = np.random.default_rng(3)
    for _ in range(directions if x.size else 0):
        direction = rng.choice([-1.0, 1.0], x.shape)
        ahead, behind = list(arrays), list(arrays)
        ahead[position] = x + step * direction
        behind[position] = x - step * direction
        slope = (loss(ahead) - loss(behind)) / (2 * step)
        found = float((gradient * direction).sum())
        scale = max(abs(slope), float(np.abs(gradient).max()), 1.0)
        assert abs(found - slope) <= tolerance * scale, (
            f"{name}: {found} along a direction, finite differences give {slope}"
        )
