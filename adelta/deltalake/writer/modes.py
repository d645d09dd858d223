"""The modes of a write, and the errors that deltalake has for others."""

from __future__ import annotations

from collections.abc import Mapping

from adelta.deltalake._util import check_text, check_texts
from adelta.deltalake.exceptions import DeltaError, as_deltalake_errors
from adelta.kernel.table_properties import PROTOCOL_KEYS, TableProperties

__all__ = [
    "check_known_keys",
    "check_schema_mode",
    "checked_mode",
    "properties_of",
    "split_properties",
]

_VERSIONS = dict(zip(PROTOCOL_KEYS, (tuple("123"), tuple("234567")), strict=True))
_MODES = ("append", "overwrite", "error", "ignore")


def checked_mode(mode: str) -> str:
    """The mode in lower case.

    Raises:
        DeltaError: it is none.
        TypeError: it is no text.
    """
    check_text(mode)
    if mode.lower() not in _MODES:
        raise DeltaError(
            f"Generic DeltaTable error: Invalid save mode provided: {mode}, only these are "
            f"supported: {list(_MODES)}"
        )
    return mode.lower()


def check_schema_mode(schema_mode: str | None, mode: str) -> None:
    """Refuse what is no schema mode, or none for the mode.

    Raises:
        DeltaError: it is none.
        TypeError: it is no text.
    """
    if schema_mode is not None:
        check_text(schema_mode)
    if schema_mode not in (None, "merge", "overwrite"):
        raise DeltaError(
            f"Generic DeltaTable error: Invalid schema write mode provided: {schema_mode}, only "
            "these are supported: ['overwrite', 'merge']"
        )
    if schema_mode == "overwrite" and mode != "overwrite":
        raise DeltaError("Generic DeltaTable error: Schema overwrite not supported for Append")


def properties_of(configuration: Mapping[str, str | None] | None) -> dict[str, str]:
    """The properties that have a value.

    Raises:
        TypeError: one is no text.
    """
    if configuration is not None and not isinstance(configuration, Mapping):
        check_texts(configuration)
    found = {key: value for key, value in (configuration or {}).items() if value is not None}
    check_texts(found)
    return found


def split_properties(
    properties: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """The properties that adelta's operations take, and those that deltalake takes beside.

    These are versions of the protocol, and times by which the log is kept for less time than files
    that have left the table.

    Raises:
        DeltaError: a version or a time is none.
    """
    log, files = TableProperties.log_retention_ms, TableProperties.deleted_file_retention_ms
    times = {each.key.lower(): each for each in (log, files)}
    others: dict[str, str] = {}
    beside: dict[str, str] = {}
    with as_deltalake_errors():
        for key, value in properties.items():
            if key.lower() in times:
                times[key.lower()].check(value)
        is_short = log.read(properties) < files.read(properties)
    for key, value in properties.items():
        if key in _VERSIONS and value not in _VERSIONS[key]:
            valid = ",".join(f"'{each}'" for each in _VERSIONS[key])
            raise DeltaError(
                f"Kernel: Generic delta kernel error: {key} = '{value}' is invalid, valid values "
                f"are [{valid}]"
            )
        if is_short and key.lower() in times:
            beside[times[key.lower()].key] = value
        else:
            (beside if key in _VERSIONS else others)[key] = value
    return others, beside


def check_known_keys(properties: Mapping[str, str]) -> None:
    """Refuse keys that are none of Delta's.

    Raises:
        DeltaError: one is not.
    """
    for key, value in properties.items():
        if not key.startswith(("delta.", "adelta.")):
            raise DeltaError(
                f"Kernel: Generic delta kernel error: Error parsing property '{key}':'{value}'"
            )
