"""What a table is after RESTORE: as it was at a version, but for what must never go back.

Numbers that were given out are not given again: values of identity columns, ids of columns. How
commits tell their time stays, and what history is protected; and the protocol keeps what it
demands, since later versions can still be read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta.kernel.file_id import file_ids
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.table_features import (
    CHECKPOINT_PROTECTION,
    COLUMN_MAPPING_MAX_ID,
    IN_COMMIT_TIMESTAMP,
    find_feature,
    identities_of,
    is_supported,
    outlasting_protocol,
    protocol_with,
    supported_names,
    unset,
    with_high_water_marks,
    with_owner_of,
    with_properties,
)
from adelta.kernel.transaction.creation import NewTable

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_configuration import TableConfiguration

__all__ = ["FileDifference", "difference", "joined_protocol", "merged_marks", "restored_definition"]


_OF_THE_LOG = (IN_COMMIT_TIMESTAMP, CHECKPOINT_PROTECTION)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The files that a version has and another lacks, and those that it lacks.

    Those that are `numbered` both have, but their rows have the ids of the version in it alone.
    """

    added: pa.Table
    removed: pa.Table
    numbered: pa.Table


def difference(latest: pa.Table, wanted: pa.Table, root: str) -> FileDifference:
    """What has to come and go for the files `latest` to become those that are `wanted`.

    Files are the same where their paths are, in whatever spelling, and their deletion vectors.

    Example: from a and b to b and c it is that c comes and a goes.
    """
    mine, theirs = file_ids(latest, root), file_ids(wanted, root)
    name = "base_row_id"
    places = pc.index_in(theirs, value_set=mine)
    given, now = wanted.column(name), latest.column(name).take(places)
    anew = pc.and_(given.is_valid(), pc.fill_null(pc.not_equal(given, now), True))
    return FileDifference(
        added=wanted.filter(pc.invert(pc.is_in(theirs, value_set=mine))),
        removed=latest.filter(pc.invert(pc.is_in(mine, value_set=theirs))),
        numbered=wanted.filter(pc.and_(anew, pc.is_valid(places))),
    )


def joined_protocol(one: Protocol, other: Protocol) -> Protocol:
    """The weakest protocol that supports what both do."""
    names = sorted({*supported_names(other)} - {*supported_names(one)})
    features = [feature for name in names if (feature := find_feature(name)) is not None]
    return protocol_with(one, *features) if features else one


def restored_definition(
    latest: TableConfiguration, wanted: TableConfiguration, *, downgrade: bool = False
) -> NewTable:
    """Protocol and metadata after the restore; with `downgrade` the protocol is the version's."""
    metadata = replace(wanted.metadata, id=latest.metadata.id)  # by which all know the table
    stored, now = dict(metadata.configuration), latest.metadata.configuration
    highest = max(COLUMN_MAPPING_MAX_ID.read(stored), COLUMN_MAPPING_MAX_ID.read(now))
    if COLUMN_MAPPING_MAX_ID.text(stored) is not None:
        stored[COLUMN_MAPPING_MAX_ID.key] = str(highest)
    metadata = merged_marks(latest, metadata)
    protocol = wanted.protocol
    if not downgrade:
        protocol = joined_protocol(outlasting_protocol(latest.protocol, metadata), protocol)
    metadata = metadata.with_configuration(stored)
    protocol, metadata = with_owner_of(latest, protocol, metadata)
    return NewTable(protocol, _with_what_is_of_the_log(metadata, latest.metadata, protocol))


def _with_what_is_of_the_log(metadata: Metadata, latest: Metadata, protocol: Protocol) -> Metadata:
    for feature in _OF_THE_LOG:
        keys = [each.key for each in feature.properties]
        metadata = unset(metadata, *keys)
        if is_supported(feature, protocol):  # it is not where that is the version's own
            texts = {each.key: each.text(latest.configuration) for each in feature.properties}
            kept = {key: text for key, text in texts.items() if text is not None}
            metadata = with_properties(metadata, kept)
    return metadata


def merged_marks(latest: TableConfiguration, wanted: Metadata) -> Metadata:
    """The metadata with values of identity columns that are not behind those of `latest`."""
    now = {column.name: column for column in identities_of(latest.metadata.schema)}
    marks = {}
    for column in identities_of(wanted.schema):
        later = now.get(column.name)
        if later is None or later.high_water_mark is None or later.step * column.step < 0:
            continue
        farthest = max if column.step > 0 else min
        before = column.high_water_mark
        marks[column.name] = (
            later.high_water_mark if before is None else farthest(before, later.high_water_mark)
        )
    if not marks:
        return wanted
    schema = with_high_water_marks(wanted.schema, marks)
    return replace(wanted, schema_string=schema_to_string(schema))
