"""Backend: what programs written for neon compute with; Tensor and OpTreeNode, which it makes."""

from __future__ import annotations

import operator
from typing import Any, ClassVar, NoReturn

import numpy as np

from atled.devices import clear_kept_memory
from atled.errors import did_you_mean, four_parts, listing, shortened
from atled.neon.backends.arguments import declared_arguments
from atled.neon.backends.contexts import check_datatype
from atled.neon.calls.activations import ActivationCalls
from atled.neon.calls.allocation import AllocationCalls
from atled.neon.calls.bias import BiasCalls
from atled.neon.calls.both_directions import BothDirectionCalls
from atled.neon.calls.branches import BranchCalls
from atled.neon.calls.copying import CopyCalls
from atled.neon.calls.distribution import DistributionCalls
from atled.neon.calls.gated_units import GatedUnitCalls
from atled.neon.calls.hints import Hints, check_compat_mode
from atled.neon.calls.histograms import HistogramCalls
from atled.neon.calls.images import ImageCalls
from atled.neon.calls.long_memory import LongMemoryCalls
from atled.neon.calls.lookup import LookupCalls
from atled.neon.calls.marks import Block, Marks
from atled.neon.calls.matrix import MatrixCalls
from atled.neon.calls.normalization import NormalizationCalls
from atled.neon.calls.random import RandomCalls
from atled.neon.calls.recurrent import RecurrentCalls
from atled.neon.calls.reductions import ReductionCalls
from atled.neon.calls.sequences import SequenceCalls
from atled.neon.calls.trees import TreeCalls
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.rows import OpCollection
from atled.neon.trees.tensor import Tensor
from atled_contexts import Context, backend_info, get_current_context

__all__ = ["Backend", "Block", "OpCollection", "OpTreeNode", "Tensor"]


class Backend(
    AllocationCalls,
    CopyCalls,
    HistogramCalls,
    TreeCalls,
    ReductionCalls,
    RandomCalls,
    Marks,
    Hints,
    DistributionCalls,
    MatrixCalls,
    NormalizationCalls,
    RecurrentCalls,
    LongMemoryCalls,
    GatedUnitCalls,
    SequenceCalls,
    LookupCalls,
    BiasCalls,
    ActivationCalls,
    BranchCalls,
    BothDirectionCalls,
    ImageCalls,
):
    """A place to compute: it makes tensors, and runs op-trees and layer calls on them.

    A subclass that has a `backend_name` is entered in `backends` when it is defined; `gen_backend` finds it by it.

    Attributes:
        backends: registered classes by name.
        backend_name: the name it was registered under; else that of the first backend of its Context.
        tensor_cls: class of the tensors it makes.
        context: who computes, in order of preference.
        device_type: 0 where it computes in host memory, else 1.
        default_dtype: of tensors for which none is given.
        bsz: batch size, the last axis of what `iobuf` makes; to be set. ValueError: it is no count.
        rng: the numpy RandomState of masks and initial values; init_rng_state: its state at construction.
        compat_mode: None, or "caffe" for the output sizes and drop-out of caffe.
        deterministic: whether it was given a seed.
        closed: whether it was cleaned up; its tensors take part in nothing then.
    """

    backends: ClassVar[dict[str, type[Backend]]] = {}
    backend_name: str = ""
    tensor_cls: type[Tensor] = Tensor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The class's own: one that inherits a name would take the place of its parent.
        if cls.__dict__.get("backend_name"):
            Backend.backends[cls.backend_name] = cls

    def __init__(
        self,
        rng_seed: int | None = None,
        default_dtype: Any = np.float32,
        compat_mode: str | None = None,
        deterministic: bool | None = None,
        *,
        context: Context | None = None,
    ) -> None:
        """A backend.

        rng_seed: of `rng`; None for fresh entropy.  default_dtype: float16, float32 or float64.
        compat_mode: None or "caffe".  deterministic: no effect, as in neon since 2.0: `gen_backend` warns of it.
        context: None for the Context in force.

        ValueError: another dtype or mode, or a seed that numpy's RandomState refuses.
        """
        check_compat_mode(compat_mode)
        self.default_dtype = check_datatype(default_dtype)
        self.context = (get_current_context() if context is None else context).frozen
        self.gen_rng(rng_seed)
        preferred = self.context.backends[0][0]
        self.device_type = 0 if backend_info(preferred).host else 1
        self.backend_name = type(self).backend_name or preferred
        self.bsz = 0
        self.compat_mode = compat_mode
        self.deterministic = rng_seed is not None
        self.closed = False

    def __reduce__(self) -> NoReturn:
        """TypeError: a backend is neither pickled nor copied."""
        asked, wrong = f"a pickle or a copy by `copy` of {self!r}", "it is a place to compute, with memory and plans"
        raise TypeError(four_parts(asked, wrong, "", "make one by gen_backend where it is needed"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.context!r})"

    @property
    def bsz(self) -> int:
        """See the class."""
        return self._batch_size

    @bsz.setter
    def bsz(self, value: int) -> None:
        self._batch_size = _checked_batch_size(value)

    @staticmethod
    def backend_choices() -> list[str]:
        """Names of the registered classes, sorted."""
        return sorted(Backend.backends)

    @staticmethod
    def allocate_backend(name: str, **kargs: Any) -> Backend:
        """A backend of the class registered under a name.

        kargs: for its constructor; of those that `gen_backend` hands on, a class gets what it declares.
        ValueError: an unknown name.  TypeError: an argument that the class does not take.
        """
        registered = Backend.backends.get(name)
        if registered is None:
            known = Backend.backend_choices()
            raise ValueError(
                four_parts(
                    f"allocate_backend({name!r})",
                    "no class is registered under that name",
                    f"registered: {listing(known)}",
                    did_you_mean(name, known, "use one of these, or define a subclass of Backend with a backend_name"),
                )
            )
        return registered(**declared_arguments(registered, kargs))

    def cleanup_backend(self) -> None:
        """Close it: its tensors are refused in operations from now on, and memory kept for later ones is given back.

        A second time it does nothing.
        """
        if not self.closed:
            self.closed = True
            self._kept_calls.clear()
            self._histograms = self._histogram_rows = None
            clear_kept_memory(self.context)


def _checked_batch_size(value: Any) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        asked, remedy = (
            f"a batch_size (be.bsz) of {shortened(value)}",
            "use a whole number; 0 where be.bsz is set later",
        )
        raise ValueError(four_parts(asked, "it is no count of examples", "", remedy))
    return count
