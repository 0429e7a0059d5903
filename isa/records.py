"""`dataclass` for the classes that every build loads: what the standard one makes, in a quarter of the time; and their `cached_property`.

The standard decorator compiles six functions a class, and its frozen `__init__` calls `object.__setattr__` for every field: a cold build
of one kernel loads 150 such classes, which was a sixth of its 0.9 s, and makes thousands of their objects. Here only `__init__`
is compiled, and fills the object's dictionary itself; comparison and hash go through `operator.attrgetter`, and the rest is shared.
Fields, `replace`, `__post_init__` and `__match_args__` are the standard library's.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_property
else:
    class cached_property:
        """As `functools.cached_property`, without its lock, which was half of the time of what is asked for once an instruction."""

        def __init__(self, compute):
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, holder, owner=None):
            if holder is None:
                return self
            value = holder.__dict__[self.name] = self.compute(holder)
            return value

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """As `dataclasses.dataclass`, with those of its options that the project uses."""
        def made(cls):
            return _made(cls, frozen, eq, repr)

        return made if cls is None else made(cls)


def _made(cls: Any, frozen: bool, eq: bool, repr: bool) -> Any:
    own = dict(cls.__dict__)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard library works out a signature
    cls = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)
    if "__init__" not in own:
        cls.__init__ = _initializer(cls, fields)
    if repr and "__repr__" not in own:
        cls.__repr__ = _repr
    if eq:
        key = _key([field.name for field in fields if field.compare])
        if "__eq__" not in own:
            cls.__eq__ = _equality(key)
        # Python itself sets __hash__ to None in a class that has an __eq__: nobody's wish.
        if "__hash__" not in own or own["__hash__"] is None and "__eq__" in own:
            hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
            cls.__hash__ = _hash(_key(hashed)) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
    return cls


def _initializer(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """`__init__`, with factories called for what is not given and then `__post_init__`."""
    names: dict[str, Any] = {"_not_given": _NOT_GIVEN, "__name__": cls.__module__}
    slots: list[str] = []
    values: list[str] = []
    for field in sorted((field for field in fields if field.init), key=lambda field: bool(field.kw_only)):
        name = field.name
        if field.kw_only and "*" not in slots:
            slots.append("*")
        value = name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            slots.append(f"{name}=_default_{name}")
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_factory_{name}"] = field.default_factory
            slots.append(f"{name}=_not_given")
            value = f"_factory_{name}() if {name} is _not_given else {name}"
        else:
            slots.append(name)
        values.append(f"_own[{name!r}] = {value}")
    values += [f"_own[{field.name!r}] = _factory_{field.name}()" for field in fields
               if not field.init and field.default_factory is not dataclasses.MISSING]
    names |= {f"_factory_{field.name}": field.default_factory for field in fields if not field.init}
    after = ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    body = "\n    ".join(["_own = self.__dict__", *values, *after])
    exec(f"def __init__({', '.join(['self', *slots])}):\n    {body}", names)
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


_NOT_GIVEN: Any = object()


def _key(names: list[str]) -> Any:
    """A function from an object to what it is compared by."""
    return attrgetter(*names) if names else lambda _: ()


def _equality(key: Any) -> Any:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return key(self) == key(other)

    return __eq__


def _hash(key: Any) -> Any:
    def __hash__(self: Any) -> int:
        return hash(key(self))

    return __hash__


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
