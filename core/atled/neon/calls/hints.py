"""Calls that set or tell a mode, and hints of the original's MKL and GPU classes that need nothing done here."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts, shortened


def check_compat_mode(compat_mode: Any) -> None:
    """ValueError for all but None and "caffe"."""
    if compat_mode is not None and compat_mode != "caffe":
        raise ValueError(
            four_parts(
                f"compat_mode={shortened(compat_mode)}",
                "there is no such mode",
                "",
                "use 'caffe' for the output sizes and drop-out of caffe, else None",
            )
        )


class Hints:
    """Modes, and what programs call that were written for MKL's layouts."""

    compat_mode: str | None

    def set_caffe_compat(self) -> None:
        """Output sizes of pooling, and the scale of drop-out, as in caffe from now on."""
        self.compat_mode = "caffe"

    def check_caffe_compat(self) -> bool:
        """Whether `compat_mode` is "caffe"."""
        return self.compat_mode == "caffe"

    def is_mkl(self) -> bool:
        """Whether the backend was asked for as "mkl"."""
        return False

    def convert_data(self, tensor: Any, layer_mkl: Any) -> None:
        """No effect: a tensor has one layout."""

    def clean_data(self, tensor: Any, layer_mkl: Any) -> None:
        """No effect: a tensor has one layout."""

    def allocate_new_deltas(self, delta: Any, in_shape: Any, parallelism: Any) -> Any:
        """The buffer of errors itself: layers share it here as on the original's CPU class."""
        return delta

    def allocate_new_outputs(self, layer: Any, share_output: Any) -> None:
        """No effect: a layer's outputs are where it allocated them."""

    def relu_layer(self) -> None:
        """None: a layer of rectifiers needs no object of the backend."""

    def batchnorm_layer(self, in_shape: Any = None) -> None:
        """None: a layer of batch normalization needs no object of the backend."""

    def mergesum_layer(self, layer_num: Any = None) -> None:
        """None: a sum of branches needs no object of the backend."""

    def mergebroadcast_layer(self, layer_num: Any = None) -> None:
        """None: branches side by side need no object of the backend."""

    def bibnrnn_layer(self, *arguments: Any, **keywords: Any) -> None:
        """None: a recurrent layer needs no object of the backend."""
