"""Loading networks from files, with their parameters and executors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from atled.arrays.operators import Calls
from atled.errors import did_you_mean, four_parts
from atled.files.messages import Message
from atled.files.nnp.building import Network, build
from atled.files.nnp.files import read_files
from atled.files.nnp.publishing import as_variables, publish
from atled.files.parameters import take
from atled.parameter import get_parameters
from atled.variable import Variable
from atled_contexts import Context, get_current_context

__all__ = ["Executor", "Loaded", "LoadedNetwork", "LoadedVariable", "load"]


class LoadedVariable:
    """A Variable of a loaded network with its name."""

    def __init__(self, name: str, variable: Variable) -> None:
        self.name = name
        self.variable_instance = variable

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis."""
        return self.variable_instance.shape

    def __repr__(self) -> str:
        return f"<{self.name!r}: {self.variable_instance!r}>"


class LoadedNetwork:
    """A network: `variables`, `inputs`, `outputs` and `parameters` by name, each with its `variable_instance`."""

    def __init__(self, network: Network) -> None:
        self.name = network.name
        self.batch_size = network.batch_size
        self.variables = {name: LoadedVariable(name, variable) for name, variable in network.variables.items()}
        self.inputs = {name: self.variables[name] for name in network.inputs}
        self.outputs = {name: self.variables[name] for name in network.outputs}
        self.parameters = {name: self.variables[name] for name in network.parameters}


class Executor:
    """An executor of a network: which Variables are fed, and which are the results.

    dataset_assign: per input the name of its data.  output_assign: per result its type and the name of its data.
    forward_target: a Variable whose forward computes all results.
    """

    def __init__(self, asked: str, message: Message, network: LoadedNetwork) -> None:
        self.name: str = message.name
        self.network = network
        self.num_evaluations: int = message.num_evaluations
        self.repeat_evaluation_type: str = message.repeat_evaluation_type
        self.need_back_propagation: bool = message.need_back_propagation
        self.no_image_normalization: bool = message.no_image_normalization
        self._asked = f"{asked}, executor {message.name!r}"
        self.dataset_assign = {self._find(item.variable_name): item.data_name for item in message.data_variable}
        self.output_assign = {
            self._find(item.variable_name): [item.type, item.data_name] for item in message.output_variable
        }
        results = [variable.variable_instance for variable in self.output_assign]
        self.forward_target: Variable | None = Calls.apply("Sink", results, {}) if results else None

    def _find(self, name: str) -> LoadedVariable:
        known = self.network.variables
        if name not in known:
            raise ValueError(
                four_parts(
                    self._asked,
                    f"network {self.network.name!r} has no variable {name!r}",
                    "",
                    did_you_mean(name, known, "save the network again"),
                )
            )
        return known[name]

    def forward(self, **data: Any) -> dict[str, Any]:
        """Results by the names of their data, as NumPy arrays; data: arrays by the names of theirs.

        Raises TypeError unless there is an array for each input.
        """
        names = {data_name: variable for variable, data_name in self.dataset_assign.items()}
        if set(data) != set(names):
            raise TypeError(
                four_parts(
                    f"{self._asked}.forward({', '.join(data)})", f"its inputs are {', '.join(names)}", "", "pass those"
                )
            )
        for name, array in data.items():
            names[name].variable_instance.d = array
        if self.forward_target is not None:
            self.forward_target.forward()
        return {name: variable.variable_instance.d.copy() for variable, (_, name) in self.output_assign.items()}


class Loaded:
    """What `load` found.

    networks, executors: by name.  default_context: the Context in force; the file names one of the machine
        that wrote it.  proto: the whole description as a message, datasets, optimizers and monitors included.
    """

    def __init__(self, proto: Message) -> None:
        self.proto = proto
        self.default_context: Context = get_current_context()
        self.networks: Mapping[str, LoadedNetwork] = {}
        self.executors: Mapping[str, Executor] = {}


def load(
    filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    prepare_data_iterator: bool = False,
    batch_size: int | None = None,
    exclude_parameter: bool = False,
    parameter_only: bool = False,
) -> Loaded:
    """Load networks with their parameters, for inference.

    The parameters enter the current parameter scope. Everything is checked before anything is changed, and nothing in
    the files is run.

    Args:
        filenames: one path or several: `.nnp`, `.nntxt`, `.prototxt`, `.protobuf`, `.h5`.
        prepare_data_iterator: refused if True: datasets are described in `proto`, but not opened.
        batch_size: what stands where a file leaves the batch size open; None: what the file says.
        exclude_parameter: leaves the files' parameters aside; networks take those of the current scope.
        parameter_only: loads the parameters, as `load_parameters` does, and no network.

    Raises:
        ValueError: unknown suffix, a damaged file, or a network that atled cannot build.
        OSError: a file is missing or cannot be read.
        ImportError: protobuf or h5py is missing.
    """
    paths = [filenames] if isinstance(filenames, (str, os.PathLike)) else list(filenames)
    asked = f"load({', '.join(repr(os.fspath(path)) for path in paths)})"
    if prepare_data_iterator:
        raise ValueError(
            four_parts(
                f"{asked}, prepare_data_iterator=True",
                "networks are loaded for inference, their datasets are not opened",
                "",
                "leave it out, and make iterators by atled.utils.data_iterator",
            )
        )
    message, found = read_files(asked, paths)
    loaded = Loaded(message)
    if parameter_only:
        take(asked, found)
        return loaded
    own = {} if exclude_parameter else as_variables(found)
    parameters = {**get_parameters(grad_only=False), **own}
    loaded.networks = {
        network.name: LoadedNetwork(build(asked, network, parameters, batch_size, _results_of(network, message)))
        for network in message.network
    }
    loaded.executors = {
        executor.name: Executor(asked, executor, _network_of(executor, asked, loaded.networks))
        for executor in message.executor
    }
    publish(asked, own)
    return loaded


def _results_of(network: Message, message: Message) -> list[str]:
    """The names of the variables that executors take from a network."""
    executors = [executor for executor in message.executor if executor.network_name == network.name]
    return [variable.variable_name for executor in executors for variable in executor.output_variable]


def _network_of(executor: Message, asked: str, networks: Mapping[str, LoadedNetwork]) -> LoadedNetwork:
    if executor.network_name not in networks:
        raise ValueError(
            four_parts(
                f"{asked}, executor {executor.name!r}",
                f"there is no network {executor.network_name!r}",
                "",
                did_you_mean(executor.network_name, networks, "load the file with the network as well"),
            )
        )
    return networks[executor.network_name]


def __dir__() -> list[str]:
    return sorted(__all__)
