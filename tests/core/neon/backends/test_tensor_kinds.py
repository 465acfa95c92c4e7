"""Classes of tensors by where they are."""

from atled.neon.backends.backend import Tensor
from atled.neon.backends.nervanacpu import CPUTensor, NervanaCPU
from atled.neon.backends.nervanagpu import GPUTensor, NervanaGPU


def test_tensors_are_of_the_class_of_their_device(be):
    is_on_host = be.device_type == 0
    x = be.array([[1.0, 2.0]])
    for each in (x, x[:, :1], x.T):
        assert isinstance(each, Tensor)
        assert isinstance(each, CPUTensor) is is_on_host
        assert isinstance(each, GPUTensor) is not is_on_host
    assert not isinstance(x + 1, CPUTensor | GPUTensor)
    assert not isinstance(3, CPUTensor | GPUTensor)


def test_backends_tell_their_class_of_tensors():
    assert NervanaCPU.tensor_cls is CPUTensor
    assert NervanaGPU.tensor_cls is GPUTensor
    assert issubclass(CPUTensor, Tensor)
