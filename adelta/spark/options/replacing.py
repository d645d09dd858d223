"""The options of a writer by which new rows take the place of those that match them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.spark.translate.identifiers import identifier_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.errors import AdeltaError

__all__ = ["REPLACE_OPTIONS", "ReplaceOptions", "keeps_rows", "replaces_matching"]

REPLACE_OPTIONS = ("replaceUsing", "replaceOn", "targetAlias")
_CHOICES = ("replaceusing", "replaceon")


def replaces_matching(options: Mapping[str, str]) -> bool:
    """Whether options of a writer, in whatever case, ask for rows in the place of those that match.

    Example: ``{"replaceUsing": "day"}`` do.
    """
    return any(key.lower() in _CHOICES for key in options)


def keeps_rows() -> AdeltaError:
    """The error of such options where a table is defined anew."""
    return _refused(
        "create(), replace() and createOrReplace() define a table anew, and replaceOn and "
        "replaceUsing keep rows of it: leave the option out",
        "DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING",
    )


@dataclass(frozen=True, slots=True)
class ReplaceOptions:
    """Which rows new ones take the place of: with equal columns `using`, or by the condition `on`.

    `text` is what was written of it. A condition names the table's columns as those of
    `target_alias`.
    """

    text: str
    using: tuple[str, ...] | None
    on: str | None
    target_alias: str | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReplaceOptions | None:
        """What options of a write, by lower-case key, say of it; None where they do not.

        Raises:
            InvalidOptionError: one has a wrong value, or does not go together with another one.
        """
        using, on = (given.get(key) for key in _CHOICES)
        if using is None and on is None:
            return None
        _check_alone(given)
        if on is not None:
            return cls(on, None, on, given.get("targetalias"))
        return cls(using or "", _columns(using or ""), None, None)


def _columns(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise _refused(
            f"invalid value {text!r} for option 'replaceUsing', must not contain empty column "
            "names: name columns with commas between",
            "DELTA_ILLEGAL_OPTION",
        )
    return tuple(dict.fromkeys(".".join(identifier_parts(name)) for name in names))


def _check_alone(given: Mapping[str, str]) -> None:
    """Refuse options that say otherwise which rows go, or that keep no rows.

    Raises:
        InvalidOptionError: there are such.
    """
    if all(key in given for key in _CHOICES):
        raise _together("replaceOn", "replaceUsing")
    for option, kind in (
        ("replaceWhere", "OVERWRITE_BY_FILTER"),
        ("partitionOverwriteMode", "DYNAMIC_PARTITION_OVERWRITE"),
    ):
        if option.lower() in given:
            raise _refused(
                f"{option} says which rows are replaced, and so does replaceOn or replaceUsing: "
                "choose one of them",
                f"DELTA_{kind}_INCOMPATIBLE_REPLACE_ON_OR_USING",
            )
    chosen = "replaceOn" if "replaceon" in given else "replaceUsing"
    for option, refused_value in (("overwriteSchema", "true"), ("dataChange", "false")):
        if given.get(option.lower(), "").lower() == refused_value:
            raise _together(option, chosen)


def _together(first: str, second: str) -> AdeltaError:
    return _refused(
        f"the option {first} cannot be used with the option {second}: leave one of them out",
        "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
    )


def _refused(text: str, condition: str) -> AdeltaError:
    from adelta.spark.exceptions import refused  # which workers need only where one is raised

    return refused(text, condition)
