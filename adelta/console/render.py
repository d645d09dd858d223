"""What a command prints: tables for people, JSON lines for programs.

`Output` is the only writer to standard output. Text that comes from a table is data: control
characters are shown as escapes and never reach the terminal, and brackets are not markup.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adelta.console.json_values import dumps

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Output", "Unbroken", "camel_case", "counted", "plain", "size"]

_UNBOUNDED = 100_000  # columns of a pipe: lines are not folded for a program or a file
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}
_PADDING, _READABLE = 2, 30  # characters beside each column; those of a text that is worth folding
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


class Unbroken(str):
    """A text that a table shows on one line, however narrow it is."""

    __slots__ = ()


class Output:
    """Standard output, in one of two manners.

    Attributes:
        as_json: JSON lines for programs rather than tables for people.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        terminal = sys.stdout.isatty()
        self.console = Console(
            file=sys.stdout,
            width=None if terminal else _UNBOUNDED,
            highlight=False,
            soft_wrap=not terminal,
        )
        self._folds = terminal

    def line(self, value: object) -> None:
        """Print one value as a line of JSON, at once."""
        self.raw(dumps(value))

    def raw(self, text: str) -> None:
        """Print a line that is JSON already, at once."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def lines(self, values: Iterable[object]) -> None:
        """Print every value as a line of JSON."""
        for value in values:
            sys.stdout.write(dumps(value) + "\n")

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence for people."""
        self.console.print(Text(text.translate(_ESCAPES), style=style))

    def record(self, values: Mapping[str, object]) -> None:
        """Print one object: a line of JSON, or a name and a value on each line."""
        if self.as_json:
            self.line(values)
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, value in values.items():
            entries = value.items() if isinstance(value, Mapping) and self._folds else ()
            lines = [_cell({key: item}) for key, item in entries] or [_cell(value)]
            table.add_row(_cell(name), Text("\n").join(lines))
        self.console.print(table)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        right: Collection[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """Print a table for people; numbers stand to the right, and so do the columns `right`.

        On a narrow terminal columns of `spare` are left out, in that order, so that the others can
        be read.
        """
        body = [list(row) for row in rows]
        columns, body = self._fitting(columns, body, spare)
        table = Table(box=SIMPLE_HEAD)
        for index, column in enumerate(columns):
            present = [row[index] for row in body if row[index] is not None]
            numeric = column in right or (bool(present) and all(map(_is_number, present)))
            table.add_column(
                Text(column.translate(_ESCAPES)),
                justify="right" if numeric else "left",
                overflow="fold",
                no_wrap=numeric or any(isinstance(v, dt.datetime | Unbroken) for v in present),
            )
        for row in body:
            table.add_row(*(_cell(value) for value in row))
        self.console.print(table)

    def _fitting(
        self, columns: Sequence[str], body: list[list[object]], spare: Sequence[str]
    ) -> tuple[list[str], list[list[object]]]:
        """The columns that there is room for, and their cells."""
        wide = {
            name: max((cell_len(plain(row[at])) for row in body), default=0)
            for at, name in enumerate(columns)
        }
        needed = {name: max(cell_len(name), min(wide[name], _READABLE)) for name in columns}
        for name in spare:
            if sum(needed.values()) + _PADDING * (len(needed) + 1) > self.console.width:
                del needed[name]
        kept = [at for at, name in enumerate(columns) if name in needed]
        return [columns[at] for at in kept], [[row[at] for at in kept] for row in body]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> Text:
    if value is None:
        return Text("-", style="dim")
    return Text(plain(value).translate(_ESCAPES))


def plain(value: object) -> str:
    """A value as a person would write it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S") + " UTC"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(plain(item) for item in value)
    return str(value)


def camel_case(value: DataclassInstance) -> dict[str, object]:
    """The fields of a value, and of values in it, in Delta's spelling: ``numFiles``."""
    record: dict[str, object] = {}
    for field in fields(value):
        first, *rest = field.name.split("_")
        found = getattr(value, field.name)
        record[first + "".join(map(str.capitalize, rest))] = (
            camel_case(found) if is_dataclass(found) and not isinstance(found, type) else found
        )
    return record


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(count: int | None) -> str | None:
    """A number of bytes in the unit that suits it."""
    if count is None:
        return None
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
