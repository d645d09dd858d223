"""The page of functions that predicates and expressions may use, made of the registry itself.

python -m tools.function_table [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from adelta.kernel.expressions.functions import ALIASES, FUNCTIONS
from adelta.kernel.expressions.library import LIBRARY, UNWRITTEN

__all__ = ["EXAMPLES", "main", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "functions.md"

EXAMPLES = {
    "abs": "abs(-1)",
    "add_months": "add_months(DATE '2024-01-31', 1)",
    "ceil": "ceil(2.1)",
    "coalesce": "coalesce(NULL, 'a')",
    "concat": "concat('a', 'b')",
    "contains": "contains('banana', 'nan')",
    "date_add": "date_add(DATE '2024-02-28', 1)",
    "date_format": "date_format(TIMESTAMP '2024-02-29 10:00:00', 'yyyy-MM')",
    "date_sub": "date_sub(DATE '2024-03-01', 1)",
    "date_trunc": "date_trunc('MONTH', TIMESTAMP '2024-02-29 10:00:00')",
    "datediff": "datediff(DATE '2024-03-01', DATE '2024-02-28')",
    "day": "day(DATE '2024-02-29')",
    "dayofweek": "dayofweek(DATE '2024-02-29')",
    "dayofyear": "dayofyear(DATE '2024-02-29')",
    "endswith": "endswith('banana', 'na')",
    "floor": "floor(2.9)",
    "greatest": "greatest(1, 3, 2)",
    "hour": "hour(TIMESTAMP '2024-02-29 10:11:12')",
    "isnan": "isnan(CAST('NaN' AS DOUBLE))",
    "last_day": "last_day(DATE '2024-02-01')",
    "least": "least(1, 3, 2)",
    "left": "left('banana', 2)",
    "length": "length('é')",
    "lower": "lower('ABC')",
    "ltrim": "ltrim('x', 'xxa')",
    "md5": "md5('adelta')",
    "minute": "minute(TIMESTAMP '2024-02-29 10:11:12')",
    "month": "month(DATE '2024-02-29')",
    "pmod": "pmod(-5, 3)",
    "quarter": "quarter(DATE '2024-02-29')",
    "replace": "replace('banana', 'a', 'o')",
    "right": "right('banana', 2)",
    "rlike": "rlike('a1', '[0-9]+')",
    "round": "round(2.345, 2)",
    "rtrim": "rtrim('x', 'axx')",
    "second": "second(TIMESTAMP '2024-02-29 10:11:12')",
    "startswith": "startswith('banana', 'ba')",
    "substring": "substring('banana', 2, 3)",
    "trim": "trim('x', 'xax')",
    "trunc": "trunc(DATE '2024-02-29', 'YEAR')",
    "upper": "upper('abc')",
    "weekday": "weekday(DATE '2024-02-29')",
    "weekofyear": "weekofyear(DATE '2024-02-29')",
    "year": "year(DATE '2024-02-29')",
    **{name: found.example for name, found in LIBRARY.items()},
}
"""A call of every function."""

_HEAD = """\
# Functions in predicates and expressions

<!-- Made by `python -m tools.function_table`; edit that. -->

`where`, the values of `update`, constraints, generated columns and SQL text are Spark's SQL. What
is listed here means exactly what it means in Spark 4 with its default, ANSI, settings: NULLs,
errors on overflow, places that count from the end, and time zones. What is not listed is refused by
its name: functions of chance, and those whose last bit differs between Java and C (`exp`, `pow`,
`sin`).

Of arguments those whose places stand in *italics* have to be constants.

Beside functions there are: `+ - * / % DIV ||`, `= <=> <> < <= > >=`, `AND OR NOT`, `IS [NOT] NULL`,
`IS [NOT] TRUE`, `IS DISTINCT FROM`, `IN`, `BETWEEN`, `LIKE`, `ILIKE`, `RLIKE`, `CASE`,
`CAST`, `TRY_CAST`, `::`, `EXTRACT`, `date_part`, `TRIM(... FROM ...)`, `position(... IN ...)`,
fields of structs by `a.b`, elements of arrays and maps by `a[0]`, dates and times `+` and `-` an
`INTERVAL`; `if`, `nullif`, `nvl2`,
`isnull`, `isnotnull`, `equal_null`, `mod`, `negative`, `to_date` and `to_timestamp` of one
argument, `pi()`, `e()`, and type names as casts (`int(x)`). `current_timestamp`, `current_date`,
`localtimestamp` and `now()` are the time at which a statement begins, by the clock of this machine;
constraints and generated columns cannot have them.

| function | other names | arguments | example |
|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    others: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        others.setdefault(name, []).append(f"`{alias}`")
    lines = []
    for name in sorted(FUNCTIONS):
        if name in UNWRITTEN:
            continue
        example = EXAMPLES[name].replace("|", r"\|")
        names = ", ".join(sorted(others.get(name, ())))
        lines.append(f"| `{name}` | {names} | {_arguments(name)} | `{example}` |\n")
    return _HEAD + "".join(lines)


def _arguments(name: str) -> str:
    arity = FUNCTIONS[name]
    if arity.most is None:
        return f"{arity.least} or more"
    text = f"{arity.least}" if arity.least == arity.most else f"{arity.least} to {arity.most}"
    constants = LIBRARY[name].constants if name in LIBRARY else ()
    places = ", ".join(f"*{place + 1}*" for place in constants)
    return f"{text} ({places})" if places else text


def main() -> int:
    """Write the page; with ``--check`` only say whether it is as it would be written."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
