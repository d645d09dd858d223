"""Space-filling curves: places on a line for points of a grid, near for what is near in the grid.

A point has one coordinate a column, each of so many `bits`; its place is a whole number of all of
their bits together, at most 64. Everything is done for many points at once.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Coordinates", "Curve", "Places", "bits_for", "hilbert", "place_on", "z_order"]

Curve = Literal["zorder", "hilbert"]
Coordinates = np.ndarray[tuple[int], np.dtype[np.uint16]]
Places = np.ndarray[tuple[int], np.dtype[np.uint64]]

_MOST_BITS: Final = 12  # more make no difference to whoever skips files and pages by bounds
_ALONE_BITS: Final = 16
_PLACE_BITS: Final = 64


def bits_for(columns: int) -> int:
    """How many bits a coordinate has where there are so many columns."""
    return _ALONE_BITS if columns == 1 else max(1, min(_MOST_BITS, _PLACE_BITS // columns))


def place_on(curve: Curve, coordinates: Sequence[Coordinates], bits: int) -> Places:
    """The places of points on a curve; with one coordinate it is the line itself."""
    if curve == "hilbert" and len(coordinates) > 1:
        return hilbert(coordinates, bits)
    return z_order(coordinates, bits)


def z_order(coordinates: Sequence[Coordinates], bits: int) -> Places:
    """The bits of the coordinates in turn, the highest first, and of these the first column's.

    Example: with two bits, (0b10, 0b01) is 0b1001.
    """
    count = len(coordinates)
    spread = _spread(bits, count)
    places = spread[coordinates[0]] << np.uint64(count - 1)
    for number, coordinate in enumerate(coordinates[1:], start=2):
        places |= spread[coordinate] << np.uint64(count - number)
    return places


@cache
def _spread(bits: int, stride: int) -> NDArray[np.uint64]:
    """Every number of so many bits, with its bits `stride` apart."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros_like(numbers)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * stride)
    return spread


def hilbert(coordinates: Sequence[Coordinates], bits: int) -> Places:
    """The places on Hilbert's curve, of which neighbours differ by one in one coordinate.

    J. Skilling, "Programming the Hilbert curve", 2004: a coordinate's lower bits are exchanged and
    inverted as the higher ones say, then all of them are Gray-coded.
    """
    axes = [coordinate.copy() for coordinate in coordinates]
    first, last = axes[0], axes[-1]
    for bit in range(bits - 1, 0, -1):
        lower = np.uint16((1 << bit) - 1)
        for axis in axes:
            # all ones where the bit is set, else nothing
            is_set = -((axis >> np.uint16(bit)) & np.uint16(1))
            exchanged = (first ^ axis) & lower & ~is_set
            first ^= exchanged | (lower & is_set)
            if axis is not first:
                axis ^= exchanged
    for before, axis in pairwise(axes):
        axis ^= before
    inverted = np.zeros_like(last)
    for bit in range(bits - 1, 0, -1):
        is_set = -((last >> np.uint16(bit)) & np.uint16(1))
        inverted ^= np.uint16((1 << bit) - 1) & is_set
    for axis in axes:
        axis ^= inverted
    return z_order(axes, bits)
