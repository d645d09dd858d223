"""MERGE INTO, which Spark's parser has read and `NamedMerge.java` has put into words.

It is carried out as `DeltaTable.merge` is: adelta plans, has its tasks run by Spark, and commits.
Spark's own road, which asks a table for groups of rows and writes them anew by its own plan, knows
nothing of what Delta says of a merge: change files, row ids, deletion vectors, columns that the
table computes or takes in. And it would write every file anew that may hold a row that matches,
where adelta finds the rows first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._clock import moment
from adelta._dataclasses import dataclass
from adelta.kernel.expressions.nodes import Column, conjunction
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema.alteration import shown
from adelta.operations.merge.clauses import Clause, check_clauses, values_of
from adelta.operations.merge.plan import MergeRequest
from adelta.operations.merge.run import FoundRows, MergeOptions, run_merge
from adelta.operations.merge.source import GivenSource
from adelta.spark.cluster.staged_rows import staged_rows
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.session_settings import merges_schemas, pads_chars, session_zone
from adelta.spark.translate.identifiers import identifier_parts, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Literal

    from pyspark.sql import DataFrame, SparkSession

    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.clauses import Action, ClauseKind
    from adelta.operations.merge.metrics import MergeMetrics

__all__ = ["NamedMerge", "merge_rows", "merge_said", "rows_said"]

_DEFAULT = Column(("DEFAULT",))
_ACTIONS: dict[str, Action] = {
    "delete": "delete", "update": "update", "update all": "update", "insert": "insert",
    "insert all": "insert",
}  # fmt: skip
_KINDS: dict[str, ClauseKind] = {
    "matched": "matched",
    "not matched": "not_matched",
    "not matched by source": "not_matched_by_source",
}


@dataclass(frozen=True, slots=True)
class NamedMerge:
    """What is to be done to a table, and what the rows stand for, if Spark has found them in it."""

    request: MergeRequest
    found: FoundRows | None = None


def merge_said(spark: SparkSession, said: Mapping[str, Any]) -> NamedMerge:
    """The merge that `NamedMerge.java` tells of.

    Raises:
        InvalidExpressionError: adelta does not evaluate an expression.
        InvalidOptionError: a clause can never apply.
    """
    zone, now = session_zone(spark), moment()
    clauses = tuple(_clause(each, zone, now) for each in said["clauses"])
    check_clauses(clauses)
    on = parse_expression(said["on"], zone=zone, now=now)
    evolves = said["evolves"] or merges_schemas(spark)
    beside = frozenset(said["texts"])
    pads = pads_chars(spark)
    return NamedMerge(
        MergeRequest(
            on, clauses, said["source"], said["target"], evolves, zone, now, beside, pads=pads
        )
    )


def rows_said(
    spark: SparkSession,
    verb: str,
    said: Mapping[str, Any],
    looked_at: Node | None = None,
    *,
    pads: bool = False,
) -> NamedMerge:
    """The way of a DELETE or UPDATE of the rows that `NamedRows.java` tells of.

    They are found among those for which `looked_at` is true; with `pads` by what `padded` compares.

    Raises:
        InvalidExpressionError: adelta does not evaluate an expression.
    """
    zone, now = session_zone(spark), moment()
    values = _values(said["values"], zone, now) if verb == "update" else ()
    clause = Clause("matched", _ACTIONS[verb], None, values)
    on = parse_expression(said["on"], zone=zone, now=now)
    request = MergeRequest(
        on, (clause,), "source", "target", evolves=False, zone=zone, now=now, pads=pads
    )
    operation: Literal["DELETE", "UPDATE"] = "UPDATE" if verb == "update" else "DELETE"
    parts = [parse_expression(text, zone=zone, now=now) for text in said.get("parts", ())]
    found = FoundRows(
        operation,
        {"predicate": [] if said["predicate"] is None else [said["predicate"]]},
        looked_at=conjunction(looked_at, *parts),
    )
    return NamedMerge(request, found)


def merge_rows(
    spark: SparkSession,
    uri: str,
    version: int,
    merge: NamedMerge,
    source: DataFrame,
    storage_options: Mapping[str, str],
    catalog: CatalogClient | None = None,
    *,
    made_of_it: bool = False,
) -> MergeMetrics:
    """Merge the rows of `source` into the table at `uri`, in one commit, against a version.

    That is the one which the statement was understood by, and which the source reads where it reads
    the table: what others have committed since is judged as it is when a commit loses a race. A
    source that is `made_of_it` depends on all of the table, and not only on rows that it matches.

    Raises: as `adelta.Merge.execute` does.
    """
    rows = GivenSource(staged_rows(spark, source, uri, storage_options))
    options = MergeOptions(at_version=version, made_of_it=made_of_it, found=merge.found)
    return on_cluster(
        spark,
        uri,
        lambda table: run_merge(table, rows, merge.request, options),
        storage_options,
        catalog,
    )


def _clause(said: Mapping[str, Any], zone: str, now: datetime) -> Clause:
    action, kind = said["action"], _KINDS[said["when"]]
    values = None if action.endswith(" all") else _values(said.get("values", ()), zone, now)
    return Clause.of(kind, _ACTIONS[action], said.get("condition"), values, zone, now)


def _values(said: Sequence[tuple[str | list[str], str | None]], zone: str, now: datetime) -> Any:
    """What columns are set to; None stands for what they have by default."""
    if not said:
        return ()
    values: dict[str, Node | str] = {
        _column(name): _DEFAULT if text is None else text for name, text in said
    }
    return values_of("values", values, zone, now)


def _column(name: str | list[str]) -> str:
    """The name of a column that a clause sets, from SQL text or from its parts."""
    parts = identifier_parts(name) if isinstance(name, str) else tuple(name)
    return shown(parts) if len(parts) == 1 else quoted(parts)
