"""Modes and hints."""

import pytest

from atled.neon.backends.nervanacpu import NervanaCPU
from atled.neon.backends.nervanamkl import NervanaMKL


def test_the_mode_of_caffe_is_set_and_told(cpu):
    assert not cpu.check_caffe_compat()
    cpu.set_caffe_compat()
    assert cpu.check_caffe_compat()
    assert cpu.compat_mode == "caffe"


def test_other_modes_are_refused():
    with pytest.raises(ValueError, match=r"'caff'.*no such mode"):
        NervanaCPU(compat_mode="caff")


def test_mkl_is_told_where_it_was_asked_for():
    assert NervanaMKL().is_mkl()
    assert not NervanaCPU().is_mkl()


def test_layers_need_no_objects_of_the_backend(cpu):
    made = [
        cpu.relu_layer(),
        cpu.batchnorm_layer((3, 4)),
        cpu.mergesum_layer(2),
        cpu.mergebroadcast_layer(2),
        cpu.bibnrnn_layer(None, 3, 4),
    ]
    assert made == [None] * 5


def test_hints_change_no_tensor(cpu):
    x = cpu.array([[1.0, 2.0]])
    assert cpu.convert_data(x, None) is None
    assert cpu.clean_data(x, None) is None
    assert cpu.allocate_new_deltas(x, (2,), "Data") is x
    assert cpu.allocate_new_outputs(None, None) is None
    assert x.get().tolist() == [[1.0, 2.0]]
