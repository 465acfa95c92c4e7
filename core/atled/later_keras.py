"""What to write instead of functions that later Keras-style backends have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atled.errors import four_parts, no_such

LATER = "it belongs to later backends of this style; this one has the 89 functions of the first ones"
_UPDATES = "pass pairs (variable, new value) as updates of function"
_LAYERS = "compose it of the functions that dir() lists, or use atled.functions"
_NO_PHASE = "pass a placeholder of dtype 'bool' and choose by ifelse, or compile two functions"

INSTEAD: Mapping[str, str] = {
    "batch_dot": "write sum(x * y, axis=...) of reshaped operands, or dot for each",
    "batch_flatten": "write reshape(x, (x.shape[0], -1))",
    "batch_normalization": _LAYERS,
    "batch_set_shape": "shapes are known when a function is called; leave it out",
    "bias_add": "write x + b",
    "binary_crossentropy": "write -(t * log(p) + (1 - t) * log(1 - p)), with clip(p, epsilon(), 1 - epsilon())",
    "categorical_crossentropy": "write -sum(t * log(p), axis=-1), with clip(p, epsilon(), 1 - epsilon())",
    "clear_session": "there is no session; leave it out",
    "constant": "a NumPy array is one wherever an expression is",
    "conv1d": _LAYERS,
    "conv2d": _LAYERS,
    "conv2d_transpose": _LAYERS,
    "conv3d": _LAYERS,
    "count_params": "write numpy.prod(get_variable_shape(x))",
    "dropout": "write x * random_binomial(x.shape, p=keep, rng=rng) / keep",
    "elu": "write maximum(x, 0) + alpha * (exp(minimum(x, 0)) - 1)",
    "expand_dims": "write reshape(x, shape) with a 1 in the shape",
    "foldl": "write scan(step, outputs_info=start, sequences=x)[0][-1]",
    "foldr": "write scan(step, outputs_info=start, sequences=x, go_backwards=True)[0][-1]",
    "gather": "write x[indices]",
    "get_session": "there is no session; leave it out",
    "hard_sigmoid": "write clip(0.2 * x + 0.5, 0, 1)",
    "image_data_format": _LAYERS,
    "image_dim_ordering": _LAYERS,
    "in_test_phase": _NO_PHASE,
    "in_train_phase": _NO_PHASE,
    "int_shape": "write get_variable_shape(x) of a variable; other sizes are known when a function is called",
    "is_sparse": "arrays are dense; leave it out",
    "l2_normalize": "write x / sqrt(maximum(sum(square(x), axis=axis, keepdims=True), epsilon()))",
    "learning_phase": _NO_PHASE,
    "local_conv1d": _LAYERS,
    "local_conv2d": _LAYERS,
    "map_fn": "write scan(function, sequences=x)[0]",
    "moving_average_update": _UPDATES,
    "pool2d": _LAYERS,
    "pool3d": _LAYERS,
    "print_tensor": "make the expression an output of the function, and print that",
    "random_normal_variable": "write variable(random_normal(shape, mean, scale, rng=rng))",
    "random_uniform_variable": "write variable(random_uniform(shape, low, high, rng=rng))",
    "relu": "write maximum(x, 0)",
    "rnn": "write the step as a function and loop by scan",
    "separable_conv2d": _LAYERS,
    "set_learning_phase": _NO_PHASE,
    "set_session": "there is no session; leave it out",
    "softmax": "write exp(x - logsumexp(x, axis=-1, keepdims=True))",
    "softplus": "write maximum(x, 0) + log(1 + exp(-abs(x)))",
    "softsign": "write x / (1 + abs(x))",
    "sparse_categorical_crossentropy": "write -sum(one_hot(t, count) * log(p), axis=-1)",
    "switch": "write ifelse(condition, then, otherwise)",
    "tanh": "write 2 * sigmoid(2 * x) - 1",
    "temporal_padding": "concatenate with zeros",
    "to_dense": "arrays are dense; leave it out",
    "truncated_normal": "write clip(random_normal(shape, mean, stddev, rng=rng), mean - 2 * stddev, mean + 2 * stddev)",
    "update": _UPDATES,
    "update_add": _UPDATES,
    "update_sub": _UPDATES,
}
"""What a program would write instead of functions that later backends of this style have."""


def no_such_function(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that atled's own module does not have, with what to write instead where that is known."""
    if name not in INSTEAD:
        return no_such(module, "function", name, known)
    return AttributeError(four_parts(f"{module}.{name}", LATER, "", INSTEAD[name]))
