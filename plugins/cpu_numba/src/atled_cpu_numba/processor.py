"""The processor that kernels are compiled for: this machine's, or the one that ATLED_CPU names.

LLVM is asked for everything: which names it knows, which features a processor has, and whether this machine executes
them all. It has no function for the second; but it inlines a function into another one only if the processor of the
caller has all features that the one of the callee has, and that can be looked at. What it says is kept (`answers`), so
that a process that compiles nothing need not load it. The features by which kernels are chosen this machine's processor
says itself (`cpuid`), so that a first process that compiles nothing need not, either.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from atled.plugin import SettingError, did_you_mean, four_parts, listing, nearest
from atled_cpu_numba import answers, cpuid
from atled_cpu_numba.machine_kind import machine_kind

# llvmlite.binding is imported inside the functions: it takes 20 ms, and importing the plugin needs none of it.

# LLVM's tuning; which instructions a processor has does not depend on it. LLVM halves the vectors of loops on all of
# Intel's: the first ones with AVX-512 were slowed down by whole ones. Those with VBMI2 are not; a fused chain of
# functions takes 0.75 of the time there.
_HALVED_VECTORS, _WHOLE_VECTORS_BY = "prefer-256-bit", "avx512vbmi2"

# Levels of x86-64 beside what all have, and the features of each besides those of the one before: System V Application
# Binary Interface, AMD64 Architecture Processor Supplement, table 3.1. Levels of instructions for machines of 2009,
# 2013 and 2017.
_LEVELS = {
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

HOST = "host"  # as a name in ATLED_CPU: this machine's processor, for features to be added or taken away


class ProcessorError(RuntimeError):
    """What is compiled for the processor that ATLED_CPU names cannot be executed on this machine."""


class Processor:
    """One that kernels are compiled for.

    name: LLVM's, such as "znver4".  features: what it has, and has not, besides those of its name: "+avx2,-sse4a".
    Two are equal that have the same; it unpacks into both.
    """

    __slots__ = ("_said",)

    def __init__(self, name: str, features: str) -> None:
        self._said = name, features

    @property
    def name(self) -> str:
        """LLVM's name."""
        return self._words()[0]

    @property
    def features(self) -> str:
        """Those besides the ones of its name."""
        return self._words()[1]

    def _words(self) -> tuple[str, str]:
        return self._said

    def __iter__(self) -> Iterator[str]:
        return iter(self._words())

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Processor) and self._words() == other._words())

    def __hash__(self) -> int:
        return hash(self._words())

    def __repr__(self) -> str:
        return f"Processor{self._words()!r}"


class _Host(Processor):
    """This machine's, which LLVM is asked for when somebody wants to know the name or the features."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("", "")

    def _words(self) -> tuple[str, str]:
        if not self._said[0]:
            name, features = answers.kept(["host"], lambda: list(_ask_host()))
            self._said = name, features
        return self._said


@functools.cache
def host() -> Processor:
    """This machine's, with all features that LLVM looks for, and whole vectors where these cost no frequency."""
    return _Host()


def _ask_host() -> Processor:
    llvm = llvm_binding()
    features = llvm.get_host_cpu_features()
    whole = f",-{_HALVED_VECTORS}" if features.get(_WHOLE_VECTORS_BY) else ""
    return Processor(llvm.get_host_cpu_name(), features.flatten() + whole)


@functools.cache
def versions() -> tuple[str, str]:
    """Those of llvmlite and of its LLVM."""
    of_llvmlite, of_llvm = answers.kept(["versions"], _ask_versions)
    return of_llvmlite, of_llvm


def _ask_versions() -> list[str]:
    import llvmlite

    return [llvmlite.__version__, ".".join(map(str, llvm_binding().llvm_version_info))]


@functools.cache
def release() -> str:
    """Which llvmlite is installed, to the commit that it was made of; empty where that cannot be read.

    Read of the file that has it: one release comes with one LLVM, which need not be loaded to be told.
    """
    from llvmlite import _version  # loads no LLVM

    found: dict[str, str] = getattr(_version, "get_versions", dict)()
    return " ".join(found[name] for name in ("version", "full") if name in found)


@functools.cache
def target() -> Processor:
    """The one to compile for: what ATLED_CPU says at the first call, else this machine's.

    Raises SettingError for a text that LLVM would not understand, and ignore.
    """
    text = os.environ.get("ATLED_CPU", "").strip()
    return parse_processor(text) if text else host()


def has(feature: str) -> bool:
    """Whether the processor to compile for has `feature`, by LLVM's name, such as "avx512f"."""
    chosen = target()
    here = cpuid.features() if chosen is host() else None
    if here is not None and feature in here:
        return here[feature]
    if chosen == host():  # of which every feature is listed
        return f"+{feature}" in chosen.features.split(",")
    return feature in _features_of(chosen, (feature,))


def has_half_instructions() -> bool:
    """Whether the processor to compile for converts float16 to float32 and back by instructions."""
    return machine_kind() == "aarch64" or has("f16c")


def has_fused_instructions() -> bool:
    """Whether the processor to compile for computes a * b + c by one instruction."""
    return machine_kind() != "x86_64" or has("fma") or has("fma4")


def has_masked_stores() -> bool:
    """Whether the processor to compile for stores some elements of a vector as quickly as all of them."""
    return machine_kind() == "x86_64" and has("avx512vl")


def includes(other: Processor) -> bool:
    """Whether the processor to compile for has all features of `other`: it executes what is compiled for that."""
    chosen = target()
    here = cpuid.features() if chosen is host() and not other.features else None
    needed = _features_of_level(other.name)
    if here is not None and needed:
        return all(here[feature] for feature in needed)
    return _is_inlined([(other.name, other.features)], chosen)[0]


def _features_of_level(name: str) -> list[str]:
    """Those of a level of x86-64, as the processor is asked for them; none for other names."""
    levels = list(_LEVELS)
    known = levels[: levels.index(name) + 1] if name in levels else []
    return [feature for level in known for feature in _LEVELS[level]]


@functools.cache
def with_features_of(paced: str, base: str) -> Processor:
    """One for which LLVM chooses and orders instructions as for processor `paced`, among those that `base` has, too.

    Raises SettingError for a `base` with features that `paced` lacks.
    """
    _, known, _ = _examined(Processor(base, ""))
    has, may = (_features_of(Processor(name, ""), tuple(known)) for name in (paced, base))
    if may - has:
        raise SettingError(
            four_parts(
                f"code for {base} in the order that suits {paced}",
                f"{paced} lacks {listing(sorted(may - has))}",
                "an order is known for the instructions that a processor has",
                "name a newer processor",
            )
        )
    return Processor(paced, ",".join(f"-{name}" for name in sorted(has - may)))


def missing_here(processor: Processor) -> tuple[str, ...]:
    """The features of `processor` that this machine lacks: code for it may end a process here."""
    return () if processor is host() else _missing_here(processor)


@functools.cache
def _missing_here(processor: Processor) -> tuple[str, ...]:
    if processor == host() or _is_inlined([(processor.name, processor.features)], host())[0]:
        return ()
    here = {word[1:]: word[0] == "+" for word in host().features.split(",") if word[1:] != _HALVED_VECTORS}
    return tuple(sorted(name for name in _features_of(processor, tuple(sorted(here))) if not here[name]))


def require_executable() -> None:
    """Raise ProcessorError where this machine cannot execute what is compiled for `target()`."""
    missing = missing_here(target())
    if not missing:
        return
    text = os.environ["ATLED_CPU"].strip(" ,")
    without = "".join(f",-{name}" for name in missing)
    raise ProcessorError(
        four_parts(
            f"a kernel compiled for ATLED_CPU={text!r}",
            f"this processor ({host().name}) cannot execute it: it lacks {listing(missing)}",
            "compiling needs no such processor: `python -m atled warmup cpu` fills the cache for another machine",
            f"unset ATLED_CPU, name an older processor, or leave these out: ATLED_CPU={text}{without}",
        )
    )


@functools.cache
def parse_processor(text: str) -> Processor:
    """The processor that a text NAME[,features] stands for: "znver4", "nehalem,+avx", "host,-avx512f".

    Raises SettingError for what LLVM does not know, or makes no code of this process's kind for.
    """
    name, *features = (word.strip() for word in text.strip(" ,").split(","))
    base = host() if name == HOST else Processor(name, "")
    chosen = Processor(base.name, ",".join([base.features, *features] if base.features else features))
    names, known_features, is_usable = _examined(chosen)
    if name not in names and name != HOST:
        raise SettingError(
            four_parts(
                f"ATLED_CPU={text!r}",
                f"LLVM knows no processor {name!r} of kind {platform.machine()}",
                f"it knows {len(names)}: {listing(names)}" if nearest(name, names) is None else f"{len(names)} names",
                did_you_mean(name, names, f"name one of these, or {HOST} for this machine's"),
            )
        )
    for feature in features:
        if feature[:1] not in ("+", "-") or feature[1:] not in known_features:
            bare = feature.lstrip("+-")
            meant = did_you_mean(bare, known_features, "leave it out")
            raise SettingError(
                four_parts(
                    f"ATLED_CPU={text!r}",
                    f"{feature!r} is not a feature that LLVM knows with a + or - before it",
                    "features follow the name of the processor: nehalem,+avx,-popcnt",
                    f"write +{bare} or -{bare}" if bare in known_features else meant,
                )
            )
    if not is_usable:
        raise SettingError(
            four_parts(
                f"ATLED_CPU={text!r}",
                f"LLVM makes no code of kind {platform.machine()} for it",
                "it may be a processor of 32 bits, or the features may exclude what such code always needs",
                "name another processor, such as generic",
            )
        )
    # Those of `host` are whole already; on other kinds of processors LLVM knows no such tuning.
    return _with_whole_vectors(chosen) if name != HOST and _HALVED_VECTORS in known_features else chosen


def _with_whole_vectors(chosen: Processor) -> Processor:
    """The same with whole vectors where these cost no frequency, unless its features say what is preferred."""
    is_told = any(word[1:] == _HALVED_VECTORS for word in chosen.features.split(","))
    if is_told or not _features_of(chosen, (_WHOLE_VECTORS_BY,)):
        return chosen
    return Processor(chosen.name, f"{chosen.features},-{_HALVED_VECTORS}".lstrip(","))


def _examined(chosen: Processor) -> tuple[Sequence[str], Sequence[str], bool]:
    """Names of processors and features that LLVM knows for this kind of machine; whether it compiles for `chosen`."""
    question = ["examined", *chosen]
    # That it does not may have another reason: a process that was ended for want of memory.
    names, features, is_usable = answers.kept(question, lambda: _ask_examined(chosen), holds=lambda answer: answer[2])
    return names, features, is_usable


def _ask_examined(chosen: Processor) -> list[Any]:
    """See `_examined`.

    Asked in a process of its own: LLVM lists the names on the error output and nowhere else, and it ends a process
    that wants code of 64 bits for a processor of 32.
    """
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import llvmlite.binding as llvm\n"
        "llvm.initialize_native_target(); llvm.initialize_native_asmprinter()\n"
        "target = llvm.Target.from_triple(llvm.get_process_triple())\n"
        "target.create_target_machine(cpu='help')\n"
        f"machine = target.create_target_machine(cpu={chosen.name!r}, features={chosen.features!r})\n"
        "machine.emit_object(llvm.parse_assembly('define void @f() { ret void }'))\n"
    )
    import subprocess  # 3 ms, where the answer is not kept yet

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    processors, _, features = answer.stderr.partition("Available features")
    if not features:
        raise SettingError(
            four_parts(
                "ATLED_CPU",
                f"LLVM does not list the processors it knows: {answer.stderr.strip() or 'no answer'}",
                f"asked was {sys.executable or 'no interpreter: sys.executable is empty'}",
                "unset ATLED_CPU, or report it",
            )
        )
    return [_listed(processors), _listed(features), answer.returncode == 0]


def _listed(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and " - " in line]


@functools.cache
def _features_of(processor: Processor, asked: tuple[str, ...]) -> frozenset[str]:
    """Those of the `asked` features that `processor` has."""
    answers = _is_inlined([("generic", f"+{name}") for name in asked], processor)
    return frozenset(name for name, inlined in zip(asked, answers, strict=True) if inlined)


def _is_inlined(callees: Iterable[tuple[str, str]], caller: Processor) -> list[bool]:
    """For each (cpu, features) whether LLVM inlines a function for it into one for `caller`."""
    asked = [list(callee) for callee in callees]
    inlined: list[bool] = answers.kept(["inlined", asked, list(caller)], lambda: _ask_inlined(asked, caller))
    return inlined


def _ask_inlined(callees: Sequence[Sequence[str]], caller: Processor) -> list[bool]:
    lines = []
    for number, (cpu, features) in enumerate(callees):
        lines += [
            f"define internal i64 @f{number}(i64 %x) {_attributes(cpu, features)} {{",
            f" %y = mul i64 %x, {number + 3}",
            " ret i64 %y",
            "}",
        ]
    lines.append(f"define void @caller(i64 %x, ptr %p) {_attributes(*caller)} {{")
    for number in range(len(callees)):
        lines += [f" %y{number} = call i64 @f{number}(i64 %x)", f" store volatile i64 %y{number}, ptr %p"]
    lines += [" ret void", "}"]
    llvm = llvm_binding()
    module = llvm.parse_assembly("\n".join(lines))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    left = str(module)
    return [f"@f{number}(" not in left for number in range(len(callees))]


def _attributes(cpu: str, features: str) -> str:
    return f'"target-cpu"="{cpu}" "target-features"="{features}"'


@functools.cache
def llvm_binding() -> Any:  # llvmlite ships no types
    """llvmlite.binding, ready to make code for this kind of machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for IR with instructions as text
    return llvm
