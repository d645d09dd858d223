"""Arrow tables as data frames of libraries that are loaded when somebody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["to_pandas", "to_polars"]


async def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The rows as a data frame of pandas.

    Raises:
        InvalidUseError: pandas is not installed.
    """

    def made() -> Any:
        try:
            import pandas  # noqa: F401  # which pyarrow needs for it
        except ImportError as error:
            raise InvalidUseError(
                "pandas is not installed: pip install pandas; or take the rows by to_arrow"
            ) from error
        return table.to_pandas()

    return await in_thread(made)


async def to_polars(table: pa.Table) -> pl.DataFrame:
    """The rows as a data frame of polars.

    Raises:
        InvalidUseError: polars is not installed.
    """

    def made() -> Any:
        try:
            import polars
        except ImportError as error:
            raise InvalidUseError(
                "polars is not installed: pip install 'adelta[polars]'; or take the rows by "
                "to_arrow"
            ) from error
        return polars.DataFrame(table)

    return await in_thread(made)
