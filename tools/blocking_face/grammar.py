"""The facade grammar: what the async face may offer so that a blocking twin can be made of it.

A public async class (a *facade*) or function may offer

* plain properties, methods and functions that return values or facades;
* ``async def`` that returns a value, a facade, a facade or None, or a list or tuple of facades;
* methods and functions that return ``AsyncIterator[value]``;
* facades derived from one another, where the derived one adds methods or has its own constructor;
* ``async with`` on a facade, giving the facade itself or a tuple of others, and ``async for`` over
  one;
* arguments that are values, facades, mappings of names to facades, or (for ``async def``) async
  iterators of values, which other functions take where they take iterables too: these are handed
  on as they are;
* arguments of an async port: a `Protocol`, or a class that says it is one by its bases. The user
  hands over an object that the engine waits for on its own loop, the same in both faces.

No callbacks, tasks or futures. Anything else is refused with file and line: the blocking face may
be late, but not wrong.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NoReturn

from adelta.errors import InvalidUseError
from tools.blocking_face.annotations import (
    ITERATORS,
    REFUSED,
    Bound,
    Fed,
    Names,
    identifiers,
    last,
    text,
    union,
    unquoted,
    uses,
)
from tools.blocking_face.face import (
    Facade,
    Face,
    Function,
    Parameter,
    Property,
    Result,
    Shape,
    Use,
)
from tools.blocking_face.syntax import (
    OWN_RECIPE,
    Def,
    arguments,
    is_async,
    is_public,
    signature,
    with_docs,
    yields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tools.blocking_face.source import Module, Package, Place, Resolved

__all__ = ["read"]

_TRANSPARENT: Final = frozenset({"checked", "stream"})
_LISTS: Final = frozenset({"list", "List", "Sequence"})


def read(
    package: Package,
    faced: Iterable[str],
    left_out: Iterable[str] = (),
    by_hand: Iterable[str] = (),
    mixins: Mapping[str, str] | None = None,
) -> Face:
    """The face that `package` exports; its facades and functions stand in the `faced` modules.

    `left_out` names members (``Class.member``) that get no twin, and `by_hand` functions whose
    twins stand in a module of their own (``_name``). `mixins` are classes of the blocking face, by
    the names of the facades whose twins are such, too.

    Raises:
        InvalidUseError: something breaks the grammar; the message has file and line. Or there is
            nothing of a name that is to be left out.
    """
    return _Reader(package, faced, left_out, by_hand, mixins or {}).read()


def _refuse(place: Place, why: str) -> NoReturn:
    raise InvalidUseError(f"{place}: {why}, for which there is no blocking twin")


@dataclass(frozen=True, slots=True)
class _Site:
    """Where an annotation stands, what it is of, and the names used so far."""

    module: Module
    place: Place
    what: str
    used: set[Use] = field(default_factory=set)

    def refuse(self, why: str) -> NoReturn:
        _refuse(self.place, f"{self.what} {why}")


def _decorators(node: Def) -> list[str]:
    """What a function is decorated with, but for what leaves its signature as it is."""
    return [name for name in map(last, node.decorator_list) if name not in _TRANSPARENT]


class _Reader:
    def __init__(
        self,
        package: Package,
        faced: Iterable[str],
        left_out: Iterable[str],
        by_hand: Iterable[str],
        mixins: Mapping[str, str],
    ) -> None:
        self._package = package
        self._mixins = mixins
        self._by_hand = tuple(by_hand)
        self._left_out = set(left_out)
        self._never_met = set(left_out)
        self._faced = {module.name: module for name in faced for module in package.below(name)}
        self._classes: dict[tuple[str, str], ast.ClassDef] = {}
        self._names = Names(package, self._classes)
        self._find_facades()

    def _find_facades(self) -> None:
        """Facades are the public classes that wait, and those that hand out facades."""
        public = {
            (module.name, node.name): (module, node)
            for module in self._faced.values()
            for node in module.definitions.values()
            if isinstance(node, ast.ClassDef)
            and not node.name.startswith("_")
            and not self._is_port(module, node)
        }
        known = -1
        while known < len(self._classes):
            known = len(self._classes)
            for key, (module, node) in public.items():
                if (
                    self._base(module, node)
                    or is_async(node)
                    or any(
                        self._names.concern(module, child.returns)
                        for child in node.body
                        if isinstance(child, Def) and is_public(child.name)
                    )
                ):
                    self._classes[key] = node

    def _base(self, module: Module, node: ast.ClassDef) -> Resolved | None:
        """The facade that a class is derived from, if it is from one."""
        names = (base.id for base in node.bases if isinstance(base, ast.Name))
        return next(filter(None, (self._names.facade(module, name) for name in names)), None)

    def _methods(self, facade: Resolved) -> dict[str, Def]:
        """The methods of a facade, those of what it is derived from among them."""
        node = self._classes[facade.module.name, facade.name]
        own = {child.name: child for child in node.body if isinstance(child, Def)}
        base = self._base(facade.module, node)
        return own if base is None else self._methods(base) | own

    def read(self) -> Face:
        top = self._package.module(self._package.name)
        if top is None:
            raise InvalidUseError(
                f"there is no package {self._package.name} in {self._package.root}"
            )
        facades: dict[str, Facade] = {}
        functions: list[tuple[Module, Function]] = []
        shared: list[str] = []
        by_hand: list[str] = []
        for name in top.exports:
            found = self._package.resolve(top, name)
            if name in self._by_hand:
                by_hand.append(name)
                continue
            if found is None or found.node is None:
                shared.append(name)
            elif self._names.facade(found.module, found.name):
                facades[name] = self._facade(found)
            elif self._needs_twin(found) and isinstance(found.node, Def):
                functions.append((found.module, self._function(found.module, found.node)))
            else:
                self._refuse_unfaced(found)
                shared.append(name)
        self._follow(facades, functions)
        self._construct(facades, functions)
        self._refuse_owned(facades)
        if self._never_met:
            raise InvalidUseError(
                f"nothing is called {', '.join(sorted(self._never_met))}: no need to leave it out"
            )
        return Face(tuple(facades.values()), tuple(functions), tuple(shared), tuple(by_hand))

    def _needs_twin(self, found: Resolved) -> bool:
        node = found.node
        if found.module.name not in self._faced or not isinstance(node, Def):
            return False
        annotations = [node.returns, *(argument.annotation for argument in arguments(node))]
        return isinstance(node, ast.AsyncFunctionDef) or any(
            self._names.concern(found.module, annotation) for annotation in annotations
        )

    def _refuse_unfaced(self, found: Resolved) -> None:
        node = found.node
        if isinstance(node, ast.AsyncFunctionDef) or (
            isinstance(node, ast.ClassDef)
            and is_async(node)
            and not self._is_port(found.module, node)
        ):
            where = f"{found.module.name}, which is none of the modules that are faced"
            assert node is not None
            _refuse(found.module.place(node), f"{found.name} is async, and exported from {where}")

    def _follow(self, facades: dict[str, Facade], functions: list[tuple[Module, Function]]) -> None:
        """Add the facades that are handed out without being exported."""
        todo = [use for _, function in functions for use in function.uses]
        todo.extend(use for facade in facades.values() for use in facade.uses)
        while todo:
            use = todo.pop()
            found = self._names.facade(use.module, use.name)
            if found is not None and found.name not in facades:
                facades[found.name] = self._facade(found)
                todo.extend(facades[found.name].uses)

    def _construct(
        self, facades: dict[str, Facade], functions: list[tuple[Module, Function]]
    ) -> None:
        """Give a public constructor to those facades that nothing hands out."""
        made = {function.result.inner for _, function in functions}
        for facade in facades.values():
            made.update(m.result.inner for m in facade.members if m.result.inner != facade.name)
            if facade.entered is not None:
                made.add(facade.entered.inner)
        for name, facade in facades.items():
            node = self._classes[facade.module.name, facade.name]
            if name in made:
                continue
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                    constructor = self._function(facade.module, statement, owner=name)
                    facades[name] = replace(
                        facade, constructor=constructor, uses=facade.uses | constructor.uses
                    )
                    break
            else:
                _refuse(facade.place, f"{name} is handed out by nothing and has no __init__")

    @staticmethod
    def _refuse_owned(facades: dict[str, Facade]) -> None:
        for facade in facades.values():
            for member in facade.members:
                inner = facades.get(member.result.inner)
                if isinstance(member, Property) and inner is not None and inner.closes:
                    _refuse(
                        member.place,
                        f"property {facade.name}.{member.name} hands out a {inner.name}, which is "
                        "closed by whoever made it",
                    )

    # Classes.

    def _facade(self, found: Resolved) -> Facade:
        node = self._classes[found.module.name, found.name]
        module = found.module
        own = {child.name: child for child in node.body if isinstance(child, Def)}
        methods = self._methods(found)
        members: list[Property | Function] = []
        for statement, doc in with_docs(node.body):
            name = f"{node.name}.{getattr(statement, 'name', '')}"
            self._never_met.discard(name)
            if name not in self._left_out:
                members.extend(self._members(module, node, statement, doc))
        used = {use for member in members for use in member.uses}
        base = self._base(module, node)
        if base is not None:
            used.add(Use(module, base.name, runtime=True))
        return Facade(
            node.name,
            module,
            ast.get_docstring(node) or "",
            tuple(members),
            None,
            self._block(module, node, methods),
            self._entered(module, node, methods, used),
            self._item(module, node, own, used),
            copies=bool(methods.keys() & OWN_RECIPE),
            closes="aclose" in methods,
            base=None if base is None else base.name,
            uses=frozenset(used),
            place=module.place(node),
            mixin=self._mixins.get(node.name),
        )

    def _members(
        self, module: Module, owner: ast.ClassDef, statement: ast.stmt, doc: str
    ) -> Iterator[Property | Function]:
        match statement:
            case ast.FunctionDef(name="__init__", body=body):
                for inner, inner_doc in with_docs(body):
                    yield from self._attribute(module, owner, inner, inner_doc)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if is_public(statement.name):
                yield self._member(module, owner, statement)
            case ast.ClassDef(name=name) if is_public(name):
                _refuse(module.place(statement), f"{owner.name}.{name} is a class in a class")
            case _:
                yield from self._attribute(module, owner, statement, doc)

    def _attribute(
        self, module: Module, owner: ast.ClassDef, statement: ast.stmt, doc: str
    ) -> Iterator[Property]:
        match statement:
            case (
                ast.AnnAssign(target=ast.Name(id=name), annotation=annotation)
                | ast.AnnAssign(
                    target=ast.Attribute(value=ast.Name(id="self"), attr=name),
                    annotation=annotation,
                )
            ) if is_public(name):
                site = _Site(module, module.place(statement), f"{owner.name}.{name}")
                result = self._result(site, annotation, owner.name)
                doc = doc or f"The async handle's `{name}`."
                yield Property(name, result, doc, frozenset(site.used), site.place)
            case ast.Assign(
                targets=[ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name)]
            ) if is_public(name):
                _refuse(
                    module.place(statement),
                    f"{owner.name}.{name} is public and has no annotation",
                )
            case _:
                pass

    def _member(self, module: Module, owner: ast.ClassDef, node: Def) -> Property | Function:
        site = _Site(module, module.place(node), f"{owner.name}.{node.name}")
        decorators = _decorators(node)
        if not decorators:
            return self._function(module, node, owner=owner.name)
        if decorators not in (["property"], ["cached_property"]):
            site.refuse(f"is decorated with {', '.join(decorators)}")
        if isinstance(node, ast.AsyncFunctionDef) or node.returns is None:
            site.refuse("is a property that waits, or has no annotation")
        result = self._result(site, node.returns, owner.name)
        if result.shape is Shape.ITERATOR:
            site.refuse("is a property that gives an iterator")
        doc = ast.get_docstring(node) or ""
        return Property(node.name, result, doc, frozenset(site.used), site.place)

    @staticmethod
    def _block(module: Module, owner: ast.ClassDef, methods: dict[str, Def]) -> str | None:
        """What leaving the block returns, where ``async with`` works on the class."""
        if "__aenter__" not in methods or "__aexit__" not in methods:
            return None
        returns = methods["__aexit__"].returns
        return "None" if text(unquoted(returns)) == "None" else "bool | None"

    def _entered(
        self, module: Module, owner: ast.ClassDef, methods: dict[str, Def], used: set[Use]
    ) -> Result | None:
        """What ``async with`` gives, where it is not the facade itself."""
        entry = methods.get("__aenter__")
        if entry is None or text(unquoted(entry.returns)) in {owner.name, "Self"}:
            return None
        site = _Site(module, module.place(entry), f"`async with` on a {owner.name}", used)
        result = None if entry.returns is None else self._result(site, entry.returns, owner.name)
        if result is None or result.shape is not Shape.TUPLE:
            site.refuse("gives something else")
        return result

    def _item(
        self, module: Module, owner: ast.ClassDef, methods: dict[str, Def], used: set[Use]
    ) -> str | None:
        """What ``async for`` over the class gives, where it works."""
        iter_, next_ = methods.get("__aiter__"), methods.get("__anext__")
        annotation: ast.expr | None = None
        match None if iter_ is None else unquoted(iter_.returns):
            case ast.Subscript(value=value, slice=item) if last(value) in ITERATORS:
                annotation = item.elts[0] if isinstance(item, ast.Tuple) else item
            case None:
                return None
            case _ if next_ is not None:
                annotation = next_.returns
        assert iter_ is not None
        site = _Site(module, module.place(iter_), f"`async for` over a {owner.name}", used)
        if annotation is None:
            site.refuse("gives items without an annotation")
        return self._value(site, annotation)

    # Functions.

    def _function(self, module: Module, node: Def, *, owner: str | None = None) -> Function:
        name = node.name if owner is None else f"{owner}.{node.name}"
        site = _Site(module, module.place(node), name)
        if decorators := _decorators(node):
            site.refuse(f"is decorated with {', '.join(decorators)}")
        if node.returns is None:
            site.refuse("has no annotation of what it returns")
        result = self._result(site, node.returns, owner)
        waits = isinstance(node, ast.AsyncFunctionDef) and not yields(node)
        if (result.shape is Shape.ITERATOR) == waits and (
            waits or isinstance(node, ast.AsyncFunctionDef)
        ):
            site.refuse("is neither a coroutine function of a value nor a generator of values")
        parameters = tuple(
            self._parameter(site, argument, kind, default, waits=waits)
            for argument, kind, default in signature(node, method=owner is not None)
        )
        doc = ast.get_docstring(node) or ""
        return Function(node.name, parameters, result, doc, waits, frozenset(site.used), site.place)

    def _parameter(
        self,
        function: _Site,
        argument: ast.arg,
        kind: str,
        default: ast.expr | None,
        *,
        waits: bool,
    ) -> Parameter:
        module = function.module
        what = f"argument {argument.arg} of {function.what}"
        site = _Site(module, module.place(argument), what, function.used)
        if argument.annotation is None:
            site.refuse("has no annotation")
        if argument.arg.startswith("_"):
            site.refuse("is private")
        annotation = self._names.blocking(module, argument.annotation)
        self._refuse_names(site, annotation)
        members = list(union(annotation))
        facade = any(self._is_facade(member) for member in members)
        named = [inside for member in members for inside in self._named(member)]
        streams = [member for member in members if isinstance(member, Fed)]
        if not waits and not all(stream.as_it_is for stream in streams):
            function.refuse(
                f"takes the async iterator {argument.arg}, but is no coroutine function that "
                "reads it before it returns"
            )
        feed = waits and bool(streams)
        for member in [*members, *named]:
            if not self._is_facade(member) and not self._named(member):
                inner = member.slice if isinstance(member, Fed) else member
                self._refuse_inside(site, inner)
        if (named or feed or (facade and len(members) > 1)) and kind.startswith("VAR"):
            site.refuse("takes more than values")
        if facade and kind == "VAR_KEYWORD":
            site.refuse("takes more than values")
        site.used.update(uses(annotation))
        if default is not None:
            names = (node.id for node in ast.walk(default) if isinstance(node, ast.Name))
            site.used.update(Use(module, name, runtime=True) for name in names)
        return Parameter(
            argument.arg,
            kind,
            text(annotation),
            None if default is None else text(default),
            facade,
            bool(named),
            feed,
        )

    def _named(self, member: ast.expr) -> list[ast.expr]:
        """What a mapping of texts holds, where facades are among that."""
        match member:
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[key, inside])) if (
                last(value) == "Mapping" and text(key) == "str"
            ):
                found = list(union(inside))
                return found if any(map(self._is_facade, found)) else []
        return []

    # Annotations.

    def _result(self, site: _Site, annotation: ast.expr, owner: str | None) -> Result:
        match unquoted(annotation):
            case ast.Subscript(value=value, slice=item) if last(value) in ITERATORS:
                item = item.elts[0] if isinstance(item, ast.Tuple) else item
                inner = self._value(site, item)
                return Result(Shape.ITERATOR, f"BlockingIterator[{inner}]", inner)
            case ast.Name(id="Self") if owner is not None:
                return Result(Shape.FACADE, owner, owner)
            case ast.Name(id=name) if self._hands_out(site, name):
                return Result(Shape.FACADE, name, name)
            case ast.Subscript(value=value, slice=ast.Name(id=name)) if last(
                value
            ) in _LISTS and self._hands_out(site, name):
                return Result(Shape.FACADES, f"list[{name}]", name)
            case ast.Subscript(
                value=value,
                slice=ast.Tuple(elts=[ast.Name(id=name), ast.Constant(value=rest)]),
            ) if last(value) == "tuple" and rest is ... and self._hands_out(site, name):
                return Result(Shape.TUPLE, f"tuple[{name}, ...]", name)
            case ast.BinOp(left=ast.Name(id=name), right=ast.Constant(value=None)) if (
                self._hands_out(site, name)
            ):
                return Result(Shape.FACADE_OR_NONE, f"{name} | None", name)
            case other:
                return Result(Shape.VALUE, self._value(site, other))

    def _hands_out(self, site: _Site, name: str) -> bool:
        if self._names.facade(site.module, name) is None:
            return False
        site.used.add(Use(site.module, name, runtime=True))
        return True

    def _value(self, site: _Site, annotation: ast.expr) -> str:
        """Blocking text of `annotation`, which names values alone."""
        blocking = self._names.blocking(site.module, annotation)
        self._refuse_names(site, blocking)
        self._refuse_inside(site, blocking)
        site.used.update(uses(blocking))
        return text(blocking)

    def _is_facade(self, node: ast.AST) -> bool:
        return isinstance(node, Bound) and self._names.facade(node.module, node.id) is not None

    @staticmethod
    def _refuse_names(site: _Site, annotation: ast.expr) -> None:
        for name in identifiers(annotation):
            if name in REFUSED:
                site.refuse(f"names {name}")

    def _refuse_inside(self, site: _Site, annotation: ast.expr) -> None:
        for node in ast.walk(annotation):
            if self._is_facade(node) or isinstance(node, Fed):
                site.refuse(f"has {text(annotation)}: a handle or an async iterator inside a type")
            found = self._package.resolve(node.module, node.id) if isinstance(node, Bound) else None
            if found is None or not isinstance(found.node, ast.ClassDef):
                continue
            if is_async(found.node) and not self._is_port(found.module, found.node):
                site.refuse(f"names {found.name}, which is async")

    def _is_port(self, module: Module, node: ast.ClassDef) -> bool:
        """Whether a class is a `Protocol`, or has one among its bases."""
        for base in node.bases:
            if last(base) == "Protocol":
                return True
            found = self._package.resolve(module, base.id) if isinstance(base, ast.Name) else None
            if (
                found is not None
                and isinstance(found.node, ast.ClassDef)
                and self._is_port(found.module, found.node)
            ):
                return True
        return False
