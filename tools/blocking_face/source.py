"""The source of a Python package as the generator reads it: modules, names, where they come from.

Nothing is imported: a face can be generated while the code behind it does not run yet.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Import", "Module", "Package", "Place", "Resolved"]

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Import:
    """How a module binds a name that is not its own: ``from module import name as alias``.

    `name` is None for a plain ``import module as alias``.
    """

    module: str
    name: str | None
    alias: str

    def __str__(self) -> str:
        """The statement."""
        if self.name is None:
            return f"import {self.module}" + self._as(self.module.partition(".")[0])
        return f"from {self.module} import {self.name}" + self._as(self.name)

    def _as(self, default: str) -> str:
        return "" if self.alias == default else f" as {self.alias}"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        """As editors and terminals know it."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A parsed module: itself alone is equal to it."""

    name: str
    path: Path
    exports: tuple[str, ...]
    imports: dict[str, Import] = field(repr=False)
    definitions: dict[str, Definition] = field(repr=False)

    def place(self, node: ast.AST) -> Place:
        """Where `node` stands."""
        return Place(self.path, getattr(node, "lineno", 1))

    @classmethod
    def parse(cls, name: str, path: Path) -> Module:
        """Read and parse the module at `path`."""
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        imports: dict[str, Import] = {}
        definitions: dict[str, Definition] = {}
        exports: tuple[str, ...] = ()
        for node in _statements(tree.body):
            match node:
                case ast.Import(names=names):
                    for item in names:
                        alias = item.asname or item.name.partition(".")[0]
                        imports[alias] = Import(item.name, None, alias)
                case ast.ImportFrom(module=str(source), names=names, level=0):
                    for item in names:
                        alias = item.asname or item.name
                        imports[alias] = Import(source, item.name, alias)
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    definitions[node.name] = node
                case ast.Assign(
                    targets=[ast.Name(id="__all__")],
                    value=ast.Call(func=ast.Name(id="exports"), args=[_, homes]),
                ):
                    exports = tuple(sorted(chain(*ast.literal_eval(homes).values())))
                case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                    exports = tuple(ast.literal_eval(value))
                case ast.Assign(targets=targets):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            definitions[target.id] = node
                case ast.AnnAssign(target=ast.Name(id=target_name)):
                    definitions[target_name] = node
                case _:
                    pass
        return cls(name, path, exports, imports, definitions)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, those below ``if`` (TYPE_CHECKING) and ``try`` included."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
            for handler in node.handlers:
                yield from _statements(handler.body)
        else:
            yield node


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name stands for: a definition of the package, or an import from elsewhere.

    Both are None for a builtin and for a submodule.
    """

    module: Module
    name: str
    node: Definition | None = None
    source: Import | None = None


class Package:
    """A package below `root`, its modules parsed when they are asked for."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module called `name`, None where the package has none."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> Module | None:
        if name != self.name and not name.startswith(self.name + "."):
            return None
        stem = self.root.joinpath(*name.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return Module.parse(name, path)
        return None

    def below(self, name: str) -> list[Module]:
        """The module called `name` and, where it is a package, its public and private modules."""
        first = self.module(name)
        if first is None:
            return []
        if first.path.name != "__init__.py":
            return [first]
        names = sorted(path.stem for path in first.path.parent.glob("*.py"))
        inner = [self.module(f"{name}.{stem}") for stem in names if stem != "__init__"]
        return [first, *(module for module in inner if module is not None)]

    def resolve(self, module: Module, name: str) -> Resolved | None:
        """What `name` stands for in `module`, followed through the package's own imports.

        None where nothing binds it.
        """
        if (node := module.definitions.get(name)) is not None:
            return Resolved(module, name, node)
        if (source := module.imports.get(name)) is not None:
            if source.name is not None and (origin := self.module(source.module)) is not None:
                inner = self.resolve(origin, source.name)
                if inner is not None:
                    return inner
            return Resolved(module, name, source=source)
        return Resolved(module, name) if hasattr(builtins, name) else None
