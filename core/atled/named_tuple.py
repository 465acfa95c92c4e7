"""`NamedTuple` as `typing` has it, made in less than half of the time: a first result takes about a hundred of them.

`typing` compiles each annotation, a million instructions for a class of four fields. These stay texts, so a module that
has such a class begins with `from __future__ import annotations`.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from atled.errors import four_parts

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Maker(type):
        """Makes the tuple's class of a class statement."""

        def __new__(cls, name: str, bases: tuple[type, ...], given: dict[str, Any]) -> type:
            fields = given.pop("__annotations__", {})
            if not fields:
                raise TypeError(
                    four_parts(
                        f"the tuple {name}",
                        "it has no annotated names",
                        "",
                        "begin the module with `from __future__ import annotations`, and annotate a name per field",
                    )
                )
            defaults = [given.pop(field) for field in fields if field in given]
            made = collections.namedtuple(name, fields, defaults=defaults, module=given["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = fields
            for key, value in given.items():
                if key != "__module__":
                    setattr(made, key, value)
            return made

    # A class statement with this base calls the maker, which the result has no trace of.
    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {"__doc__": "Base of classes that are named tuples."})
