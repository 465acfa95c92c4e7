"""The contents given to `save`, as a message: networks, executors, and the settings of a training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atled.errors import did_you_mean, four_parts, listing
from atled.files.messages import Message, new_message
from atled.files.nnp.building import PARAMETER
from atled.files.nnp.describing import describe
from atled_contexts import Context

_SETTINGS = ("no_image_normalization", "num_evaluations", "repeat_evaluation_type", "need_back_propagation")


def contents_message(asked: str, contents: Mapping[str, Any], variable_batch_size: bool) -> Message:
    """The message of a file with these contents, parameters left out.

    Raises ValueError or TypeError for contents that do not hold together.
    """
    if not isinstance(contents, Mapping):
        raise TypeError(four_parts(asked, f"contents is {type(contents).__name__}", "", "pass a dict"))
    for key in contents:
        if key not in _WRITERS:
            remedy = did_you_mean(str(key), _WRITERS, "leave it out")
            raise ValueError(
                four_parts(f"{asked}, contents[{key!r}]", "unknown", f"known: {listing(_WRITERS)}", remedy)
            )
    root = new_message(asked, "NNablaProtoBuf")
    for key, write in _WRITERS.items():  # networks before what refers to them
        if key in contents:
            write(asked, root, contents[key], variable_batch_size)
    return root


def _item(asked: str, given: Mapping[str, Any], key: str) -> Any:
    if key not in given:
        raise ValueError(four_parts(asked, f"{key!r} is missing", f"given: {listing(map(str, given))}", f"add {key!r}"))
    return given[key]


def _write_context(asked: str, root: Message, config: Mapping[str, Any], _: bool) -> None:
    context: Context = _item(f"{asked}, contents['global_config']", config, "default_context")
    message = root.global_config.default_context
    message.backends.extend(context.backend)
    message.array_class = context.array_class
    message.device_id = context.device_id


def _write_training(asked: str, root: Message, config: Mapping[str, Any], _: bool) -> None:
    where = f"{asked}, contents['training_config']"
    root.training_config.max_epoch = _item(where, config, "max_epoch")
    root.training_config.iter_per_epoch = _item(where, config, "iter_per_epoch")
    root.training_config.save_best = config.get("save_best", False)


def _write_networks(asked: str, root: Message, networks: Sequence[Mapping[str, Any]], variable: bool) -> None:
    for network in networks:
        where = f"{asked}, contents['networks']"
        describe(
            asked,
            root.network.add(),
            _item(where, network, "name"),
            int(_item(where, network, "batch_size")),
            _item(where, network, "outputs"),
            network.get("names", {}),
            variable,
        )


def _write_datasets(asked: str, root: Message, datasets: Sequence[Mapping[str, Any]], _: bool) -> None:
    for dataset in datasets:
        where = f"{asked}, contents['datasets']"
        message = root.dataset.add(name=_item(where, dataset, "name"), uri=_item(where, dataset, "uri"))
        message.cache_dir = dataset.get("cache_dir") or ""
        message.variable.extend(_item(where, dataset, "variables"))
        message.shuffle = dataset.get("shuffle", False)
        message.batch_size = dataset.get("batch_size", 0)
        message.no_image_normalization = dataset.get("no_image_normalization", False)


def _write_optimizers(asked: str, root: Message, optimizers: Sequence[Mapping[str, Any]], _: bool) -> None:
    for optimizer in optimizers:
        where = f"{asked}, contents['optimizers']"
        network = _network(where, root, optimizer)
        solver = _item(where, optimizer, "solver")
        message = root.optimizer.add(name=_item(where, optimizer, "name"), network_name=network.name)
        message.dataset_name.extend(_datasets(where, root, optimizer))
        message.solver.type = solver.name
        settings = getattr(message.solver, f"{solver.name.lower()}_param")
        settings.SetInParent()
        for name, value in solver.info.items():
            setattr(settings, name, value)
        for name in ("weight_decay", "lr_decay", "lr_decay_interval"):
            if name in optimizer:
                setattr(message.solver, name, optimizer[name])
        message.update_interval = optimizer.get("update_interval", 1)
        _write_variables(message, optimizer)
        for name in optimizer.get("loss_variables", _results(network)):
            message.loss_variable.add(variable_name=name)
        trained = solver.get_parameters()
        for name in _parameters(network):
            message.parameter_variable.add(variable_name=name, learning_rate_multiplier=float(name in trained))


def _write_monitors(asked: str, root: Message, monitors: Sequence[Mapping[str, Any]], _: bool) -> None:
    for monitor in monitors:
        where = f"{asked}, contents['monitors']"
        network = _network(where, root, monitor)
        message = root.monitor.add(name=_item(where, monitor, "name"), network_name=network.name)
        message.dataset_name.extend(_datasets(where, root, monitor))
        _write_variables(message, monitor)
        for name in monitor.get("monitor_variables", _results(network)):
            message.monitor_variable.add(variable_name=name, type="Error")


def _write_executors(asked: str, root: Message, executors: Sequence[Mapping[str, Any]], _: bool) -> None:
    for executor in executors:
        name = _item(f"{asked}, contents['executors']", executor, "name")
        where = f"{asked}, executor {name!r}"
        network = _network(where, root, executor)
        known = [variable.name for variable in network.variable]
        message = root.executor.add(name=name, network_name=network.name)
        for setting in _SETTINGS:
            if setting in executor:
                setattr(message, setting, executor[setting])
        other_names = executor.get("remp", {})  # so spelled in NNabla
        for key, field, default in (("data", "data_variable", _fed), ("output", "output_variable", _results)):
            for variable in executor.get(key, default(network)):
                if variable not in known:
                    raise ValueError(
                        four_parts(
                            f"{where}, {key}",
                            f"network {network.name!r} has no variable {variable!r}",
                            "",
                            did_you_mean(variable, known, "name it in the network's `names` or `outputs`"),
                        )
                    )
                data_name = other_names.get(variable, variable)
                getattr(message, field).add(variable_name=variable, data_name=data_name)
        for variable in _parameters(network):
            message.parameter_variable.add(variable_name=variable)
        for variable in executor.get("generator_variables", []):
            message.generator_variable.add(variable_name=variable, type="Constant")


def _write_variables(message: Message, given: Mapping[str, Any]) -> None:
    for name, data_name in given.get("data_variables", {}).items():
        message.data_variable.add(variable_name=name, data_name=data_name)
    for name in given.get("generator_variables", []):
        message.generator_variable.add(variable_name=name, type="Constant")


def _network(where: str, root: Message, given: Mapping[str, Any]) -> Message:
    name = _item(where, given, "network")
    known = {network.name: network for network in root.network}
    if name not in known:
        raise ValueError(
            four_parts(
                where, f"there is no network {name!r}", "", did_you_mean(name, known, "add it to contents['networks']")
            )
        )
    return known[name]


def _datasets(where: str, root: Message, given: Mapping[str, Any]) -> list[str]:
    names = given.get("dataset", ())
    known = [dataset.name for dataset in root.dataset]
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            remedy = did_you_mean(name, known, "add it to contents['datasets']")
            raise ValueError(four_parts(where, f"there is no dataset {name!r}", "", remedy))
    return wanted


def _parameters(network: Message) -> list[str]:
    return [variable.name for variable in network.variable if variable.type == PARAMETER]


def _fed(network: Message) -> Iterable[str]:
    """The inputs of a network."""
    made = {name for function in network.function for name in function.output}
    return [v.name for v in network.variable if v.type != PARAMETER and v.name not in made]


def _results(network: Message) -> Iterable[str]:
    """The outputs of a network."""
    read = {name for function in network.function for name in function.input}
    # Results without a Variable have names that start with @.
    return [
        name
        for function in network.function
        for name in function.output
        if name not in read and not re.match("@", name)
    ]


_WRITERS: dict[str, Callable[[str, Message, Any, bool], None]] = {
    "global_config": _write_context,
    "training_config": _write_training,
    "networks": _write_networks,
    "datasets": _write_datasets,
    "optimizers": _write_optimizers,
    "monitors": _write_monitors,
    "executors": _write_executors,
}
