"""Initial values of parameters: initializers, and the spreads that suit a layer of a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.random import parameter_generator

__all__ = [
    "BaseInitializer",
    "ConstantInitializer",
    "NormalInitializer",
    "UniformInitializer",
    "UniformIntInitializer",
    "calc_normal_std_glorot",
    "calc_normal_std_he_backward",
    "calc_normal_std_he_forward",
    "calc_uniform_lim_glorot",
]


class BaseInitializer:
    """Base of all initializers: a subclass defines `__call__(shape)`, which returns an array of that shape."""

    def __call__(self, shape: Sequence[int]) -> np.ndarray:
        """The initial values.

        Args:
            shape: sizes per axis; () for a scalar.

        Returns:
            array of that shape; a parameter keeps it as float32.
        """
        raise NotImplementedError(
            four_parts(
                f"{type(self).__name__}()({shape!r})",
                "this initializer does not say how to make values",
                "",
                "define __call__(self, shape) in the subclass",
            )
        )


class ConstantInitializer(BaseInitializer):
    """Every element is `value`.

    Args:
        value: the number.
    """

    def __init__(self, value: float = 0) -> None:
        self.value = value

    def __call__(self, shape: Sequence[int]) -> np.ndarray:
        return np.full(tuple(shape), self.value, np.float64)

    def __repr__(self) -> str:
        return f"ConstantInitializer({self.value!r})"


class _RandomInitializer(BaseInitializer):
    """What random initializers share: where the numbers come from."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    @property
    def _source(self) -> Any:
        # Looked up at each call, not kept: a module among the attributes could be neither copied nor pickled.
        return parameter_generator() if self.rng is None else self.rng


class NormalInitializer(_RandomInitializer):
    """Normally distributed numbers with mean 0: `rng.randn(*shape) * sigma`.

    Args:
        sigma: standard deviation, at least 0.
        rng: numpy.random.RandomState or Generator; None: the generator of `atled.seed`, or else the
            `numpy.random` module.

    Raises:
        ValueError: sigma is negative or not a number.
    """

    def __init__(self, sigma: float = 1.0, rng: Any = None) -> None:
        if not sigma >= 0:
            raise ValueError(
                four_parts(f"NormalInitializer(sigma={sigma!r})", "not a standard deviation", "", "use 0 or more")
            )
        super().__init__(rng)
        self.sigma = sigma

    def __call__(self, shape: Sequence[int]) -> np.ndarray:
        # RandomState.randn is standard_normal under another name, and a Generator has only the latter.
        return np.asarray(self._source.standard_normal(size=tuple(shape))) * self.sigma

    def __repr__(self) -> str:
        return f"NormalInitializer({self.sigma!r})"


class UniformInitializer(_RandomInitializer):
    """Uniformly distributed numbers: `rng.uniform(lim[0], lim[1], size=shape)`.

    Args:
        lim: (low, high); low is included, high is not.
        rng: numpy.random.RandomState or Generator; None: the generator of `atled.seed`, or else the
            `numpy.random` module.

    Raises:
        ValueError: lim is not two numbers in ascending order.
    """

    def __init__(self, lim: tuple[float, float] = (-1, 1), rng: Any = None) -> None:
        super().__init__(rng)
        self.lim = _limits("UniformInitializer", lim, equal=True)

    def __call__(self, shape: Sequence[int]) -> np.ndarray:
        return np.asarray(self._source.uniform(self.lim[0], self.lim[1], size=tuple(shape)))

    def __repr__(self) -> str:
        return f"UniformInitializer({self.lim!r})"


class UniformIntInitializer(_RandomInitializer):
    """Uniformly distributed whole numbers: `rng.randint(lim[0], lim[1], size=shape)`.

    Args:
        lim: (low, high); low is included, high is not.
        rng: numpy.random.RandomState or Generator; None: the generator of `atled.seed`, or else the
            `numpy.random` module.

    Raises:
        ValueError: lim is not two numbers, low below high.
    """

    def __init__(self, lim: tuple[int, int] = (0, 10), rng: Any = None) -> None:
        super().__init__(rng)
        self.lim = _limits("UniformIntInitializer", lim, equal=False)

    def __call__(self, shape: Sequence[int]) -> np.ndarray:
        source = self._source
        # A Generator calls it integers.
        draw = source.randint if hasattr(source, "randint") else source.integers
        return np.asarray(draw(self.lim[0], self.lim[1], size=tuple(shape)))

    def __repr__(self) -> str:
        return f"UniformIntInitializer({self.lim!r})"


def _limits(name: str, lim: Any, *, equal: bool) -> tuple[Any, Any]:
    asked = f"{name}(lim={lim!r})"
    remedy = "pass (low, high), such as (-1, 1)"
    try:
        low, high = lim
        ordered = low <= high if equal else low < high
    except (TypeError, ValueError) as error:
        raise ValueError(four_parts(asked, "not two numbers", "", remedy)) from error
    if not ordered:
        raise ValueError(four_parts(asked, "the first number is not below the second", "", remedy))
    return low, high


def calc_normal_std_he_forward(inmaps: int, outmaps: int, kernel: Sequence[int] = (1, 1)) -> float:
    """Standard deviation that keeps the scale of values forward through ReLU layers: `sqrt(2 / (k inmaps))`.

    Source: He et al. 2015, "Delving deep into rectifiers".

    Args:
        inmaps, outmaps: counts of input and output maps.
        kernel: sizes of the kernel; k is their product.

    Raises:
        ValueError: a negative count or size, or none that counts here.
    """
    k = _kernel_size("calc_normal_std_he_forward", inmaps, outmaps, kernel)
    return _spread("calc_normal_std_he_forward", 2.0, k * inmaps)


def calc_normal_std_he_backward(inmaps: int, outmaps: int, kernel: Sequence[int] = (1, 1)) -> float:
    """Standard deviation that keeps the scale of gradients backward through ReLU layers: `sqrt(2 / (k outmaps))`.

    Source: He et al. 2015, "Delving deep into rectifiers".

    Args:
        inmaps, outmaps: counts of input and output maps.
        kernel: sizes of the kernel; k is their product.

    Raises:
        ValueError: a negative count or size, or none that counts here.
    """
    k = _kernel_size("calc_normal_std_he_backward", inmaps, outmaps, kernel)
    return _spread("calc_normal_std_he_backward", 2.0, k * outmaps)


def calc_normal_std_glorot(inmaps: int, outmaps: int, kernel: Sequence[int] = (1, 1)) -> float:
    """Standard deviation between the needs of forward and backward: `sqrt(2 / (k inmaps + outmaps))`.

    Source: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks"; k
    multiplies inmaps only, as NNabla has it.

    Args:
        inmaps, outmaps: counts of input and output maps.
        kernel: sizes of the kernel; k is their product.

    Raises:
        ValueError: a negative count or size, or none that counts here.
    """
    k = _kernel_size("calc_normal_std_glorot", inmaps, outmaps, kernel)
    return _spread("calc_normal_std_glorot", 2.0, k * inmaps + outmaps)


def calc_uniform_lim_glorot(inmaps: int, outmaps: int, kernel: Sequence[int] = (1, 1)) -> tuple[float, float]:
    """Limits of the uniform distribution with Glorot's spread: `(-d, d)`, `d = sqrt(6 / (k inmaps + outmaps))`.

    Source: as `calc_normal_std_glorot`.

    Args:
        inmaps, outmaps: counts of input and output maps.
        kernel: sizes of the kernel; k is their product.

    Raises:
        ValueError: a negative count or size, or none that counts here.
    """
    k = _kernel_size("calc_uniform_lim_glorot", inmaps, outmaps, kernel)
    d = _spread("calc_uniform_lim_glorot", 6.0, k * inmaps + outmaps)
    return -d, d


def _kernel_size(name: str, inmaps: int, outmaps: int, kernel: Sequence[int]) -> int:
    """The product of the kernel's sizes, once no number is found to be negative."""
    sizes = tuple(kernel)
    if min(inmaps, outmaps, *sizes) < 0:
        raise ValueError(
            four_parts(
                f"{name}(inmaps={inmaps}, outmaps={outmaps}, kernel={sizes})",
                "a count or size is negative",
                "",
                "pass positive numbers",
            )
        )
    return math.prod(sizes)


def _spread(name: str, numerator: float, fan: int) -> float:
    """`sqrt(numerator / fan)`, fan being how many weights meet in one value."""
    if fan == 0:
        raise ValueError(
            four_parts(name, "no weight leads to a value: maps or kernel are empty", "", "pass positive numbers")
        )
    try:
        return math.sqrt(numerator / fan)
    except OverflowError as error:
        raise ValueError(
            four_parts(name, f"counts of maps or sizes of the kernel are too large ({error})", "", "use smaller ones")
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
