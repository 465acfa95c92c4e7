"""Saving networks with their parameters, in NNabla's formats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from atled.errors import four_parts, listing
from atled.files.hdf5 import h5_image
from atled.files.nnp.archive import NETWORK_ENTRY, PARAMETER_ENTRY, VERSION, VERSION_ENTRY, archive_image
from atled.files.nnp.contents import contents_message
from atled.files.parameters import write_beside
from atled.files.protobuf import as_text, binary_image, parameters_message, serialized
from atled.parameter import get_parameters
from atled.variable import Variable

__all__ = ["save"]

_TEXT = (".nntxt", ".prototxt")
_SUFFIXES = (".nnp", *_TEXT, ".protobuf")
_PARAMETER_FORMATS = {".h5": h5_image, ".protobuf": binary_image}


def save(
    filename: str | os.PathLike[str],
    contents: Mapping[str, Any],
    include_params: bool = False,
    variable_batch_size: bool = True,
    extension: str = ".nnp",
    parameters: Mapping[str, Variable] | None = None,
    parameter_format: str = ".h5",
) -> None:
    """Write networks, their executors and their parameters to a file.

    `.nnp`: an archive of the description and the parameters. `.nntxt`, `.prototxt`: the description as text;
    `.protobuf`: the same in binary form; both with the parameters if `include_params`.

    It is written to a temporary file and renamed: where anything fails, an earlier file of that name stays.

    Args:
        filename: path of the file; its suffix says the format.
        contents: a dict with
            "networks": list of dicts with "name", "batch_size" (count of samples that the graph was made for),
                "outputs" (dict of name: Variable) and "names" (dict of name: Variable, the inputs above all);
            "executors": list of dicts with "name", "network", and optionally "data" and "output" (lists of names);
            and what a training needs: "global_config" ("default_context"), "training_config" ("max_epoch",
            "iter_per_epoch", "save_best"), "datasets", "optimizers", "monitors".
        include_params: whether a description has the parameters as well; `.nnp` always has.
        variable_batch_size: leaves sizes that equal the batch size open (axis 0 of what depends on the inputs, and of
            shapes in reshape and broadcast).
        extension: the format where filename has no suffix.
        parameters: those to save, by name; None: all of the current scope.
        parameter_format: of the parameters in an archive, ".h5" or ".protobuf".

    Raises:
        ValueError, TypeError: contents that do not hold together, an unknown format, or a function or attribute that
            NNabla's format does not have.
        OSError: the folder or disk does not take the file.
        ImportError: protobuf or h5py is missing.
    """
    path = os.fspath(filename)
    asked = f"save({path!r})"
    suffix = (os.path.splitext(path)[1] or extension).lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            four_parts(
                asked, f"unknown format {suffix!r}", f"known: {listing(_SUFFIXES)}", "use a name that ends in .nnp"
            )
        )
    if parameter_format not in _PARAMETER_FORMATS:
        raise ValueError(
            four_parts(
                f"{asked}, parameter_format={parameter_format!r}",
                "unknown format",
                f"known: {listing(_PARAMETER_FORMATS)}",
                "leave it out",
            )
        )
    root = contents_message(asked, contents, variable_batch_size)
    saved = get_parameters(grad_only=False) if parameters is None else parameters
    if suffix == ".nnp":
        image = archive_image(
            {
                VERSION_ENTRY: VERSION.encode(),
                NETWORK_ENTRY: as_text(asked, root),
                f"{PARAMETER_ENTRY}{parameter_format}": bytes(_PARAMETER_FORMATS[parameter_format](asked, dict(saved))),
            },
        )
    else:
        if include_params:
            root.MergeFrom(parameters_message(asked, saved))
        image = as_text(asked, root) if suffix in _TEXT else serialized(asked, root)
    write_beside(asked, path, image)


def __dir__() -> list[str]:
    return sorted(__all__)
