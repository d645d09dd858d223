"""MERGE by what only Spark computes of the table's rows: it joins, and adelta merges what it found.

Spark pairs what the columns of the table that are named hold with the rows of the source, and
computes conditions and values for the pairs. Its rows are the source of adelta's merge, in which
rows of the table match by what their columns hold. Source rows that match none are among them, and
match none again; where clauses ask it, so is what rows hold that no source row matches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta._dataclasses import dataclass
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import quote_name
from adelta.operations.merge.clauses import check_clauses, said_of
from adelta.operations.merge.run import FoundRows
from adelta.spark.rows.looked_at import rows_looked_at
from adelta.spark.rows.merging import NamedMerge
from adelta.spark.rows.row_keys import equal_if_alike, named_by
from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.plan import MergeRequest
    from adelta.spark.rows.row_keys import RowKeys

__all__ = ["Computed", "joined_by_spark"]


@dataclass(frozen=True, slots=True)
class Computed:
    """What Spark computes in a merge, by the names that the request has for it.

    `of_pairs` are of pairs that match, `of_others` of rows of the table that no source row matches.
    `texts` are what the history says of them, and of what is computed of the source alone.
    """

    on: Column
    of_pairs: Mapping[str, Column]
    of_others: Mapping[str, Column]
    texts: Mapping[str, str]


def joined_by_spark(
    target: DataFrame,
    source: DataFrame,
    request: MergeRequest,
    computed: Computed,
    schema: StructType,
) -> tuple[NamedMerge, DataFrame]:
    """The merge that comes to the same as `request`, and its source.

    `target` is the table, of these columns, at the version on which the merge is to begin. The
    names of `computed` are columns of the source in `request`, where they stand for what Spark
    computes; the condition of the request is left to Spark.

    Raises:
        AnalysisException: Spark does not understand an expression.
        InvalidExpressionError: one is another value whenever it is computed, or is named by what
            does not tell rows apart.
    """
    check_clauses(request.clauses)
    join = _Join(target, source, request, computed)
    rows = join.rows()
    return join.merge(schema), rows


class _Join:
    def __init__(
        self, target: DataFrame, source: DataFrame, request: MergeRequest, computed: Computed
    ) -> None:
        self._request = request
        self._computed = computed
        self._target = target.alias(request.target_alias)
        self._names = source.columns
        self._taken = {name.lower() for name in (*target.columns, *source.columns)}
        self._taken |= {*computed.of_pairs, *computed.of_others}
        self._key, self._matches, self._stands_in = map(self._free, ("key ", "matches", "none"))
        self._of_target, self._of_source = map(self._free, ("row of target", "row of source"))
        numbered = source.withColumn(self._of_source, f.monotonically_increasing_id())
        self._source = numbered.alias(request.source_alias)
        kinds = {clause.kind for clause in request.clauses}
        self._inserts = "not_matched" in kinds
        self._others = bool(computed.of_others)
        self._pairs = self._target.crossJoin(self._source)

    def rows(self) -> DataFrame:
        """What adelta is to merge.

        Rows of the source are computed once, and so are pairs, which several parts are made of.
        """
        request, computed = self._request, self._computed
        wanted = [*computed.of_pairs.values(), computed.on]
        self._keys = named_by(self._target, self._pairs, wanted, request.target_alias)
        if self._others:
            others = list(computed.of_others.values())
            of_others = named_by(self._target, self._target, others, request.target_alias)
            self._keys = self._keys.union(of_others)
        self._source = self._source.localCheckpoint().alias(request.source_alias)
        self.num_source_rows = self._source.count()
        held = _held(self._target, self._keys, self._free("text "))
        if self._others:
            held = held.withColumn(self._of_target, f.monotonically_increasing_id())
            held = held.localCheckpoint()
        held = held.alias(request.target_alias)
        found = held.join(self._source, computed.on).select(
            *self._keys.columns(self._key, request.target_alias),
            *self._given(),
            *(column.alias(name) for name, column in computed.of_pairs.items()),
            f.lit(True).alias(self._matches),
            f.lit(False).alias(self._stands_in),
            self._of_source,
            *([self._of_target] if self._others else ()),
        )
        parts = self._parts(held, found)
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionByName(part, allowMissingColumns=True)
        return rows.drop(self._of_target, self._of_source)

    def _parts(self, held: DataFrame, found: DataFrame) -> list[DataFrame]:
        request = self._request
        if not self._others and not self._inserts:
            return [found]
        found = found.localCheckpoint()
        parts = [found]
        if self._others:
            if self._deletes_all_matched:
                parts = [found.dropDuplicates([self._of_target])]
            matched = found.select(self._of_target).distinct()
            others = held.join(matched, self._of_target, "left_anti")
            others = others.alias(request.target_alias).select(
                *self._keys.columns(self._key, request.target_alias),
                *(column.alias(name) for name, column in self._computed.of_others.items()),
                f.lit(True).alias(self._matches),
                f.lit(True).alias(self._stands_in),
            )
            parts.append(others)
        if self._inserts:
            new = self._source
            if request.replaces is None:  # else those that match come, too
                matched = found.select(self._of_source).distinct()
                new = new.join(matched, self._of_source, "left_anti")
            new = new.alias(request.source_alias).select(
                *self._given(),
                f.lit(False).alias(self._matches),
                f.lit(False).alias(self._stands_in),
            )
            parts.append(new)
        return parts

    def merge(self, schema: StructType) -> NamedMerge:
        """The merge of `rows`, into a table of these columns."""
        asked = self._request
        source = asked.source_alias
        texts = {
            f"{quote_name(source)}.{quote_name(name)}": text
            for name, text in self._computed.texts.items()
        }
        same = self._keys.matched(asked.target_alias, source, self._key)
        on = parse_expression(f"{same} AND {quoted((source, self._matches))}", zone=asked.zone)
        beside = {*self._keys.names(self._key), self._matches, self._stands_in}
        beside |= {*self._computed.texts}
        request = replace(
            asked,
            on=on,
            beside=asked.beside | beside,
            stands_in=self._stands_in if self._others else None,
            replaces=None,
        )
        said = {key: _said(value, texts) for key, value in said_of(asked.on, asked.clauses).items()}
        looked_at = None
        if not any(clause.kind == "not_matched_by_source" for clause in asked.clauses):
            looked_at = rows_looked_at(
                self._pairs, self._computed.on, asked.target_alias, schema, asked.zone
            )
        if asked.replaces is not None:
            written = FoundRows("WRITE", asked.replaces, self.num_source_rows, looked_at)
            return NamedMerge(request, written)
        return NamedMerge(request, FoundRows("MERGE", said, self.num_source_rows, looked_at))

    @property
    def _deletes_all_matched(self) -> bool:
        matched = [clause for clause in self._request.clauses if clause.kind == "matched"]
        return [(each.action, each.condition) for each in matched] == [("delete", None)]

    def _given(self) -> list[Column]:
        """The columns of the source."""
        alias = self._request.source_alias
        return [f.col(quoted((alias, name))).alias(name) for name in self._names]

    def _free(self, name: str) -> str:
        """A name that no column of either side begins with, made of `name`."""
        while any(each.startswith(name) for each in self._taken):
            name = f"_{name}"
        self._taken.add(name)
        return name


def _held(target: DataFrame, keys: RowKeys, prefix: str) -> DataFrame:
    """What the columns of the keys hold in rows of the table, each once."""
    names = [field.name for field in keys.fields]
    columns: list[Column] = [f.col(quoted((name,))) for name in names]
    unlike = list(names)  # by which they are told apart
    for place, field in enumerate(keys.fields):
        if not equal_if_alike(field.dataType):
            unlike[place] = f"{prefix}{place}"
            columns.append(columns[place].cast(s.StringType()).alias(unlike[place]))
    found = target.select(*columns, f.lit(True).alias(prefix))
    return found.dropDuplicates([*unlike, prefix])


def _said(value: object, texts: Mapping[str, str]) -> object:
    """What the history says, with other texts in the place of some."""
    match value:
        case str():
            for text, other in texts.items():
                value = value.replace(text, other)
            return value
        case list():
            return [_said(each, texts) for each in value]
        case dict():
            return {key: _said(each, texts) for key, each in value.items()}
    return value
