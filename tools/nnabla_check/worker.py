"""Runs the cases in one library: `python worker.py LIBRARY FOLDER`. The same code for both, so it runs on Python 3.10.

FOLDER/cases.json lists the cases, FOLDER/inputs/ID.npz holds their arrays, FOLDER/LIBRARY/ID.npz takes the results.
FOLDER/LIBRARY/running names the case at work: after a crash the caller knows which one it was.
"""

import contextlib
import importlib
import json
import logging
import sys
import warnings
from itertools import takewhile
from pathlib import Path

import numpy as np

_OUTPUTS = [f"y{position}" for position in range(100)]  # more than any function has


class Library:
    """The modules of one library."""

    def __init__(self, name):
        self.name = name
        self.nn = importlib.import_module(name)
        for module in ("functions", "parametric_functions", "solvers"):
            setattr(self, module, importlib.import_module(f"{name}.{module}"))


def run_case(library, case, arrays, folder):
    """The results of one case: arrays by name; `error` and `backward_error` are texts, `absent` a function's name."""
    library.nn.clear_parameters()
    return _KINDS[case["kind"]](library, case, arrays, folder)


def _function(library, case, arrays, folder):
    function = getattr(library.functions, case["function"], None)
    if function is None:
        return {"absent": np.array(case["function"])}
    inputs = [
        None if name is None else _variable(library, arrays[name], name in case["grad"]) for name in case["inputs"]
    ]
    results = {}
    try:
        made = function(*inputs, **case["arguments"])
        outputs = made if isinstance(made, tuple) else (made,)
        for _ in range(case["forwards"]):
            library.functions.sink(*outputs).forward() if len(outputs) > 1 else outputs[0].forward()
    except Exception as error:
        return {"error": _in_words(error)}
    for position, output in enumerate(outputs):
        results[f"y{position}"] = np.array(output.d)
    for position, variable in enumerate(inputs):
        if variable is not None and position in case["changes"]:
            results[f"x{position}"] = np.array(variable.d)
    if case["grad"]:
        results.update(_gradients(library, case, inputs, outputs))
    if case["saved"]:  # last, since NNabla sets up again what it saves, and forgets what forward has found
        _save_function(library, case, inputs, outputs, folder)
    return results


def _save_function(library, case, inputs, outputs, folder):
    """Writes a network of the call alone, or why it cannot be saved."""
    path = folder / library.name / case["id"]
    names = {name: variable for name, variable in zip(case["inputs"], inputs, strict=True) if name is not None}
    network = {
        "name": "net",
        "batch_size": 1,
        "outputs": {f"y{position}": output for position, output in enumerate(outputs)},
        "names": names,
    }
    executor = {"name": "runtime", "network": "net", "data": list(names), "output": list(network["outputs"])}
    save = importlib.import_module(f"{library.name}.utils.save").save
    try:
        save(f"{path}.nntxt", {"networks": [network], "executors": [executor]}, variable_batch_size=False)
    except Exception as error:
        Path(f"{path}.refused").write_text(_in_words(error))


def _load_function(library, case, arrays, folder):
    """Runs the network of one call that the other library wrote."""
    other = "atled" if library.name == "nnabla" else "nnabla"
    path = folder / other / case["of"]
    refused = Path(f"{path}.refused")
    if refused.exists():
        return {"error": np.array(f"{other} does not save it: {refused.read_text()}")}
    graphs = importlib.import_module(f"{library.name}.utils.nnp_graph")
    network = graphs.NnpLoader(f"{path}.nntxt").get_network("net", batch_size=1)
    for name, array in arrays.items():
        network.inputs[name].d = array.astype(np.float32) if array.dtype.kind == "f" else array
    outputs = list(takewhile(lambda output: output is not None, map(network.variables.get, _OUTPUTS)))
    (library.functions.sink(*outputs) if len(outputs) > 1 else outputs[0]).forward()
    return {f"y{position}": np.array(output.d) for position, output in enumerate(outputs)}


def _gradients(library, case, inputs, outputs):
    wanted = [(i, v) for i, v in enumerate(inputs) if v is not None and case["inputs"][i] in case["grad"]]
    weights = [np.asarray(np.random.RandomState(7 + i).randn(*output.shape)) for i, output in enumerate(outputs)]
    try:
        for _, variable in wanted:
            variable.g = 0
        if len(outputs) == 1:
            outputs[0].backward(np.asarray(weights[0], np.float32))
        else:
            f = library.functions
            parts = []
            for output, weight in zip(outputs, weights, strict=True):
                factor = _variable(library, weight, False)
                parts.append(f.sum(f.mul2(output, factor)))
            total = parts[0]
            for part in parts[1:]:
                total = f.add2(total, part)
            total.forward()
            total.backward()
        return {f"g{i}": np.array(variable.g) for i, variable in wanted}
    except Exception as error:
        return {"backward_error": _in_words(error)}


def _solver(library, case, arrays, folder):
    w = _variable(library, arrays["w"], True)
    solver = getattr(library.solvers, case["function"])(**case["arguments"])
    solver.set_parameters({"w": w})
    steps = []
    for step, gradient in enumerate(arrays["g"]):
        solver.zero_grad()
        if step == 10:
            solver.set_learning_rate(solver.learning_rate() / 2)
        if step != case["skipped"]:
            w.g = gradient
        if case["weight_decay"]:
            solver.weight_decay(case["weight_decay"])
        solver.update()
        steps.append(np.array(w.d))
    return {f"w after step {i + 1}": value for i, value in enumerate(steps)}


def _parametric(library, case, arrays, folder):
    """Parameters that a parametric function makes, then its values on parameters given by the case."""
    try:
        function = getattr(library.parametric_functions, case["function"])
        x = _variable(library, arrays["x"], True)
        arguments = dict(case["arguments"])
        if "rng" in arguments:  # then both start from the same values
            arguments["rng"] = np.random.RandomState(arguments["rng"])
        states = [_variable(library, arrays[name], True) for name in ("h", "c") if name in arrays]
        made = function(x, *states, *map(_tuples, case["positional"]), **arguments)
        parameters = library.nn.get_parameters(grad_only=False)
        results = {"order": np.array(" ".join(parameters))}
        for key, parameter in parameters.items():
            rng = np.random.RandomState(sum(map(ord, key)))
            results[f"shape of {key}"] = np.array(parameter.shape)
            results[f"need_grad of {key}"] = np.array(bool(parameter.need_grad))
            if "rng" in arguments:
                results[f"start of {key}"] = np.array(parameter.d)
            # Those that the function itself computes stay as they are; `I` is a weight in some, a mark in others.
            if key.split("/")[-1] not in ("Wb", "alpha", "W_q", "b_q", "" if parameter.need_grad else "I"):
                parameter.d = rng.rand(*parameter.shape) + 0.1
        outputs = made if isinstance(made, tuple) else (made,)
        for position, output in enumerate(outputs):
            output.forward()
            results[f"y{position}"] = np.array(output.d)
        return results
    except Exception as error:
        return {"error": _in_words(error)}


def _initializer(library, case, arrays, folder):
    module = importlib.import_module(f"{library.name}.initializer")
    try:
        rng = {"rng": np.random.RandomState(313)} if case["drawn"] else {}
        made = getattr(module, case["function"])(*map(_tuples, case["positional"]), **rng)
        values = np.array(made(tuple(case["shape"])) if case["shape"] else made)
        return {"y0": values}
    except Exception as error:
        return {"error": _in_words(error)}


def _save(library, case, arrays, folder):
    """Writes parameters, of kinds that differ, into a file of this library."""
    nn = library.nn
    for key, need_grad in case["need_grad"].items():
        parameter = nn.parameter.get_parameter_or_create(key, arrays[key].shape, need_grad=need_grad)
        parameter.d = arrays[key]
    with nn.parameter_scope(case["scope"]) if case["scope"] else contextlib.nullcontext():
        nn.save_parameters(str(folder / f"{library.name}{case['suffix']}"))
    return {"y0": np.zeros(())}


def _load(library, case, arrays, folder):
    """Reads the file that the other library wrote; results are what it holds."""
    nn = library.nn
    other = "atled" if library.name == "nnabla" else "nnabla"
    nn.load_parameters(str(folder / f"{other}{case['suffix']}"))
    found = nn.get_parameters(grad_only=False)
    results = {f"y{i} {key}": np.array(parameter.d) for i, (key, parameter) in enumerate(found.items())}
    for key, parameter in found.items():
        results[f"need_grad of {key}"] = np.array(bool(parameter.need_grad))
    return results


def _save_network(library, case, arrays, folder):
    """Writes a network with its parameters as .nnp; results are its outputs."""
    rng = np.random.RandomState(11)
    nn, f, pf = library.nn, library.functions, library.parametric_functions
    x = _variable(library, arrays["x"], False)
    with nn.parameter_scope("net"):
        h = pf.convolution(x, 4, (3, 3), pad=(1, 1), stride=(2, 2), name="c1")
        h = pf.batch_normalization(h, batch_stat=False, name="b1")
        h = f.max_pooling(f.elu(h), (2, 2))
        h = f.concatenate(f.tanh(h), f.sigmoid(h) * 2.0 - 1.0, axis=1)
        h = f.reshape(h, (h.shape[0], -1))
        h = f.softmax(pf.affine(h, 5, name="a1"))
        y = f.transpose(f.broadcast(f.reshape(h, (h.shape[0], 5, 1)), (h.shape[0], 5, 3)), (0, 2, 1))
    for parameter in nn.get_parameters(grad_only=False).values():
        parameter.d = rng.rand(*parameter.shape) + 0.1
    y.forward()
    save = importlib.import_module(f"{library.name}.utils.save").save
    network = {"name": "net", "batch_size": x.shape[0], "outputs": {"y": y}, "names": {"x": x}}
    executor = {"name": "runtime", "network": "net", "data": ["x"], "output": ["y"]}
    save(str(folder / f"{library.name}.nnp"), {"networks": [network], "executors": [executor]})
    return {"y0": np.array(y.d)}


def _load_network(library, case, arrays, folder):
    """Runs the network that the other library wrote, with the batch size of the file and with another one."""
    other = "atled" if library.name == "nnabla" else "nnabla"
    graphs = importlib.import_module(f"{library.name}.utils.nnp_graph")
    results = {}
    for count in case["batch_sizes"]:
        # Anew for each: a second network of one loader keeps the batch size of the first in NNabla's reshape.
        loader = graphs.NnpLoader(str(folder / f"{other}.nnp"))
        network = loader.get_network(loader.get_network_names()[0], batch_size=count)
        network.inputs["x"].d = arrays["x"][:count]
        network.outputs["y"].forward()
        results[f"y{count}"] = np.array(network.outputs["y"].d)
    return results


_KINDS = {
    "function": _function,
    "solver": _solver,
    "parametric": _parametric,
    "initializer": _initializer,
    "save": _save,
    "load": _load,
    "save network": _save_network,
    "load network": _load_network,
    "load function": _load_function,
}


def _tuples(value):
    """A value from JSON, with tuples where that has lists; NNabla adds some to tuples."""
    return tuple(value) if isinstance(value, list) else value


def _variable(library, array, need_grad):
    variable = library.nn.Variable(array.shape, need_grad=need_grad)
    variable.d = array.astype(np.float32) if array.dtype.kind == "f" else array
    return variable


def _in_words(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"


def main(library_name, folder):
    """Run all cases that have no result yet."""
    # NNabla reports what it does through a logger, and warns of what it has deprecated since 1.0.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    library = Library(library_name)
    results_folder = folder / library_name
    for case in json.loads((folder / "cases.json").read_text()):
        path = results_folder / f"{case['id']}.npz"
        if path.exists():
            continue
        (results_folder / "running").write_text(case["id"])
        with np.load(folder / "inputs" / f"{case['id']}.npz") as file:
            arrays = dict(file)
        try:
            results = run_case(library, case, arrays, folder)
        except Exception as error:
            results = {"error": _in_words(error)}
        np.savez(path, **results)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
