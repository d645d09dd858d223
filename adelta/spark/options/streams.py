"""The options of a streaming read."""

from __future__ import annotations

import os
import re
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from adelta._dataclasses import dataclass
from adelta.changes.schema_log import SchemaTracking
from adelta.changes.source_rules import SourceRules
from adelta.errors import InvalidOptionError
from adelta.kernel.history import parse_timestamp
from adelta.kernel.timestamps import from_ms
from adelta.spark.options.changes import is_true, reads_changes
from adelta.spark.options.read_write import (
    READ_OPTIONS,
    absolute_uri,
    column_names,
    options_among,
    table_address,
)
from adelta.spark.translate.zones import moment_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["STREAM_OPTIONS", "StreamOptions", "tracks_schemas", "without_stream_options"]

STREAM_OPTIONS = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "ignoreFileDeletion",
    "skipChangeCommits",
    "excludeRegex",
    "failOnDataLoss",
    "withEventTimeOrder",
    "eventTimeColumn",
    "schemaTrackingLocation",
    "schemaLocation",
    "streamingSourceTrackingId",
    "allowSourceColumnRename",
    "allowSourceColumnDrop",
    "allowSourceColumnTypeChange",
)
"""Options that streams alone have, beside those from where they start."""

_LOCAL = re.compile(r"^file:/+(?=[^/])")
_STARTS = ("startingVersion", "startingTimestamp")
_OF_BATCHES = (
    "versionAsOf", "timestampAsOf", "endingVersion", "endingTimestamp", "where",
    "onlyDeletionVectors",
)  # fmt: skip
_LOCATIONS = ("schemaTrackingLocation", "schemaLocation")
_OF_TRACKING = STREAM_OPTIONS[-4:]
_UNITS = {"": 1, "b": 1} | {
    unit: 1 << (10 * power)
    for power, letter in enumerate("kmgtp", 1)
    for unit in (letter, f"{letter}b")
}
_SIZE = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a streaming read was asked for: `rules`, and how each micro-batch becomes tasks.

    `columns` are those that it has, all by default.
    """

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)  # may hold secrets
    rules: SourceRules
    columns: tuple[str, ...] | None
    max_partition_bytes: int
    min_partitions: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """The options of a streaming read.

        Raises:
            InvalidOptionError: an option is unknown, missing, has a wrong value, or is not for
                streams.
        """
        given, storage = options_among(options, (*READ_OPTIONS, *STREAM_OPTIONS))
        for name in _OF_BATCHES:
            if name.lower() in given:
                raise InvalidOptionError(
                    f"{name} is not for streams: say from where to read by startingVersion or "
                    "startingTimestamp, and filter the DataFrame"
                )
        fails = is_true("failOnDataLoss", given, default="true")
        return cls(
            uri=table_address(given),
            storage_options=storage,
            rules=SourceRules(
                start=_start(given),
                starts_beyond=is_true("timestampOutOfRange", given),
                read_changes=reads_changes(given),
                ignore_deletes=is_true("ignoreDeletes", given),
                ignore_changes=is_true("ignoreChanges", given)
                or is_true("ignoreFileDeletion", given),
                skip_change_commits=is_true("skipChangeCommits", given),
                exclude=_expression(given.get("excluderegex")),
                fail_on_data_loss=fails,
                max_files=_number("maxFilesPerTrigger", given),
                max_bytes=_size("maxBytesPerTrigger", given),
                event_time=_event_time(given),
                tracking=_tracking(given, storage, fails=fails),
            ),
            columns=column_names(given),
            max_partition_bytes=_number("maxPartitionBytes", given) or 128 << 20,
            min_partitions=_number("minPartitions", given) or os.cpu_count() or 1,
        )


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that say which columns a read has, be it a stream or not."""
    own = {name.lower() for name in STREAM_OPTIONS}
    given = {key.lower(): value for key, value in options.items()}
    if not reads_changes(given):
        own |= {name.lower() for name in _STARTS}
    elif given.get("startingversion") == "latest":
        return without_stream_options({**given, "startingversion": "0"})
    elif not any(name.lower() in given for name in _STARTS):
        given["startingversion"] = "0"  # streams need not say
    return {key: value for key, value in given.items() if key not in own}


def tracks_schemas(options: Mapping[str, str]) -> bool:
    """Whether a stream is asked for that tracks schemas."""
    return not {name.lower() for name in _LOCATIONS}.isdisjoint(key.lower() for key in options)


def _tracking(
    given: Mapping[str, str], storage: Mapping[str, str], *, fails: bool
) -> SchemaTracking | None:
    locations = {given[name.lower()] for name in _LOCATIONS if name.lower() in given}
    if not locations:
        for name in _OF_TRACKING:
            if name.lower() in given:
                raise InvalidOptionError(
                    f"{name} is for streams that track schemas: give schemaTrackingLocation, too"
                )
        return None
    if len(locations) > 1:
        raise InvalidOptionError(
            "schemaLocation is another name of schemaTrackingLocation: leave one of them out"
        )
    if not fails:
        raise InvalidOptionError(
            "failOnDataLoss=false and schemaTrackingLocation cannot both be: commits that are gone "
            "may have changed the schema; leave one of them out"
        )
    renames, drops, type_changes = (
        _accepted(name, given.get(name.lower())) for name in _OF_TRACKING[1:]
    )
    return SchemaTracking(
        absolute_uri(_LOCAL.sub("/", locations.pop())),
        given.get(_OF_TRACKING[0].lower()),
        renames=renames,
        drops=drops,
        type_changes=type_changes,
        storage_options=storage,
    )


def _accepted(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    found = text.strip().lower()
    if found != "always" and not found.isdecimal():
        raise InvalidOptionError(
            f"the option {name} is {text!r}; it can be 'always', or the version whose change is "
            "accepted"
        )
    return found


def _start(given: Mapping[str, str]) -> int | Literal["latest"] | datetime | None:
    version, time = (given.get(name.lower()) for name in _STARTS)
    if version is not None and time is not None:
        from adelta.spark.exceptions import refused

        raise refused(
            "give startingVersion or startingTimestamp, not both",
            "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
        )
    if time is not None:
        return from_ms(parse_timestamp(moment_in(time, given.get("timezone", "UTC"))))
    if version is None or version == "latest":
        return version  # type: ignore[return-value]  # mypy takes it for any text
    if not version.strip().isdecimal():
        raise InvalidOptionError(
            f"the option startingVersion is {version!r}; it can be an integer of 0 or more, or "
            "'latest'"
        )
    return int(version)


def _event_time(given: Mapping[str, str]) -> str | None:
    name = given.get("eventtimecolumn")
    if is_true("withEventTimeOrder", given):
        if name is None:
            raise InvalidOptionError(
                "withEventTimeOrder needs to know the column of event times: name it by the option "
                "eventTimeColumn, or call withWatermark directly on what load() gives"
            )
        return name
    if name is not None:
        raise InvalidOptionError(
            "eventTimeColumn is for streams in event time order: give withEventTimeOrder, too"
        )
    return None


def _expression(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOptionError(
            f"the option excludeRegex is no regular expression: {text!r:.100} ({error})"
        ) from error


def _number(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidOptionError(f"the option {name} is {text!r}; it must be an integer above 0")
    return int(text)


def _size(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) < 1:
        raise InvalidOptionError(f"the option {name} is {text!r}; it must be a size such as '10g'")
    return int(match[1]) * unit
