"""TableAlterer: ALTER TABLE under deltalake's names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta import sync
from adelta.deltalake._actions import commit_options
from adelta.deltalake._features import FEATURE_NAMES, OF_READERS, TableFeatures
from adelta.deltalake._sql import spark_sql
from adelta.deltalake._types import Field as DeltaField
from adelta.deltalake._util import (
    check_flag,
    check_text,
    check_texts,
    deprecate_positional_commit_args,
)
from adelta.deltalake.exceptions import DeltaError, SchemaMismatchError, raises_as_deltalake
from adelta.deltalake.writer.modes import check_known_keys, split_properties
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import ArrayType, StructField, StructType
from adelta.operations.constraints import add_constraints, constraint_key
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.deltalake._actions import CommitProperties, PostCommitHookProperties
    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake.table import DeltaTable

__all__ = ["TableAlterer"]

_LATER_FIRST = ("post_commithook_properties", "commit_properties")


class TableAlterer:
    """What changes the definition of a table, `DeltaTable.alter`."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def _changed(self, operation: str, options: DeltalakeCommit, *args: Any, **kw: Any) -> None:
        """Carry out an operation of `adelta.sync`, and go to the version that it makes."""
        table = self.table._table
        if operation != "add_feature":
            table.update_incremental()
            options = replace(options, before=table.snapshot.protocol)
        getattr(sync, operation)(table.committing(options), *args, **kw)
        table.update_incremental()

    @raises_as_deltalake
    def add_feature(
        self,
        feature: TableFeatures | list[TableFeatures],
        allow_protocol_versions_increase: bool = False,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Let the table support features, a commit each.

        Raises:
            DeltaError: the protocol would have to rise for it, and that is not allowed.
        """
        commit, after = deprecate_positional_commit_args(
            "add_feature", args, commit_properties, post_commithook_properties
        )
        check_flag(allow_protocol_versions_increase)
        features = [feature] if isinstance(feature, TableFeatures) else feature
        if not all(isinstance(each, TableFeatures) for each in features):
            raise TypeError(f"feature is {feature!r}; pass a TableFeatures, or a list of them")
        if not features:
            raise DeltaError("Generic DeltaTable error: No features provided")
        protocol = self.table.protocol()
        for each in features:
            too_low = protocol.min_writer_version < 7 or (
                each in OF_READERS and protocol.min_reader_version < 3
            )
            if too_low and not allow_protocol_versions_increase:
                raise DeltaError(
                    "Generic DeltaTable error: Table feature enables "
                    + ("reader and " if each in OF_READERS else "")
                    + "writer feature, but "
                    + ("reader is not v3, and writer" if each in OF_READERS else "min_writer is")
                    + " not v7. Set allow_protocol_versions_increase or increase "
                    + ("versions" if each in OF_READERS else "version")
                    + " explicitly through set_tbl_properties"
                )
        for each in features:
            self._changed("add_feature", commit_options(commit, after), FEATURE_NAMES[each])

    @raises_as_deltalake
    def add_columns(
        self,
        fields: DeltaField | list[DeltaField],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add columns, and fields to structs; what is there already, with its type, stays."""
        commit, after = deprecate_positional_commit_args(
            "add_columns", args, commit_properties, post_commithook_properties
        )
        named: list[object] = [fields] if isinstance(fields, DeltaField) else list(fields)
        if not all(isinstance(each, DeltaField) for each in named):
            raise TypeError(f"fields is {fields!r}; pass a Field, or a list of them")
        known = self.table._table.snapshot.delta_schema
        columns = _news([each._field for each in named if isinstance(each, DeltaField)], known)
        if columns:
            self._changed("add_columns", commit_options(commit, after), StructType(tuple(columns)))

    @raises_as_deltalake
    def add_constraint(
        self,
        constraints: dict[str, str],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Let every row satisfy conditions in SQL, by their names.

        Raises:
            DeltaError: none is given, there is another of the name, or a row does not satisfy it.
        """
        commit, after = deprecate_positional_commit_args(
            "add_constraint", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        check_texts(constraints)
        if not constraints:
            raise DeltaError(
                "Generic DeltaTable error: No check constraint (Name and Expression) provided"
            )
        wanted = {name: spark_sql(text) for name, text in constraints.items()}
        news = {k: text for k, text in wanted.items() if not self._has_constraint(k, text)}
        if not news:
            return
        table = self.table._table
        table.update_incremental()
        options = replace(commit_options(commit, after), before=table.snapshot.protocol)
        handle = table.committing(options)  # which is open as long as it is held
        call(add_constraints, handle._async(), news)
        table.update_incremental()

    def _has_constraint(self, name: str, expression: str) -> bool:
        """Whether the table has it already, spelt in whatever way.

        Raises:
            InvalidExpressionError: the expression cannot be parsed.
            DeltaError: there is another of the name.
        """
        metadata = self.table._table.snapshot.metadata
        key = constraint_key(metadata, name)
        if key is None:
            return False
        known = metadata.configuration[key]
        if parse_expression(known) != parse_expression(expression):
            raise DeltaError(
                f"Generic DeltaTable error: Cannot add constraint '{name}': a constraint with this "
                "name already exists with a different expression. Existing: "
                f"'{known}', New: '{expression}'"
            )
        return True

    @raises_as_deltalake
    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Remove a constraint.

        Raises:
            DeltaError: there is none of the name, and `raise_if_not_exists`.
        """
        commit, after = deprecate_positional_commit_args(
            "drop_constraint", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        check_text(name)
        check_flag(raise_if_not_exists)
        there = f"delta.constraints.{name}".lower() in {
            key.lower() for key in self.table._table.snapshot.properties
        }
        if not there:
            if raise_if_not_exists:
                raise DeltaError(
                    f"Generic DeltaTable error: Constraint with name '{name}' does not exist."
                )
            return
        self._changed("drop_constraint", commit_options(commit, after), name)

    @raises_as_deltalake
    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Let a column hold nulls.

        Raises:
            DeltaError: there is no such column, or it may hold nulls already.
        """
        column = self._column(
            column_name, "Generic DeltaTable error: No column with the name '{}' in the schema"
        )
        if column.nullable:
            raise DeltaError(
                f"Generic DeltaTable error: Column '{column_name}' is already nullable"
            )
        options = commit_options(commit_properties, post_commithook_properties)
        self._changed("change_column", options, column_name, nullable=True)

    @raises_as_deltalake
    def set_table_properties(
        self,
        properties: dict[str, str],
        raise_if_not_exists: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set properties; with `raise_if_not_exists` those alone that Delta knows."""
        commit, after = deprecate_positional_commit_args(
            "set_table_properties", args, commit_properties, post_commithook_properties
        )
        check_texts(properties)
        check_flag(raise_if_not_exists)
        if raise_if_not_exists:
            check_known_keys(properties)
        self.table._table.update_incremental()
        snapshot = self.table._table.snapshot
        beside = split_properties({**snapshot.properties, **properties})[1]
        beside |= split_properties(properties)[1]
        options = replace(commit_options(commit, after), properties=beside)
        asked = {key: value for key, value in properties.items() if key not in beside}
        if asked or not beside.keys() & properties.keys():
            self._changed("set_properties", options, asked)
            return
        told = {"properties": json.dumps(properties)}
        known = {**snapshot.properties, **beside}
        self._redefine("SET TBLPROPERTIES", options, told, configuration=known)

    @raises_as_deltalake
    def set_table_name(
        self,
        name: str,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Name the table.

        Raises:
            DeltaError: the name is empty, or longer than 255 characters.
        """
        commit, after = deprecate_positional_commit_args(
            "set_table_name", args, commit_properties, post_commithook_properties
        )
        check_text(name)
        if not 0 < len(name) <= 255:
            raise DeltaError(
                "Table metadata is invalid: name: Table name cannot be empty and cannot exceed 255 "
                "characters"
            )
        told = {"metadataUpdate": {"name": name, "description": None}}
        self._redefine("UPDATE TABLE METADATA", commit_options(commit, after), told, name=name)

    @raises_as_deltalake
    def set_table_description(
        self,
        description: str,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Describe the table.

        Raises:
            DeltaError: the description is longer than 4000 characters.
        """
        commit, after = deprecate_positional_commit_args(
            "set_table_description", args, commit_properties, post_commithook_properties
        )
        check_text(description)
        if len(description) > 4000:
            raise DeltaError(
                "Table metadata is invalid: description: Table description cannot exceed 4000 "
                "characters"
            )
        told = {"metadataUpdate": {"name": None, "description": description}}
        self._redefine(
            "UPDATE TABLE METADATA", commit_options(commit, after), told, description=description
        )

    @raises_as_deltalake
    def set_column_metadata(
        self,
        column: str,
        metadata: dict[str, str],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add entries to what the schema says of a column, or change them.

        Raises:
            DeltaError: there is no such column.
        """
        commit, after = deprecate_positional_commit_args(
            "set_column_metadata", args, commit_properties, post_commithook_properties
        )
        check_text(column)
        check_texts(metadata)
        if any(key.startswith("delta.") for key in metadata):
            raise DeltaError(
                "Generic DeltaTable error: Not allowed to modify protected metadata e.g. "
                "`delta.columnMapping.id`"
            )
        found = self._column(
            column, "Generic DeltaTable error: No field with the provided name in the schema"
        )
        known = self.table._table.snapshot.delta_schema
        fields = tuple(
            replace(each, metadata={**each.metadata, **metadata}) if each is found else each
            for each in known
        )
        schema_string = schema_to_string(StructType(fields))
        self._redefine(
            "UPDATE FIELD METADATA",
            commit_options(commit, after),
            {"fields": json.loads(schema_string)["fields"]},
            schema_string=schema_string,
        )

    def _column(self, name: str, refusal: str) -> StructField:
        known = self.table._table.snapshot.delta_schema
        found = next((each for each in known if each.name == name), None)
        if found is None:
            raise DeltaError(refusal.format(name))
        return found

    def _redefine(
        self,
        operation: str,
        options: DeltalakeCommit,
        told: Mapping[str, object],
        **changes: object,
    ) -> None:
        table = self.table._table
        table.update_incremental()
        options = replace(options, before=table.snapshot.protocol)
        with table.committing(options).transaction(operation, parameters=told) as tx:
            tx.update_metadata(replace(tx.metadata, **changes))  # type: ignore[arg-type]
        table.update_incremental()


def _news(wanted: Iterable[StructField], known: StructType) -> list[StructField]:
    """The columns, and of structs the fields, that the table lacks.

    Raises:
        SchemaMismatchError: a column is there with another type.
    """
    found = []
    for each in wanted:
        there = known.field(each.name)
        if there is None:
            found.append(each)
        elif isinstance(there.type, StructType) and isinstance(each.type, StructType):
            inner = _news(each.type, there.type)
            if inner:
                found.append(replace(each, type=StructType(tuple(inner))))
        elif _bare(there.type) != _bare(each.type):
            raise SchemaMismatchError(
                f"Schema error: Cannot merge types {there.type} and {each.type}: column "
                f"{each.name!r} is there already"
            )
    return found


def _bare(kind: Any) -> Any:
    return replace(kind, contains_null=True) if isinstance(kind, ArrayType) else kind
