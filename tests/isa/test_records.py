"""`asmgen.isa.records.dataclass` against the standard library's on the same classes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from asmgen.isa.records import dataclass

MAKERS = (dataclass, dataclasses.dataclass)


def classes(maker: Callable[..., Any]) -> tuple[Any, Any, Any, Any]:
    """A frozen class, one derived of it, a mutable one, and one with its own comparison."""
    @maker(frozen=True)
    class Point:
        origin: ClassVar[int] = 7
        x: int
        y: int = 2
        names: tuple[str, ...] = dataclasses.field(default_factory=tuple)
        hidden: int = dataclasses.field(default=0, compare=False, repr=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    @maker(frozen=True)
    class Named(Point):
        label: str = "none"

    @maker
    class Bag:
        items: list[int] = dataclasses.field(default_factory=list)
        total: int = dataclasses.field(default=3, kw_only=True)
        made: dict[str, int] = dataclasses.field(init=False, default_factory=dict)

    @maker(frozen=True, eq=False)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.x % 10 == other.x % 10

        __hash__ = None  # type: ignore[assignment]

    return Point, Named, Bag, Own


@pytest.mark.parametrize("maker", MAKERS)
def test_records_behave_as_dataclasses(maker: Callable[..., Any]) -> None:
    Point, Named, Bag, Own = classes(maker)
    assert Point(1) == Point(1, 2, (), 5) and Point(1) != Point(1, 3) and hash(Point(1)) == hash(Point(x=1, hidden=9))
    assert Point(1) != Named(1) and Named(1, label="a") == Named(1, 2, (), 0, "a")
    assert repr(Named(4)).endswith("Named(x=4, y=2, names=(), label='none')")
    assert dataclasses.replace(Point(1, 5), x=2) == Point(2, 5) and Point.origin == 7
    assert Point.__match_args__ == ("x", "y", "names", "hidden")
    assert [field.name for field in dataclasses.fields(Named)] == ["x", "y", "names", "hidden", "label"]
    assert copy.copy(Point(3)) == Point(3) and copy.deepcopy(Named(3)) == Named(3)
    assert Bag() == Bag([]) and Bag().items is not Bag().items and Bag().total == 3 and Bag().made == {}
    assert Own(13) == Own(3) and Own(13) != Own(4)
    bag = Bag([1])
    bag.items = [2]
    assert bag == Bag([2]) and bag != Bag([2], total=4)
    for wrong in (lambda: Bag([], 4), lambda: Point(), lambda: Point(1, 2, (), 3, 4), lambda: hash(bag), lambda: hash(Own(1))):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="negative"):
        Point(-1)
    point = Named(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'label'"):
        del point.label


def test_records_are_pickled() -> None:
    from asmgen.isa.arch import ARCHITECTURES

    for arch in ARCHITECTURES.values():
        assert pickle.loads(pickle.dumps(arch)) == arch
