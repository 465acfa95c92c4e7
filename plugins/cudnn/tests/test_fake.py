"""The stand-in for cuDNN is strict: what cuDNN answers with an error it does, too."""

from __future__ import annotations

import pickle

import pytest

from atled_cudnn.constants import Kind, Name, Type
from atled_cudnn.descriptors import Descriptor
from atled_cudnn.library import CudnnError

TENSOR = [
    (Name.TENSOR_DATA_TYPE, Type.DATA_TYPE, [0]),
    (Name.TENSOR_DIMENSIONS, Type.INT64, [2, 3, 4, 5]),
    (Name.TENSOR_STRIDES, Type.INT64, [60, 20, 5, 1]),
    (Name.TENSOR_UNIQUE_ID, Type.INT64, [1]),
    (Name.TENSOR_BYTE_ALIGNMENT, Type.INT64, [16]),
]


def changed(name, type_=None, values=None):
    """The attributes of a tensor with one that is otherwise."""
    return [(one, type_ or kind, values or given) if one == name else (one, kind, given) for one, kind, given in TENSOR]


def test_a_complete_tensor_is_taken(fake):
    assert Descriptor(Kind.TENSOR, TENSOR).address


@pytest.mark.parametrize("missing", range(len(TENSOR)))
def test_what_is_required_must_be_there(fake, missing):
    with pytest.raises(CudnnError, match="needs attribute"):
        Descriptor(Kind.TENSOR, [one for number, one in enumerate(TENSOR) if number != missing])


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        (changed(Name.TENSOR_DIMENSIONS, Type.INT32), 2010),
        (changed(Name.TENSOR_STRIDES, values=[20, 5, 1]), 2000),
        (changed(Name.TENSOR_DIMENSIONS, values=[2, 3, 0, 5]), 2000),
        (changed(Name.TENSOR_BYTE_ALIGNMENT, values=[2]), 2000),
        (changed(Name.TENSOR_UNIQUE_ID, values=[1, 2]), 2005),
        ([*TENSOR, (Name.RESAMPLE_MODE, Type.RESAMPLE_MODE, [3])], 2000),
    ],
)
def test_what_is_wrong_is_an_error(fake, attributes, status):
    with pytest.raises(CudnnError) as raised:
        Descriptor(Kind.TENSOR, attributes)
    assert raised.value.status == status


def test_parts_must_be_finalized_and_of_the_right_kind(fake):
    open_ = Descriptor(Kind.TENSOR, TENSOR, is_final=False)
    for part, status in ((open_, 2004), (Descriptor(Kind.KNOB_CHOICE, is_final=False), 2012)):
        with pytest.raises(CudnnError) as raised:
            Descriptor(Kind.RESAMPLE_FORWARD, [(Name.RESAMPLE_FWD_XDESC, Type.DESCRIPTOR, [part])])
        assert raised.value.status == status


def test_nothing_is_read_before_it_is_finalized(fake):
    with pytest.raises(CudnnError) as raised:
        Descriptor(Kind.TENSOR, TENSOR, is_final=False).get(Name.TENSOR_UNIQUE_ID, Type.INT64)
    assert raised.value.status == 2004


def test_an_error_is_pickled_with_its_status():
    error = pickle.loads(pickle.dumps(CudnnError("refused", 3001)))
    assert (type(error), str(error), error.status) == (CudnnError, "refused", 3001)


def test_descriptors_are_destroyed_with_their_objects(fake):
    kept = Descriptor(Kind.TENSOR, TENSOR)
    assert len(fake.descriptors) == 1
    del kept
    assert not fake.descriptors


def test_of_more_than_one_operation_the_shapes_must_fit(fake):
    described = Descriptor(
        Kind.CONVOLUTION,
        [
            (Name.CONVOLUTION_COMP_TYPE, Type.DATA_TYPE, [0]),
            (Name.CONVOLUTION_CONV_MODE, Type.CONVOLUTION_MODE, [1]),
            (Name.CONVOLUTION_SPATIAL_DIMS, Type.INT64, [2]),
            *((name, Type.INT64, [1, 1]) for name in (Name.CONVOLUTION_DILATIONS, Name.CONVOLUTION_FILTER_STRIDES)),
            *((name, Type.INT64, [0, 0]) for name in (Name.CONVOLUTION_PRE_PADDINGS, Name.CONVOLUTION_POST_PADDINGS)),
        ],
    )
    tensor = Descriptor(Kind.TENSOR, TENSOR)
    names = (Name.FORWARD_X, Name.FORWARD_W, Name.FORWARD_Y)
    with pytest.raises(CudnnError) as raised:
        Descriptor(
            Kind.CONVOLUTION_FORWARD,
            [(Name.FORWARD_CONV_DESC, Type.DESCRIPTOR, [described]), *((n, Type.DESCRIPTOR, [tensor]) for n in names)],
        )
    assert raised.value.status == 2008
