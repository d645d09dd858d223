"""Query tables in SQL, and change nothing: for people the first 100 rows; with --json all.

adelta query "SELECT city, sum(km) FROM trips GROUP BY city" --table trips=s3://lake/trips

Tables are named by their address, delta.`lake/sales` or 's3://bucket/sales', or by names that
--table gives them. Queries are run by DuckDB: pip install 'adelta[sql]'. What changes tables is
refused: that is for adelta sql.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta.cli.commands import sql
from adelta.cli.commands.sql import configure
from adelta.errors import InvalidStatementError
from adelta.sql.parse import parse_statement
from adelta.sql.statements import READING

if TYPE_CHECKING:
    import argparse

    from adelta.console.render import Output

__all__ = ["configure", "run"]


async def run(arguments: argparse.Namespace, output: Output) -> None:
    """Run the query, and print what it answers.

    Raises:
        InvalidStatementError: the statement changes something.
    """
    statement = await in_thread(
        parse_statement, arguments.text, zone=arguments.zone, now=moment(), queries=True
    )
    if not isinstance(statement, READING):
        raise InvalidStatementError(
            f"{arguments.text.split(maxsplit=1)[0].upper()} changes tables, which a query does "
            "not; run the statement by: adelta sql"
        )
    await sql.run(arguments, output)
