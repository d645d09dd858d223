"""What the grammar asks of one class or function, by its text alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.blocking_face.annotations import ITERATORS, last

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BLOCK",
    "OWN_RECIPE",
    "Def",
    "arguments",
    "is_async",
    "is_public",
    "signature",
    "with_docs",
    "yields",
]

Def = ast.FunctionDef | ast.AsyncFunctionDef

OWN_RECIPE: Final = frozenset({"__getstate__", "__reduce__", "__reduce_ex__"})
BLOCK: Final = frozenset({"__aenter__", "__aexit__", "__aiter__", "__anext__"})
_HANDLED: Final = (
    OWN_RECIPE
    | BLOCK
    | {"__del__", "__eq__", "__hash__", "__init__", "__init_subclass__", "__new__"}
    | {"__post_init__", "__repr__", "__setstate__", "__slots__", "__str__"}
)
"""Special names that need no twin: every handle has its own, or none is needed."""


def is_async(node: ast.ClassDef) -> bool:
    """Whether the class offers anything async, and is thus a facade."""
    for child in node.body:
        if isinstance(child, Def) and (is_public(child.name) or child.name in BLOCK):
            iterates = isinstance(child.returns, ast.Subscript) and last(child.returns) in ITERATORS
            if isinstance(child, ast.AsyncFunctionDef) or iterates:
                return True
    return False


def is_public(name: str) -> bool:
    """Whether a class's attribute of that name needs a twin."""
    if name.startswith("__") and name.endswith("__"):
        return name not in _HANDLED
    return not name.startswith("_")


def arguments(node: Def) -> list[ast.arg]:
    """Each parameter that has a name of its own, ``self`` among them."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def signature(node: Def, *, method: bool) -> list[tuple[ast.arg, str, ast.expr | None]]:
    """Each parameter but ``self`` with its kind, as inspect names it, and its default."""
    args = node.args
    first = len(args.posonlyargs)
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    defaults.extend(args.defaults)
    rows = [
        (argument, "POSITIONAL_ONLY" if index < first else "POSITIONAL_OR_KEYWORD", default)
        for index, (argument, default) in enumerate(zip(positional, defaults, strict=True))
    ]
    if args.vararg is not None:
        rows.append((args.vararg, "VAR_POSITIONAL", None))
    rows.extend(
        (argument, "KEYWORD_ONLY", default)
        for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    )
    if args.kwarg is not None:
        rows.append((args.kwarg, "VAR_KEYWORD", None))
    return rows[1:] if method else rows


def yields(node: ast.AsyncFunctionDef) -> bool:
    """Whether it is an async generator."""
    todo: list[ast.AST] = list(node.body)
    while todo:
        inner = todo.pop()
        if isinstance(inner, ast.Yield):
            return True
        if not isinstance(inner, Def | ast.Lambda):
            todo.extend(ast.iter_child_nodes(inner))
    return False


def with_docs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Statements, each with the string below it, which documents an attribute."""
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match after:
            case ast.Expr(value=ast.Constant(value=str(doc))):
                yield statement, doc
            case _:
                yield statement, ""
