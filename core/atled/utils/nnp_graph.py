"""Networks of `.nnp` files as graphs, for inference with networks that were trained elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from atled.arrays.operators import Calls
from atled.errors import did_you_mean, four_parts, listing
from atled.files.nnp.building import Network, build
from atled.files.nnp.files import read_files
from atled.files.nnp.network_pass import NnpNetworkPass
from atled.files.nnp.publishing import as_variables, publish
from atled.function import Function
from atled.parameter import get_parameters
from atled.variable import Variable

__all__ = ["NnpLoader", "NnpNetwork", "NnpNetworkPass"]


class NnpNetwork:
    """The graph of one network of a file; `NnpLoader.get_network` makes it.

    inputs: Variables to be fed, by name.  outputs: results, by name.  variables: all, parameters included, by name.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def name(self) -> str:
        """The network's name."""
        return self._network.name

    @property
    def batch_size(self) -> int:
        """The size that stands where the file leaves the batch size open."""
        return self._network.batch_size

    @property
    def inputs(self) -> Mapping[str, Variable]:
        """What the network is fed with, by name."""
        return self._network.inputs

    @property
    def outputs(self) -> Mapping[str, Variable]:
        """The results by name: what no function of the network reads, and what an executor of the file names."""
        return self._network.outputs

    @property
    def variables(self) -> Mapping[str, Variable]:
        """All Variables by name."""
        return self._network.variables

    @property
    def parameters(self) -> Mapping[str, Variable]:
        """The parameters by name."""
        return self._network.parameters

    @property
    def functions(self) -> Sequence[Function]:
        """The functions, each after those that it depends on."""
        found: list[Function] = []
        for output in self.outputs.values():
            output.visit(lambda function: found.append(function) if function not in found else None)
        return found

    def forward(self, clear_buffer: bool = False) -> None:
        """Compute all outputs, each function once."""
        outputs = list(self.outputs.values())
        if len(outputs) == 1:
            outputs[0].forward(clear_buffer=clear_buffer)
        elif outputs:
            Calls.apply("Sink", outputs, {}).forward(clear_buffer=clear_buffer)

    def __repr__(self) -> str:
        return f"<NnpNetwork {self.name!r}: {listing(self.inputs)} -> {listing(self.outputs)}>"


class NnpLoader:
    """The networks and parameters of a file.

    Everything is read and checked here; nothing in the file is run, and nothing outside this object is changed before
    `get_network`.

        nnp = NnpLoader("net.nnp")
        net = nnp.get_network("runtime", batch_size=1)
        net.inputs["x"].d = image
        net.forward()
        print(net.outputs["y"].d)

    Args:
        filepath: `.nnp`, `.nntxt`, `.prototxt` or `.protobuf`; by atled or by NNabla.
        scope: a dict that gets the parameters of the file by name. The networks use its other parameters, too.

    Raises:
        ValueError: unknown suffix, or a damaged file.
        OSError: the file is missing or cannot be read.
        ImportError: protobuf or h5py is missing.
    """

    def __init__(self, filepath: str | os.PathLike[str], scope: dict[str, Variable] | None = None) -> None:
        self._asked = f"NnpLoader({os.fspath(filepath)!r})"
        self._message, found = read_files(self._asked, [filepath])
        self._parameters = {} if scope is None else scope
        self._parameters.update(as_variables(found))

    def get_network_names(self) -> list[str]:
        """The names of the networks, in the order of the file."""
        return [network.name for network in self._message.network]

    def get_network(
        self, name: str, batch_size: int | None = None, callback: NnpNetworkPass | None = None
    ) -> NnpNetwork:
        """The graph of a network, on the parameters of the file, which enter the current parameter scope.

        Several graphs of one loader share them. Parameters that the file does not hold come from the current scope.

        Args:
            name: of the network.
            batch_size: what stands where the file leaves the batch size open; None: what the file says.
            callback: what to change in the network.

        Raises:
            ValueError: no such network; a function that atled does not have; a description that does not hold
                together. Nothing is changed then.
        """
        known = {network.name: network for network in self._message.network}
        if name not in known:
            raise ValueError(
                four_parts(
                    f"{self._asked}.get_network({name!r})",
                    "the file has no such network",
                    f"it has {listing(known)}",
                    did_you_mean(name, known, "use one of those"),
                )
            )
        wanted = [
            variable.variable_name
            for executor in self._message.executor
            if executor.network_name == name
            for variable in executor.output_variable
        ]
        parameters = {**get_parameters(grad_only=False), **self._parameters}
        network = build(self._asked, known[name], parameters, batch_size, wanted, callback)
        publish(self._asked, {key: value for key, value in network.parameters.items() if key in self._parameters})
        return NnpNetwork(network)


def __dir__() -> list[str]:
    return sorted(__all__)
