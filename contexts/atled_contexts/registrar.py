"""Registrar: takes and checks the implementations and array classes that a plugin hands over in `atled_register`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from atled_contexts.errors import PluginError, did_you_mean, listing, message
from atled_contexts.plugin import is_name

if TYPE_CHECKING:
    from atled_contexts.plugin import PluginInfo

# `Any`: the description of a call and what `prepare` makes of it are the core's types; they only pass through here.
Prepare = Callable[[Any], Any]
PrepareGroup = Callable[[Sequence[Any]], Any]
Accepts = Callable[[Any], bool | str]
Prefers = Callable[[Any], float]
Layout = Callable[[Any], str]


class Implementation:
    """One way to compute one op.

    op: name of the op.  backend: the backend it belongs to.
    prepare: `prepare(call)` does, once per call description, what needs no data; what it returns is the core's.
    accepts: `accepts(call)` gives True, or the reason in words why it does not compute this call. None: every call.
    prefers: `prefers(call)` ranks it among the accepting ones of its backend, highest first. None: 0. A float: the rank
        of all calls; `accepts` is then asked about a call only if none registered before accepts it that ranks as high.
    note: what `explain` shows, such as "direct" or "adopted reference".
    op_version: the version of the op spec that it was written for; where the spec has another one by now, it is
        refused. None: it fits every version, because it is made from the spec (formulas, references).
    fuses: whether `prepare` computes any scalar formula: it may then be given calls that fuse several such ops.
    splits: with `fuses`, whether a fused formula has the same bits where it is computed in parts, each product together
        with the sums that may take it (the core's `graph/compile/parts.py`), so that one that would have to be compiled
        need not be for a single run (`Native.is_at_hand`).
    prepare_group: `prepare_group(calls)` prepares calls that `prepare` would compute one by one, of one formula and on
        arrays that all have the shape of the call, as one launch: `run` gets the inputs of all calls, one call after
        the other, then their outputs, then their floats. Calls are grouped whose implementations have the same one.
    omits: names of auxiliary outputs that it leaves out where nobody reads them (the core's `Call.wanted`).
    casts: whether a formula may have operands of several float dtypes: it is computed in float64 if one of its inputs
        is that, else in float32, and rounded when it is stored. Then casts beside it become part of it.
    layout: `layout(call)` says in which order of axes it would rather have the images of this call: "channel_first",
        "channel_last", or "" for the one that they are in. Only who gives it is given calls with `channel_last` set;
        for others the images are transposed before and behind. None: it computes calls without channel_last only.
    attaches: names of inputs and outputs of the op at which `prepare` compiles formulas in (the core's `Call.before`
        and `Call.after`); `accepts` is asked about calls with formulas.
    integers: whether it computes integers and truth values where the op has floating-point numbers (the core's
        `Call.has_integers`); `accepts` says which. Others are not asked about such calls.
    strides: names of inputs and outputs of the op that calls may describe with strides, which may be negative or 0, and
        which may begin at any element of their memory; True: all. Others are copied first, or written behind.
    """

    __slots__ = (
        "accepts",
        "attaches",
        "backend",
        "casts",
        "fuses",
        "integers",
        "layout",
        "note",
        "omits",
        "op",
        "op_version",
        "prefers",
        "prepare",
        "prepare_group",
        "rank",
        "splits",
        "strides",
    )

    def __init__(
        self,
        op: str,
        backend: str,
        prepare: Prepare,
        *,
        accepts: Accepts | None = None,
        prefers: Prefers | float | None = None,
        note: str = "",
        op_version: int | None = 1,
        fuses: bool = False,
        splits: bool = False,
        prepare_group: PrepareGroup | None = None,
        omits: Sequence[str] = (),
        casts: bool = False,
        layout: Layout | None = None,
        attaches: Sequence[str] = (),
        integers: bool = False,
        strides: Sequence[str] | Literal[True] = (),
    ) -> None:
        # Known without a call; None where `prefers` tells.
        rank = 0.0 if prefers is None else _number(prefers)
        ranks = prefers if rank is None or prefers is None else _always(rank)
        optional = (("accepts", accepts), ("prefers", ranks), ("prepare_group", prepare_group), ("layout", layout))
        names = (("omits", omits), ("attaches", attaches), ("strides", strides))
        misfit = _misfit(op_version, prepare, rank, optional, names)
        if misfit is not None:
            wrong, remedy = misfit
            raise TypeError(message(f"Implementation({op!r}, {backend!r})", wrong, "", remedy))
        self.op = op
        self.backend = backend
        self.prepare = prepare
        self.accepts = accepts
        self.prefers: Prefers | None = ranks  # type: ignore[assignment]  # no number: see above
        self.rank = rank
        self.note = note
        self.op_version = op_version
        self.fuses = fuses
        self.splits = splits
        self.prepare_group = prepare_group
        self.omits = tuple(omits)
        self.casts = casts
        self.layout = layout
        self.attaches = tuple(attaches)
        self.integers = integers
        self.strides: Literal[True] | tuple[str, ...] = True if strides is True else tuple(strides)

    def takes_strides(self, names: Iterable[str]) -> bool:
        """Whether calls may describe arrays of these names with strides."""
        return self.strides is True or set(self.strides).issuperset(names)

    def __repr__(self) -> str:
        return f"Implementation({self.op!r}, {self.backend!r}{f', note={self.note!r}' if self.note else ''})"


def _number(prefers: object) -> float | None:
    """The rank of all calls, if that is a number."""
    return float(prefers) if isinstance(prefers, (int, float)) and not isinstance(prefers, bool) else None


@cache
def _always(rank: float) -> Prefers:
    """Ranks every call the same."""
    return lambda _: rank


def _misfit(
    op_version: object,
    prepare: object,
    rank: float | None,
    optional: Iterable[tuple[str, object]],
    names: Iterable[tuple[str, object]],
) -> tuple[str, str] | None:
    """What is wrong with arguments of an Implementation, and what to do; None where they fit."""
    if op_version is not None and (type(op_version) is not int or op_version < 1):
        return (
            f"op_version={op_version!r} is no version of an op spec",
            "give the `version` of the spec it was written for, 1 or more, or None if it is made from the spec",
        )
    if not callable(prepare):
        return f"prepare={prepare!r} is not callable", "give a function prepare(call)"
    for name, function in optional:
        if function is not None and not callable(function):
            argument = "calls" if name == "prepare_group" else "call"
            number = ", or a number, the rank of all calls" if name == "prefers" else ""
            return f"{name}={function!r} is not callable", f"give a function {name}({argument}){number}"
    if rank != rank:
        return "prefers=nan ranks nothing", "give a function prefers(call), or a number, the rank of all calls"
    for name, given in names:
        if isinstance(given, str):
            of_what = "outputs" if name == "omits" else "arrays"
            return f"{name}={given!r} is text, not names of {of_what}", f"write {name}=({given!r},)"
    return None


Provider = Callable[[str], Implementation | None]


class ArrayClassEntry:
    """One registered array class: the object, the backend that brought it, whether it is its default."""

    __slots__ = ("array_class", "backend", "default", "name")

    def __init__(self, name: str, array_class: object, backend: str, default: bool) -> None:
        self.name = name
        self.array_class = array_class
        self.backend = backend
        self.default = default


class Registrar:
    """Given to a plugin's `atled_register`; keeps what it hands over until all of it came without error."""

    def __init__(self, info: PluginInfo) -> None:
        self._plugin = info.name
        self._backends = tuple(backend.name for backend in info.backends)
        self.implementations: dict[tuple[str, str], list[Implementation]] = {}
        self.families: dict[str, list[Provider]] = {}
        self.array_classes: dict[str, ArrayClassEntry] = {}
        self.native_executors: dict[str, object] = {}

    def implementation(
        self,
        op: str,
        backend: str,
        prepare: Prepare,
        *,
        accepts: Accepts | None = None,
        prefers: Prefers | float | None = None,
        note: str = "",
        op_version: int | None = 1,
        fuses: bool = False,
        splits: bool = False,
        prepare_group: PrepareGroup | None = None,
        omits: Sequence[str] = (),
        casts: bool = False,
        layout: Layout | None = None,
        attaches: Sequence[str] = (),
        integers: bool = False,
        strides: Sequence[str] | Literal[True] = (),
    ) -> Implementation:
        """Hand over one way to compute `op`; the arguments are those of `Implementation`. Several per op are fine."""
        self._check(backend, f"implementation({op!r}, {backend!r})")
        made = Implementation(
            op,
            backend,
            prepare,
            accepts=accepts,
            prefers=prefers,
            note=note,
            op_version=op_version,
            fuses=fuses,
            splits=splits,
            prepare_group=prepare_group,
            omits=omits,
            casts=casts,
            layout=layout,
            attaches=attaches,
            integers=integers,
            strides=strides,
        )
        self.implementations.setdefault((op, backend), []).append(made)
        return made

    def family(self, backend: str, provider: Provider) -> None:
        """Hand over `provider(op_name) -> Implementation | None` for whole families of ops.

        It is asked, once per op, where the backend has no implementation of that op handed over by itself.
        """
        self._check(backend, f"family({backend!r})")
        if not callable(provider):
            raise TypeError(
                message(f"family({backend!r})", f"{provider!r} is not callable", "", "give provider(op_name)")
            )
        self.families.setdefault(backend, []).append(provider)

    def array_class(self, name: str, array_class: object, backend: str, default: bool = False) -> None:
        """Hand over the array class `name`; it serves every backend of the same device family."""
        asked = f"array_class({name!r}, backend={backend!r})"
        self._check(backend, asked)
        if not is_name(name):
            raise PluginError(message(asked, "that is not a name", "", "use letters, digits, '_-.'"))
        if name in self.array_classes:
            raise PluginError(message(asked, "the name was handed over already", "", "register each array class once"))
        self.array_classes[name] = ArrayClassEntry(name, array_class, backend, default)

    def native_executor(self, backend: str, executor: object) -> None:
        """Hand over what runs native steps of `backend`; one per backend."""
        asked = f"native_executor({backend!r})"
        self._check(backend, asked)
        if backend in self.native_executors:
            raise PluginError(message(asked, "the backend has one already", "", "register one executor per backend"))
        self.native_executors[backend] = executor

    def offered(self, op: str, backend: str) -> tuple[Implementation, ...]:
        """All implementations of (op, backend): those handed over, else what the backend's families give."""
        found = self.implementations.get((op, backend))
        if found is not None:
            return tuple(found)
        return tuple(made for provider in self.families.get(backend, ()) if (made := provider(op)) is not None)

    def _check(self, backend: str, asked: str) -> None:
        if backend not in self._backends:
            raise PluginError(
                message(
                    asked,
                    f"plugin {self._plugin!r} did not declare this backend",
                    f"its atled_info declares {listing(self._backends)}",
                    did_you_mean(backend, self._backends, "add a BackendInfo to what atled_info returns"),
                )
            )
