"""Annotations of the async face, and what becomes of them in the blocking one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.blocking_face.face import Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.blocking_face.source import Module, Package, Resolved

__all__ = [
    "HANDED_ON",
    "ITERATORS",
    "REFUSED",
    "Bound",
    "Fed",
    "Names",
    "identifiers",
    "last",
    "text",
    "union",
    "unquoted",
    "uses",
]

ITERATORS: Final = frozenset({"AsyncIterator", "AsyncIterable", "AsyncGenerator"})
REFUSED: Final = frozenset(
    {
        "AbstractAsyncContextManager", "AbstractEventLoop", "AsyncContextManager", "Awaitable",
        "Callable", "CancelScope", "Condition", "Coroutine", "Event", "Future", "Lock", "Queue",
        "Semaphore", "Task", "TaskGroup",
    }
)  # fmt: skip
"""What no signature of a facade may name: callbacks, tasks and futures."""
TOLD: Final = frozenset({"OnProgress"})
"""Callbacks that both faces take as they are: they are told something, and asked nothing."""
HANDED_ON: Final = frozenset({"OnProgress"})
"""Callbacks that are told something on the loop's thread, at once, whichever face they came by."""


class Bound(ast.Name):
    """A name, together with the module in which it means something."""

    module: Module


class Fed(ast.Subscript):
    """``Iterable[item]``, where the async face has an async iterator.

    `as_it_is` is whether the async face takes an iterable in its place.
    """

    as_it_is: bool = False


# ast.unparse goes by the names of classes.
Bound.__name__ = "Name"
Fed.__name__ = "Subscript"


class Names:
    """What the names of annotations stand for.

    `facades` are the classes that have a blocking twin, by module and name.
    """

    def __init__(self, package: Package, facades: dict[tuple[str, str], ast.ClassDef]) -> None:
        self._package = package
        self._facades = facades

    def facade(self, module: Module, name: str) -> Resolved | None:
        """The facade that `name` stands for in `module`, if it is one."""
        found = self._package.resolve(module, name)
        if found is not None and (found.module.name, found.name) in self._facades:
            return found
        return None

    def concern(self, module: Module, annotation: ast.expr | None) -> bool:
        """Whether `annotation` names a facade or an async iterator, be it through an alias."""
        return annotation is not None and any(
            name in ITERATORS
            or self.facade(module, name) is not None
            or ((alias := self.alias(module, name)) is not None and self.concern(*alias))
            for name in identifiers(unquoted(annotation))
        )

    def alias(self, module: Module, name: str) -> tuple[Module, ast.expr] | None:
        """The expression that `name` is a type alias of, and the module where it stands."""
        if name in TOLD:
            return None
        found = self._package.resolve(module, name)
        match None if found is None else found.node:
            case ast.Assign(value=value):
                pass
            case ast.AnnAssign(annotation=kind, value=ast.expr() as value) if (
                last(kind) == "TypeAlias"
            ):
                pass
            case _:
                return None
        assert found is not None
        return found.module, value

    def blocking(self, module: Module, annotation: ast.expr) -> ast.expr:
        """`annotation`, with its names bound, as it stands in the blocking face.

        Async iterators become iterables. An alias is spelt out where it names something that has
        another meaning in the blocking face, or none.
        """
        return _Blocking(self, module).part(unquoted(annotation))

    def special(self, module: Module, annotation: ast.expr) -> bool:
        """Whether an alias of `annotation` must be spelt out in the blocking face."""
        return self.concern(module, annotation) or any(
            name in REFUSED for name in identifiers(unquoted(annotation))
        )


class _Blocking(ast.NodeTransformer):
    def __init__(self, names: Names, module: Module) -> None:
        self._names = names
        self._module = module

    def part(self, node: ast.expr) -> ast.expr:
        changed = self.visit(node)
        assert isinstance(changed, ast.expr)
        return changed

    def visit_Name(self, node: ast.Name) -> ast.expr:
        alias = self._names.alias(self._module, node.id)
        if node.id not in HANDED_ON and alias is not None and self._names.special(*alias):
            return self._names.blocking(*alias)
        bound = Bound(id=node.id, ctx=ast.Load())
        bound.module = self._module
        return bound

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A union, whose members may have become the same."""
        members: dict[str, ast.expr] = {}
        for member in union(node):
            for inner in union(self.part(member)):
                known = members.setdefault(text(inner), inner)
                fed = next((each for each in (known, inner) if isinstance(each, Fed)), None)
                if fed is not None and known is not inner:
                    fed.as_it_is = True
                    members[text(inner)] = fed
        whole, *rest = members.values()
        for member in rest:
            whole = ast.BinOp(left=whole, op=ast.BitOr(), right=member)
        return whole

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if last(node.value) == "Literal":  # its strings are no annotations
            return ast.Subscript(value=self.part(node.value), slice=node.slice, ctx=ast.Load())
        if last(node.value) in ITERATORS:
            item = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            iterable = ast.Name(id="Iterable", ctx=ast.Load())
            return Fed(value=iterable, slice=self.part(item), ctx=ast.Load())
        return ast.Subscript(
            value=self.part(node.value), slice=self.part(node.slice), ctx=ast.Load()
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Attribute(value=self.part(node.value), attr=node.attr, ctx=ast.Load())

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        return ast.Tuple(elts=[self.part(item) for item in node.elts], ctx=ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self.part(unquoted(node)) if isinstance(node.value, str) else node


def uses(annotation: ast.expr) -> Iterator[Use]:
    """The bound names of a blocking annotation."""
    for node in ast.walk(annotation):
        if isinstance(node, Bound):
            yield Use(node.module, node.id, runtime=False)


def union(annotation: ast.expr) -> Iterator[ast.expr]:
    """The members of a union, or the annotation itself."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from union(left)
            yield from union(right)
        case ast.Subscript(value=value, slice=ast.Tuple(elts=members)) if last(value) == "Union":
            yield from members
        case ast.Subscript(value=value, slice=member) if last(value) == "Optional":
            yield from (member, ast.Constant(value=None))
        case _:
            yield annotation


def unquoted(annotation: ast.expr | None) -> ast.expr:
    """`annotation`, parsed if it is a string; None's for no annotation."""
    match annotation:
        case ast.Constant(value=str(quoted)):
            return ast.parse(quoted, mode="eval").body
        case None:
            return ast.Constant(value=None)
        case _:
            return annotation


def identifiers(annotation: ast.expr) -> Iterator[str]:
    """Every identifier of `annotation`, those behind a dot included."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def last(node: ast.expr) -> str:
    """The last identifier of a dotted name, of a call's function or of a subscript's value."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return last(inner)
        case _:
            return ""


def text(node: ast.expr) -> str:
    """Source text of `node`."""
    return ast.unparse(node)
