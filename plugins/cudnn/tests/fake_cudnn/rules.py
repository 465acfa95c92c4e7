"""What cuDNN takes: for each kind of descriptor its attributes, their types, how many values, whether they must be set.

Numbers and rules are those of cudnn_graph.h, written down here apart from the plugin's own.
"""

from __future__ import annotations

from dataclasses import dataclass

HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE, VOID_PTR = range(7)
CONVOLUTION_MODE, HEUR_MODE, KNOB_TYPE, NAN_PROPAGATION, NUMERICAL_NOTE = 7, 8, 9, 10, 11
POINTWISE_MODE, DESCRIPTOR, RESAMPLE_MODE, PADDING_MODE, INT32, CHAR = 14, 15, 21, 22, 23, 24

BAD_PARAM, NULL_POINTER, NOT_FINALIZED, OUT_OF_BOUND = 2000, 2002, 2004, 2005
SHAPE_MISMATCH, DUPLICATED, ATTRIBUTE_TYPE, DESCRIPTOR_TYPE = 2008, 2009, 2010, 2012
MISALIGNED, NOT_SUPPORTED, UNSUPPORTED_PATTERN, EXECUTION_FAILED = 2003, 3000, 3001, 5000

NAMES = {
    0: "CUDNN_STATUS_SUCCESS",
    BAD_PARAM: "CUDNN_STATUS_BAD_PARAM",
    NULL_POINTER: "CUDNN_STATUS_BAD_PARAM_NULL_POINTER",
    MISALIGNED: "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER",
    NOT_FINALIZED: "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED",
    OUT_OF_BOUND: "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND",
    SHAPE_MISMATCH: "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH",
    DUPLICATED: "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES",
    ATTRIBUTE_TYPE: "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE",
    DESCRIPTOR_TYPE: "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE",
    NOT_SUPPORTED: "CUDNN_STATUS_NOT_SUPPORTED",
    UNSUPPORTED_PATTERN: "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN",
    EXECUTION_FAILED: "CUDNN_STATUS_EXECUTION_FAILED",
}

(POINTWISE, CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTICS, PLAN) = range(6)
KNOB_CHOICE, FORWARD, WEIGHT_GRADIENT, DATA_GRADIENT, OPERATION_POINTWISE = 7, 10, 11, 12, 13
GRAPH, VARIANT_PACK, TENSOR, RESAMPLE, RESAMPLE_FORWARD, RESAMPLE_BACKWARD = 15, 16, 17, 24, 25, 26
DEVICE_PROPERTIES = 38
OPERATIONS = (FORWARD, WEIGHT_GRADIENT, DATA_GRADIENT, OPERATION_POINTWISE, RESAMPLE_FORWARD, RESAMPLE_BACKWARD)

MAX_DIMS = 8


@dataclass(frozen=True)
class Rule:
    """One attribute. types: that it may have.  most: values.  required: before finalization.  kinds: of descriptors."""

    types: tuple[int, ...]
    most: int = 1
    required: bool = True
    kinds: tuple[int, ...] = ()
    read_only: bool = False


def _part(*kinds: int, required: bool = True, most: int = 1) -> Rule:
    return Rule((DESCRIPTOR,), most, required, kinds)


_ONE, _SIZES, _SCALE = Rule((INT64,)), Rule((INT64,), MAX_DIMS), Rule((FLOAT, DOUBLE), required=False)
_TENSOR, _MAYBE_TENSOR = _part(TENSOR), _part(TENSOR, required=False)
_DEVICE = _part(DEVICE_PROPERTIES, required=False)

RULES: dict[int, dict[int, Rule]] = {
    POINTWISE: {
        0: Rule((POINTWISE_MODE,)),
        1: Rule((DATA_TYPE,)),
        2: Rule((NAN_PROPAGATION,), required=False),
        3: _SCALE,
        4: _SCALE,
    },
    CONVOLUTION: {
        100: Rule((DATA_TYPE,)),
        101: Rule((CONVOLUTION_MODE,)),
        102: _SIZES,
        103: _SIZES,
        104: _SIZES,
        105: _SIZES,
        106: _ONE,
    },
    ENGINE: {
        1300: _part(GRAPH),
        1301: _ONE,
        1303: Rule((NUMERICAL_NOTE,), 16, read_only=True),
        1307: _DEVICE,
    },
    ENGINE_CONFIG: {300: _part(ENGINE), 302: _part(KNOB_CHOICE, required=False, most=64)},
    HEURISTICS: {
        200: Rule((HEUR_MODE,)),
        201: _part(GRAPH),
        202: Rule((DESCRIPTOR,), 64, read_only=True, kinds=(ENGINE_CONFIG,)),
        204: _DEVICE,
    },
    PLAN: {401: _part(ENGINE_CONFIG), 402: Rule((INT64,), read_only=True), 407: _part(DEVICE_PROPERTIES)},
    KNOB_CHOICE: {600: Rule((KNOB_TYPE,)), 601: _ONE},
    FORWARD: {700: _SCALE, 701: _SCALE, 702: _part(CONVOLUTION), 703: _TENSOR, 704: _TENSOR, 705: _TENSOR},
    DATA_GRADIENT: {706: _SCALE, 707: _SCALE, 708: _part(CONVOLUTION), 709: _TENSOR, 710: _TENSOR, 711: _TENSOR},
    WEIGHT_GRADIENT: {712: _SCALE, 713: _SCALE, 714: _part(CONVOLUTION), 715: _TENSOR, 716: _TENSOR, 717: _TENSOR},
    OPERATION_POINTWISE: {750: _part(POINTWISE), 751: _TENSOR, 752: _MAYBE_TENSOR, 753: _TENSOR},
    GRAPH: {801: _part(*OPERATIONS, most=100)},
    VARIANT_PACK: {1000: Rule((INT64,), 1000), 1001: Rule((VOID_PTR,), 1000), 1003: Rule((VOID_PTR,))},
    TENSOR: {
        900: _ONE,
        901: Rule((DATA_TYPE,)),
        902: _SIZES,
        903: _SIZES,
        906: _ONE,
        907: Rule((BOOLEAN,), required=False),
    },
    RESAMPLE: {
        1700: Rule((RESAMPLE_MODE,)),
        1701: Rule((DATA_TYPE,)),
        1702: _ONE,
        1703: _SIZES,
        1704: _SIZES,
        1705: _SIZES,
        1706: _SIZES,
        1707: Rule((NAN_PROPAGATION,), required=False),
        1708: Rule((PADDING_MODE,)),
    },
    RESAMPLE_FORWARD: {1710: _TENSOR, 1711: _TENSOR, 1716: _part(RESAMPLE)},
    RESAMPLE_BACKWARD: {1720: _TENSOR, 1721: _TENSOR, 1725: _part(RESAMPLE), 1726: _MAYBE_TENSOR, 1727: _MAYBE_TENSOR},
    DEVICE_PROPERTIES: {2700: Rule((INT32,), required=False), 2702: Rule((CHAR,), 10**6, required=False)},
}
