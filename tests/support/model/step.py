"""What a step is: something that a table and a model of it do together.

A step is a value, drawn for a model as it is. `run` does it to a real table, and `apply` to a
model, which need not be the one that it was drawn for: where others came first it may be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tests.support.model.table import WHOLE, Condition, ModelTable, any_value

if TYPE_CHECKING:
    import random

    from adelta.table import Table

__all__ = ["Effect", "Step", "any_condition", "columns_of", "new_rows"]

Named = dict[str, Any]


@dataclass(frozen=True)
class Effect:
    """What is known of a step beside the contents.

    `touched` are the keys of rows that were written anew, with a version of their own, and
    `commits` is None where it is not known whether there is a commit. `ids` says what becomes of
    row ids: ``kept``, ``new``, or those of a version.
    """

    operation: str
    touched: frozenset[int] = frozenset()
    commits: bool | None = True
    ids: Literal["kept", "new"] | int = "kept"


class Step:
    """One operation, with its arguments."""

    feature: ClassVar[str] = ""

    @classmethod
    def draw(cls, source: random.Random, model: ModelTable, keys: range) -> Step | None:
        """One that makes sense for the model; its new rows have some of the keys."""
        raise NotImplementedError

    async def run(self, table: Table) -> object:
        """Do it to a table."""
        raise NotImplementedError

    def apply(self, model: ModelTable) -> Effect:
        """Do it to a model, or raise Refused."""
        raise NotImplementedError


def any_condition(source: random.Random, model: ModelTable) -> Condition:
    """A condition on some column that the model has."""
    whole = [c for c in model.columns if c.kind in WHOLE and not c.identity]
    texts = [c for c in model.columns if c.kind == "string"]
    column = source.choice(whole + texts)
    if column in texts:
        value = source.choice(["x", "y z%", "a/b", None])
        if value is None:
            return Condition(column.name, "IS NULL")
        return Condition(column.name, source.choice(["=", ">=", "<"]), value)
    if source.random() < 0.15:
        return Condition(column.name, "IS NULL")
    last = max(model.rows, default=0) if column.uid == 0 else 60
    match source.choice(["<", ">=", "%"]):
        case "%":
            return Condition(column.name, "%", source.randint(2, 5))
        case operator:
            return Condition(column.name, operator, source.randint(0, last))


def new_rows(source: random.Random, model: ModelTable, keys: range, most: int = 6) -> list[Named]:
    """Rows with new keys, as a user gives them; now and then some columns are left out."""
    given = [c for c in model.columns if c.given]
    out = {c.uid for c in given if c.default is not None and source.random() < 0.5}
    return [
        {c.name: key if c.uid == 0 else any_value(source, c) for c in given if c.uid not in out}
        for key in keys[: source.randint(1, most)]
    ]


def columns_of(rows: list[Named]) -> list[str]:
    return list(rows[0])
