"""Guards taken out of a module, one at a time: where they are found, and what is left without them.

if broken: raise ...            →  if False: raise ...
_check_something(...)           →  pass
now = _check_something(now)     →  pass
a and b                         →  a, and b               in the modules of rules
if harmless: return             →  if False: return       in the modules of rules
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Mutant", "mutants_of"]

_CHECKS = ("check", "_check", "refuse", "_refuse")


@dataclass(frozen=True)
class Mutant:
    """One guard taken out: the text of `module` from `start` to `end` is replaced by `text`."""

    module: str
    line: int
    start: int
    end: int
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.what}"

    def apply(self, source: str) -> str:
        """The module without the guard."""
        encoded = source.encode()
        return (encoded[: self.start] + self.text.encode() + encoded[self.end :]).decode()


def mutants_of(module: str, source: str, *, rules: bool) -> Iterator[Mutant]:
    """Those of one module; `rules` is whether its conditions are the rules themselves."""
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))

    def mutant(node: ast.expr | ast.stmt, text: str, what: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        return Mutant(module, node.lineno, start, end, text, what)

    for node in ast.walk(_without_typing(ast.parse(source))):
        if isinstance(node, ast.If) and _guards(node, rules=rules):
            yield mutant(node.test, "False", f"never: if {ast.unparse(node.test)}")
        elif isinstance(node, ast.Expr | ast.Assign) and _is_check(node):
            yield mutant(node, "pass", f"without: {ast.unparse(node)}")
        elif isinstance(node, ast.BoolOp) and rules and not _has_default(node):
            word = " and " if isinstance(node.op, ast.And) else " or "
            for at, left_out in enumerate(node.values):
                rest = [ast.unparse(each) for each in node.values if each is not left_out]
                text = "(" + word.join(f"({each})" for each in rest) + ")"
                what = f"without operand {at + 1} of: {ast.unparse(node)}"
                yield mutant(node, text, what)


def _guards(node: ast.If, *, rules: bool) -> bool:
    last = node.body[-1]
    return isinstance(last, ast.Raise) or (rules and isinstance(last, ast.Return | ast.Continue))


def _is_check(node: ast.Expr | ast.Assign) -> bool:
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func).rpartition(".")[2]
    if not name.startswith(_CHECKS):
        return False
    if isinstance(node, ast.Expr):
        return True
    known = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    return all(isinstance(each, ast.Name) and each.id in known for each in node.targets)


def _has_default(node: ast.BoolOp) -> bool:
    """Whether it says `value or ()`, which is no rule."""
    return isinstance(node.values[-1], ast.Constant | ast.Tuple | ast.List | ast.Dict)


def _without_typing(tree: ast.Module) -> ast.Module:
    """Without what is only there for type checkers."""
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return tree
