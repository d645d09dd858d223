"""adelta's `dataclass` makes what the standard library's makes, and compiles less for it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, InitVar, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pytest

from adelta import _dataclasses

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
OURS: Any = _dataclasses.dataclass
MAKERS = [pytest.param(OURS, id="adelta"), pytest.param(dataclasses.dataclass, id="standard")]
BOTH = pytest.mark.parametrize("dataclass", MAKERS)


def point(dataclass: Any, **options: Any) -> Any:
    @dataclass(**{"frozen": True, "slots": True, **options})
    class Point:
        """A place."""

        kind: ClassVar[str] = "place"
        x: int
        y: int = 2
        seen: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False, hash=False)

        def far(self) -> bool:
            return self.x > 100

    return Point


@BOTH
def test_a_value_is_made_shown_compared_and_hashed(dataclass: Any) -> None:
    made = point(dataclass)
    value = made(1, seen=[3])
    assert (value.x, value.y, value.seen, value.secret, value.kind) == (1, 2, [3], "s", "place")
    assert repr(value).endswith("Point(x=1, y=2, seen=[3])")
    assert value == made(1, 2, [9])
    assert value != made(1, 3)
    assert value != (1, 2)
    assert value != made(1, 2, [3], "t")
    assert hash(value) == hash(made(1, 2, [3], "t"))
    assert made(1).seen is not made(1).seen
    assert made.__match_args__ == ("x", "y", "seen", "secret")
    assert made.__doc__ == "A place."
    assert not hasattr(value, "__dict__")
    assert not value.far()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        made()


@BOTH
def test_a_value_cannot_be_changed(dataclass: Any) -> None:
    value = point(dataclass)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del value.x
    value = point(dataclass, slots=False)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        value.other = 2


@BOTH
def test_the_functions_of_the_standard_library_know_the_class(dataclass: Any) -> None:
    made = point(dataclass)
    assert dataclasses.is_dataclass(made)
    assert [f.name for f in dataclasses.fields(made)] == ["x", "y", "seen", "secret"]
    assert dataclasses.replace(made(1), y=5) == made(1, 5)
    assert dataclasses.asdict(made(1)) == {"x": 1, "y": 2, "seen": [], "secret": "s"}
    assert copy.deepcopy(made(1, 4)) == copy.copy(made(1, 4)) == made(1, 4)
    assert str(inspect.signature(made)).startswith("(x: 'int', y: 'int' = 2, seen: 'list[int]' = ")


@BOTH
def test_the_signature_is_known_before_there_is_an_instance(dataclass: Any) -> None:
    made = point(dataclass, kw_only=True)
    assert [p.kind.name for p in inspect.signature(made).parameters.values()] == 4 * [
        "KEYWORD_ONLY"
    ]
    with pytest.raises(TypeError, match="positional"):
        made(1)


@BOTH
def test_fields_may_be_given_by_name_alone_or_not_at_all(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Shape:
        sides: int
        colour: str = field(kw_only=True)
        area: float = field(default=0.5, init=False)
        notes: list[str] = field(default_factory=list, init=False)
        later: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "later", self.sides + 1)

    shape = Shape(3, colour="red")
    assert (shape.area, shape.notes, shape.later) == (0.5, [], 4)
    assert shape.notes is not Shape(3, colour="red").notes
    assert str(inspect.signature(Shape)) == "(sides: 'int', *, colour: 'str') -> None"
    for wrong in (lambda: Shape(3, "red"), lambda: Shape(3), lambda: Shape(3, colour="", area=1)):
        with pytest.raises(TypeError, match=r"Shape.__init__\(\)"):
            wrong()


@BOTH
def test_what_is_left_out_is_left_out(dataclass: Any) -> None:
    made = point(dataclass, eq=False, repr=False)
    value = made(1)
    assert value != made(1)
    assert hash(value) == object.__hash__(value)
    assert repr(value) == object.__repr__(value)


@BOTH
def test_what_a_class_defines_itself_stays(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Name:
        text: str
        length: InitVar[int]

        def __post_init__(self, length: int) -> None:
            assert len(self.text) == length

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

        def __repr__(self) -> str:
            return f"<{self.text}>"

    assert {Name("a", 1), Name("A", 1)} == {Name("a", 1)}
    assert repr(Name("b", 1)) == "<b>"
    with pytest.raises(AssertionError):
        Name("a", 2)

    @dataclass(frozen=True)
    class Alike:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Alike)

    assert Alike("a") == Alike("b")
    assert hash(Alike("a")) == hash(("a",))


@BOTH
def test_classes_inherit(dataclass: Any) -> None:
    base = point(dataclass, slots=False)

    @dataclass(frozen=True)
    class Space(base):
        z: int = 0

    @dataclasses.dataclass(frozen=True)
    class Users(base):
        mine: int = 0

    class Plain(base):
        pass

    assert Space(1, z=3).z == 3
    assert Space(1) != base(1)
    assert Space(1) == Space(1)
    assert repr(Users(1, mine=4)).endswith("Users(x=1, y=2, seen=[], mine=4)")
    for value in (Space(1), Users(1), Plain(1)):
        with pytest.raises(FrozenInstanceError):
            value.x = 2
    plain = Plain(1)
    plain.extra = 3
    assert plain.extra == 3
    assert plain == Plain(1)
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Thawed", (base,), {"__annotations__": {"w": int}}))


@BOTH
def test_a_class_may_be_generic_and_have_one_field_or_none(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Box(Generic[T]):
        inside: T

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    assert Box(1) == Box(1)
    assert hash(Box(1)) == hash((1,))
    assert Box(1) != Box(2)
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())
    assert repr(Nothing()).endswith("()")


@BOTH
def test_a_value_within_itself_can_be_shown(dataclass: Any) -> None:
    made = point(dataclass)
    value = made(1)
    value.seen.append(value)
    assert repr(value).endswith("Point(x=1, y=2, seen=[...])")


@_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: tuple[int, ...] = ()


def test_values_with_slots_are_pickled() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Kept(1, (2,)), protocol)) == Kept(1, (2,))


def test_others_are_made_by_the_standard_library_alone() -> None:
    @_dataclasses.dataclass
    class Open:
        x: int = 1

    @_dataclasses.dataclass(frozen=True, order=True)
    class Ordered:
        x: int = 1

    value = Open()
    value.x = 2
    assert value == Open(2)
    assert Ordered(1) < Ordered(2)


def test_a_class_that_nobody_calls_compiles_nothing() -> None:
    program = """
import builtins, dataclasses, re
from adelta import _dataclasses
from adelta._dataclasses import dataclass
compiled = []
def exec(text, *names):
    compiled.extend(re.findall(r"def (__\\w+__)\\(_?self", text))
    return builtins.exec(text, *names)
dataclasses.exec = _dataclasses.exec = exec
@dataclass(frozen=True, slots=True)
class A:
    x: int = 1
assert compiled == []
A(), A(2)
assert compiled == ["__init__"]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.parametrize("look", [lambda c: c(1), inspect.signature, lambda c: c.__init__])
def test_however_it_is_looked_at_it_is_compiled_once(look: Callable[[Any], Any]) -> None:
    made = point(OURS)
    look(made)
    assert inspect.isfunction(vars(made)["__init__"])
    assert made(1).x == 1
