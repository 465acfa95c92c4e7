"""Named tuples are those of `typing`: how they are made, read, compared, pickled, and what there is of their class."""

from __future__ import annotations

import pickle
import typing

import pytest

from atled.named_tuple import NamedTuple


class Ours(NamedTuple):
    """What it is."""

    shape: tuple[int, ...]
    offset: int = 0
    name: str = "x"

    @property
    def size(self) -> int:
        """Count."""
        return len(self.shape)

    @classmethod
    def of(cls, *shape: int) -> Ours:
        return cls(shape)

    def moved(self, by: int) -> Ours:
        return self._replace(offset=self.offset + by)


class Typings(typing.NamedTuple):
    """What it is."""

    shape: tuple[int, ...]
    offset: int = 0
    name: str = "x"


def test_it_is_a_tuple_with_names():
    made = Ours((2, 3), name="y")
    assert made == ((2, 3), 0, "y") and hash(made) == hash(((2, 3), 0, "y"))
    assert (made.shape, made.offset, made.name) == tuple(made)
    assert repr(made) == "Ours(shape=(2, 3), offset=0, name='y')"
    assert made.size == 2 and Ours.of(4).moved(3) == ((4,), 3, "x")


def test_the_class_says_what_that_of_typing_does():
    for name in ("__doc__", "__module__", "__bases__", "__slots__", "_fields", "_field_defaults"):
        assert getattr(Ours, name) == getattr(Typings, name), name
    assert Ours.__qualname__ == "Ours" and type(Ours) is type
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Typings)


def test_it_is_pickled():
    assert pickle.loads(pickle.dumps(Ours((1,)))) == Ours((1,))


def test_wrong_arguments_are_refused_as_those_of_a_function():
    with pytest.raises(TypeError, match="shape"):
        Ours()  # type: ignore[call-arg]  # what is tested
    with pytest.raises(TypeError, match="size"):
        Ours((1,), size=3)  # type: ignore[call-arg]  # what is tested


def test_a_class_without_names_is_refused():
    with pytest.raises(TypeError, match="annotate a name per field"):
        type(NamedTuple)("Empty", (NamedTuple,), {"__module__": __name__})
