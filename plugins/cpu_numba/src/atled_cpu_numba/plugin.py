"""The plugin object of backend `cpu`: what it brings, and nothing that imports numba or llvmlite."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from atled.plugin import (
    API_VERSION,
    BackendInfo,
    Call,
    Context,
    Implementation,
    PluginInfo,
    Prepared,
    Registrar,
    Unusable,
    Usable,
    Warming,
    adopt_reference,
    await_imports,
    declare_setting,
    hookimpl,
    is_narrow,
    parse_choice,
    parse_text,
    setting,
)
from atled_cpu_numba.computed_by import (
    CHANNELS_BEHIND,
    COPIES,
    EITHER_LAYOUT,
    INTEGERS,
    KERNELS,
    OMITS,
    STRIDES,
    VERSIONS,
)
from atled_cpu_numba.on_demand import imported
from atled_cpu_numba.threads import parse_thread_count

__version__ = "0.1.0"

# Declared here, where discovery looks for unknown names; read by `object_files`, `pool`, `processor` and `ways`, which
# must not wait for it.
declare_setting("ATLED_CACHE_DIR", parse_text, "", "folder for compiled kernels; empty: the platform's for caches")
declare_setting("ATLED_NUM_THREADS", parse_thread_count, None, "threads for one large kernel; unset: all processors")
declare_setting(
    "ATLED_CPU_TUNE",
    parse_choice("rules", "search"),
    "rules",
    "how one of the ways to compute a convolution or a matrix product is chosen: by rules, or by a search that "
    "measures each at first use",
)


def _parse_cpu(text: str) -> str:
    from atled_cpu_numba.processor import parse_processor  # asks LLVM, for which only those wait who set it

    name = text.strip()
    if name:
        parse_processor(name)
    return name


declare_setting("ATLED_CPU", _parse_cpu, "", "processor to compile for: NAME[,+feature,-feature]; empty: this one")

await_imports("llvmlite", "numba")


_BELOW_KERNELS = -0.5  # behind kernels that take the dtype itself, before the adopted reference


def _accepts(module: str) -> Callable[[Call], bool | str]:
    def accepts(call: Call) -> bool | str:
        far = "stride" in call.attributes and imported("kernels.shared.far_windows").refusal(call)
        answer: bool | str = far or imported(module).accepts(call)
        return answer

    return accepts


def _prepare(module: str) -> Callable[[Call], Prepared]:
    def prepare(call: Call) -> Prepared:
        prepared: Prepared = imported(module).prepare(call)
        return prepared

    return prepare


# Elementwise ops as implementations: their formulas, compiled.
_FORMULA: dict[str, Any] = {
    "prepare": _prepare("elementwise"),
    "accepts": _accepts("elementwise"),
    "note": "formula",
    "op_version": None,
    "fuses": True,
    # Elsewhere LLVM chooses otherwise which products it rounds with a sum: on AArch64 also those that others read, too.
    "splits": platform.machine().lower() in ("x86_64", "amd64"),
    "integers": True,
    "strides": True,
}


def _accepts_widened(module: str) -> Callable[[Call], bool | str]:
    def accepts(call: Call) -> bool | str:
        # Asked here: most processes have no such floats, and need not import what widens them.
        if not any(desc is not None and is_narrow(desc.dtype) for desc in (*call.inputs, *call.outputs)):
            return "no float is narrower than float32"
        answer: bool | str = imported("widened").accepts(call, _accepts(module))
        return answer

    return accepts


def _prepare_widened(module: str) -> Callable[[Call], Prepared]:
    def prepare(call: Call) -> Prepared:
        prepared: Prepared = imported("widened").prepare(call, _prepare(module))
        return prepared

    return prepare


def _either_layout(_: Call) -> str:
    """Images with the channels behind take as long as others."""
    return ""


def _pooling_layout(call: Call) -> str:
    """Images with the channels behind where there is a kernel for them."""
    answer: str = imported("kernels.pooling.channel_last").layout(call)
    return answer


def _layout(op: str) -> Callable[[Call], str] | None:
    if op in EITHER_LAYOUT:
        return _either_layout
    return _pooling_layout if op in CHANNELS_BEHIND else None


class _Executor:
    """Runs native programs on the thread pool."""

    def run_program(self, rows_address: int, start: int, stop: int) -> int:
        """See `pool.run_program`, which takes this method's place when it is first called."""
        from atled_cpu_numba import pool  # loads its code: not before the first native step

        status = pool.run_program(rows_address, start, stop)
        self.run_program = pool.run_program  # type: ignore[method-assign]  # from now on without this detour
        return status

    def run_call(self, form_address: int, *values: float) -> int:
        """See `pool.run_call`, likewise."""
        from atled_cpu_numba import pool  # as above

        status = pool.run_call(form_address, *values)
        self.run_call = pool.run_call  # type: ignore[method-assign]  # as above
        return status

    def inline_call(self, cache_address: int) -> Callable[..., Any]:
        """See `inline_calls.inline_call`."""
        from atled_cpu_numba import inline_calls  # as above

        return inline_calls.inline_call(cache_address)

    def loop_kernel(self) -> tuple[int, int]:
        """See `pool.loop_kernel`."""
        from atled_cpu_numba import pool  # as above

        return pool.loop_kernel()

    def abreast_kernels(self) -> tuple[int, int, int]:
        """For steps that run at once: the kernels of `TogetherWord` and `ApartWord`, and how many threads there are."""
        from atled_cpu_numba import pool  # as above
        from atled_cpu_numba.kernels.abreast import APART, TOGETHER  # few plans need it

        threads = pool.thread_count()
        return (TOGETHER.address(), APART.address(), threads) if threads > 1 else (0, 0, 1)


class CpuPlugin:
    """Backend `cpu`: numba and LLVM kernels; ops without one are computed by their reference, and say so."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo(
            "cpu",
            ("float", "half", "double", "bf16"),
            default_priority=10,
            host=True,
            array_classes=("CpuCachedArray", "CpuArray"),
            rank=10,
        )
        return PluginInfo("cpu-numba", API_VERSION, "atled-cpu-numba", __version__, (backend,), ("cpu",))

    @hookimpl
    def atled_probe(self) -> Usable | Unusable:
        """Whether the compilers are installed, which are not imported, and the sources of kernels are files."""
        for name in ("llvmlite", "numba"):
            if importlib.util.find_spec(name) is None:
                return Unusable(f"{name} is not installed", "pip install atled-cpu-numba")
        if not os.path.isfile(__file__):
            return Unusable(
                f"{os.path.dirname(__file__)} is no folder: keys of kernels are made of their source files",
                "unpack the archive that it is in, or pip install atled-cpu-numba",
            )
        setting("ATLED_CPU_TUNE")  # a wrong word is an error here, where others than "search" mean nothing
        setting("ATLED_CPU")  # a wrong name is an error here, not a reason to compute elsewhere
        return Usable()

    @hookimpl
    def atled_facts(self) -> Mapping[str, str]:
        """What kernels are compiled for, and from what; where they are kept; how many threads compute."""
        from atled_cpu_numba.facts import facts  # asks LLVM

        return facts()

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """Hand over kernels, the formula compiler, and the adopted references of everything else."""
        for module, ops in KERNELS.items():
            for op in ops:
                registrar.implementation(
                    op,
                    "cpu",
                    _prepare(module),
                    accepts=_accepts(module),
                    prefers=0.0,  # so that only what the modules before leave over is asked about
                    note="kernel",
                    op_version=VERSIONS.get(op, 1),
                    layout=_layout(op),
                    omits=OMITS.get(module, {}).get(op, ()),
                    integers=module in INTEGERS,
                    strides=STRIDES.get(module, {}).get(op, ()),
                )
                registrar.implementation(
                    op,
                    "cpu",
                    _prepare_widened(module),
                    accepts=_accepts_widened(module),
                    prefers=_BELOW_KERNELS,
                    note="kernel in float32",
                    op_version=VERSIONS.get(op, 1),
                    omits=OMITS.get(module, {}).get(op, ()),
                    layout=_layout(op),
                )
        for op in COPIES:
            registrar.implementation(op, "cpu", **_FORMULA)
        for op in sorted({op for ops in KERNELS.values() for op in ops}.union(COPIES)):
            self._adopt(registrar, op)
        registrar.family("cpu", self._provide)
        registrar.native_executor("cpu", _Executor())

    @staticmethod
    def _adopt(registrar: Registrar, op: str) -> None:
        adopted = adopt_reference(op, "cpu")
        registrar.implementation(
            op,
            "cpu",
            adopted.prepare,
            prefers=adopted.rank,
            note=adopted.note,
            op_version=adopted.op_version,
            integers=adopted.integers,
            strides=adopted.strides,
        )

    @staticmethod
    def _provide(op: str) -> Implementation:
        from atled.plugin import op_spec  # the tables of ops are loaded by then

        if op_spec(op).program is None:
            return adopt_reference(op, "cpu")
        return Implementation(op, "cpu", **_FORMULA)

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("cpu")`; half and bf16 fall back to float, as half does in NNabla."""
        if name != "cpu":
            return None
        backends = [f"cpu:{type_config}"] + (["cpu:float"] if type_config in ("half", "bf16") else [])
        return Context(backends, "CpuCachedArray", device_id, **options)

    @hookimpl
    def atled_warm(self, backend: str, type_config: str) -> list[Warming]:
        """The written kernels that the type config can need; formulas follow from the op specs."""
        from atled_cpu_numba.catalogue import kernels_for  # imports every kernel's module

        return [
            Warming(kernel.name, kernel.address, is_ready=kernel.is_stored()) for kernel in kernels_for(type_config)
        ]


PLUGIN = CpuPlugin()
