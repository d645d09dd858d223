"""Types as Spark's SQL writes them ⇄ Delta's types: ``bigint``, ``array<struct<a: decimal(9,2)>>``.

Delta's own names (``long``) are understood as well, so that the text of a type gives that type.
"""

from __future__ import annotations

import re
from typing import NoReturn

from adelta.errors import InvalidOptionError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.geospatial import crs_of_srid, shape_of

__all__ = ["parse_column", "parse_columns", "parse_type", "type_text"]

_PRIMITIVES = {
    "bigint": t.LONG,
    "long": t.LONG,
    "int": t.INTEGER,
    "integer": t.INTEGER,
    "smallint": t.SHORT,
    "short": t.SHORT,
    "tinyint": t.BYTE,
    "byte": t.BYTE,
    "float": t.FLOAT,
    "real": t.FLOAT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "boolean": t.BOOLEAN,
    "binary": t.BINARY,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
    "timestamp_ltz": t.TIMESTAMP,
    "timestamp_ntz": t.TIMESTAMP_NTZ,
    "variant": t.VARIANT,
    "void": t.VOID,
}
_TEXTS = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_DECIMALS = ("decimal", "dec", "numeric")
_SHAPES = ("geometry", "geography")
_TOKEN = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`"
    r"|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|([^\s<>(),:`'\"]+)|([<>(),:]))",
    re.DOTALL,
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_TEXT = "'"
"""What stands in front of a token that is a text in quotes."""
_MAX_DEPTH = 100
_MAX_PRECISION = 38


def parse_type(text: str) -> t.DataType:
    """The type that a text names.

    Example: ``map<string, array<int>>``.

    Raises:
        InvalidOptionError: it names none.
    """
    reading = _Reading(text)
    found = reading.type(0)
    reading.end()
    return found


def parse_column(text: str) -> t.StructField:
    """The column that a text describes: its name, a colon or a blank, and its type.

    Example: ``price: decimal(9,2)``, or ``id bigint NOT NULL COMMENT 'its number'``.

    Raises:
        InvalidOptionError: it describes none.
    """
    reading = _Reading(text)
    found = reading.field(0)
    reading.end()
    return found


def parse_columns(text: str) -> t.StructType:
    """The columns that a text describes, one behind the other as `parse_column` has each.

    Example: ``year INT, month INT``.

    Raises:
        InvalidOptionError: it describes none.
    """
    reading = _Reading(text, _COLUMNS)
    fields = [reading.field(0)]
    while reading.comma():
        fields.append(reading.field(0))
    reading.end()
    return t.StructType(tuple(fields))


def type_text(data_type: t.DataType) -> str:
    """The text of a type, as DESCRIBE shows it.

    Example: ``map<string,array<int>>``.
    """
    match data_type:
        case t.StructType():
            fields = (f"{_name(f.name)}:{type_text(f.type)}" for f in data_type)
            return f"struct<{','.join(fields)}>"
        case t.ArrayType(element):
            return f"array<{type_text(element)}>"
        case t.MapType(key, value):
            return f"map<{type_text(key)},{type_text(value)}>"
    return _TEXTS.get(str(data_type), str(data_type))


def _name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])


_TYPE = (
    "no type",
    "bigint, decimal(9,2), array<string>, map<string, int> or struct<name: type, ...>",
)
_COLUMNS = "no list of columns", "id bigint NOT NULL, city string, fare decimal(9,2)"


class _Reading:
    """A text being read; `what` is what it is not where it cannot be, and what to write."""

    def __init__(self, text: str, what: tuple[str, str] = _TYPE) -> None:
        self._text = text
        self._what = what
        self._tokens: list[tuple[str, bool]] = []  # and whether it is a name
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                self._refuse(f"{text[position:][:40]!r} is not understood")
            quoted, written, name, sign = match.groups()
            token = quoted.replace("``", "`") if quoted else name or sign
            if written:
                inside = re.sub(r"\\(.)", _unescaped, written[1:-1], flags=re.DOTALL)
                token = _TEXT + inside
            self._tokens.append((token, not written and sign is None))
            position = match.end()
        self._at = 0

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidOptionError(
            f"{self._text[:200]!r} is {self._what[0]}: {why}; write {self._what[1]}"
        )

    def _next(self) -> tuple[str, bool]:
        if self._at == len(self._tokens):
            self._refuse("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, *words: str) -> bool:
        following = self._tokens[self._at : self._at + len(words)]
        if tuple(token.lower() for token, _ in following) != words:
            return False
        self._at += len(words)
        return True

    def _expect(self, sign: str) -> None:
        token, _ = self._next()
        if token != sign:
            self._refuse(f"there is {token!r} where {sign!r} belongs")

    def comma(self) -> bool:
        return self._takes(",")

    def end(self) -> None:
        if self._at < len(self._tokens):
            self._refuse(f"{self._tokens[self._at][0]!r} is too much")

    def field(self, depth: int) -> t.StructField:
        name, is_name = self._next()
        if not is_name:
            self._refuse(f"there is {name!r} where a name belongs")
        self._takes(":")
        data_type = self.type(depth + 1)
        nullable, metadata = not self._takes("not", "null"), dict[str, str]()
        if self._takes("comment"):
            text, is_name = self._next()
            if is_name or not text.startswith(_TEXT):
                self._refuse(f"there is {text!r} where a comment in quotes belongs")
            metadata["comment"] = text.removeprefix(_TEXT)
        return t.StructField(name, data_type, nullable, metadata)

    def type(self, depth: int) -> t.DataType:
        if depth > _MAX_DEPTH:
            self._refuse(f"it nests deeper than {_MAX_DEPTH} levels")
        name, is_name = self._next()
        word = name.lower()
        if not is_name:
            self._refuse(f"there is {name!r} where the name of a type belongs")
        if word in _PRIMITIVES:
            return _PRIMITIVES[word]
        if word in _DECIMALS:
            return self._decimal()
        if word in _SHAPES:
            return self._shape(word)
        if word not in ("array", "map", "struct"):
            self._refuse(f"there is no type {name!r}")
        self._expect("<")
        made: t.DataType
        if word == "array":
            made = t.ArrayType(self.type(depth + 1))
        elif word == "map":
            key = self.type(depth + 1)
            self._expect(",")
            made = t.MapType(key, self.type(depth + 1))
        else:
            fields = [self.field(depth)]
            while self._takes(","):
                fields.append(self.field(depth))
            made = t.StructType(tuple(fields))
        self._expect(">")
        return made

    def _decimal(self) -> t.DecimalType:
        precision, scale = 10, 0
        if self._takes("("):
            precision = self._number()
            if self._takes(","):
                scale = self._number()
            self._expect(")")
        if not (0 < precision <= _MAX_PRECISION and 0 <= scale <= precision):
            self._refuse(f"no decimal has {precision} digits, {scale} of them after the point")
        return t.DecimalType(precision, scale)

    def _shape(self, word: str) -> t.DataType:
        """``geometry(4326)`` as Spark's SQL has it, or ``geography(OGC:CRS84, KARNEY)``."""
        inside = ""
        if self._takes("("):
            token, is_name = self._next()
            while is_name or token in (":", ","):
                inside += token
                token, is_name = self._next()
            if token != ")":
                self._refuse(f"there is {token!r} where ')' belongs")
        if inside.isdecimal() and len(inside) < 10:
            inside = crs_of_srid(int(inside))
        shape = shape_of(t.PrimitiveType(f"{word}({inside})" if inside else word))
        if shape is None:
            self._refuse(f"there is no {word} of {inside!r}")
        return shape.type

    def _number(self) -> int:
        token, _ = self._next()
        if not token.isdecimal() or len(token) > 3:
            self._refuse(f"there is {token!r} where a number belongs")
        return int(token)
