"""Where chunks are, of footers like others that Arrow has judged whole: for tables of small files.

To have Arrow judge the chunks of a file takes about as long as to decode some hundred rows. So once
some files of one schema have been read, a shape is learnt of one that Arrow found sound in all its
chunks, and of files with such footers it is not asked again. Types, codecs and encodings are the
same in all of them; where a chunk is is held to the object's size here, as Arrow does.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.parquet.footer.chunk_ranges import ChunkLayout, chunk_layouts, decoded_bytes
from adelta.parquet.footer.columns import forget_trees
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from adelta.parquet.footer.columns import ColumnTree
    from adelta.parquet.footer.footer_form import FooterForm
    from adelta.parquet.footer.footer_shape import ChunkPlace, FooterShape

__all__ = [
    "KnownShape",
    "WholeFile",
    "forget_shapes",
    "known_chunks",
    "known_file",
    "known_forms",
    "learn_form",
    "learnt_shape",
]

_LONGEST_FOOTER = 64 * 1024  # bytes of footers that are taken as a whole
_MOST_CHUNKS = 256
_LARGEST_OBJECT = 2 * 1024 * 1024  # bytes: of others decoding takes so long that this saves little
_LESSON_EACH = 8  # files of unknown shape; a shape costs as much as some of them
_LAST_LESSON = 64  # such files, after which a schema's footers are taken to be all different
_KINDS = 8
_ARROW = "parquet-cpp-arrow"
_SHAPES = 4  # of a kind
_FORM_EACH = 32  # footers that a shape reads; a form takes as long to make as some hundred
_FORMS = 4  # of a shape
_MOST_LEAVES = 128  # of a form


class KnownShape(NamedTuple):
    """A shape of footers, learnt of files that Arrow found sound.

    Attributes:
        shape: what the footers have in common.
        types: the physical type of each leaf, and the length of values of a fixed one.
        is_flat: whether no leaf has lists, so that each has a value a row.
        names_encodings: whether the writer names all encodings of a chunk.
    """

    shape: FooterShape
    types: tuple[tuple[str, int], ...]
    is_flat: bool
    names_encodings: bool


class WholeFile(NamedTuple):
    """A file of one row group, by its footer: how many rows it has, and where each leaf's are."""

    known: KnownShape
    rows: int
    chunks: list[ChunkPlace]


class _Kind:
    """The files of one schema."""

    def __init__(self, tree: ColumnTree) -> None:
        self.tree = tree
        self.unknown = 0
        self.shapes: tuple[KnownShape, ...] = ()


_kinds: list[_Kind] = []


class _Forms:
    """The forms of a shape, and how many footers it has read without them."""

    def __init__(self, shape: FooterShape) -> None:
        self.shape = shape
        self.read = 0
        self.forms: tuple[FooterForm, ...] = ()


_learnt_last: list[FooterShape] = []  # of those whose statistics alone are asked for
_of_shapes: list[_Forms] = []
_lock = Lock()


def known_chunks(
    path: str, size: int, metadata: pq.FileMetaData, footer: memoryview | None, tree: ColumnTree
) -> dict[tuple[int, int], ChunkLayout] | None:
    """All chunks of an object by row group and leaf; None where Arrow has to judge them. CPU-heavy.

    It is to be asked once of each file.

    Args:
        path: the object.
        size: its size in bytes.
        metadata: its footer.
        footer: the footer's bytes, with the eight behind it; None where they are not at hand.
        tree: its schema's fields.
    """
    if footer is None or len(footer) > _LONGEST_FOOTER or size > _LARGEST_OBJECT:
        return None
    if not 0 < metadata.num_row_groups * tree.num_leaves <= _MOST_CHUNKS:
        return None
    data, kind = bytes(footer), _kind_of(tree)
    for known in kind.shapes:
        found = _by_shape(known, data, size)
        if found is not None:
            if kind.shapes[0] is not known:
                with _lock:  # the last ones give way to new ones
                    others = [each for each in kind.shapes if each is not known]
                    kind.shapes = (known, *others)[:_SHAPES]
            return found
    with _lock:
        kind.unknown += 1
        learns = not kind.unknown % _LESSON_EACH and kind.unknown <= _LAST_LESSON
    return _learnt(kind, path, size, metadata, data) if learns else None


def known_file(footer: bytes, footer_start: int) -> WholeFile | None:
    """A file of one row group by its footer, with the eight bytes behind it. CPU-heavy.

    None where Arrow has to judge it, or where its chunks are not in front of `footer_start`.
    """
    for kind in _kinds[:]:
        for known in kind.shapes:
            found = known.shape.whole(footer)
            if found is None:
                continue
            rows, chunks = found
            inside = all(4 <= place.start <= place.end <= footer_start for place in chunks)
            return WholeFile(known, rows, chunks) if inside else None
    return None


def learnt_shape(footer: bytes, metadata: pq.FileMetaData, leaves: int) -> FooterShape:
    """A shape that reads a footer, of which Arrow makes `metadata`, and those before like it.

    It is kept, so that a process learns it once. CPU-heavy.

    Raises:
        ThriftError: the footer is damaged, or has more to it than is known.
    """
    from adelta.parquet.footer.footer_shape import FooterShape  # most programs need none

    before = next((each for each in _learnt_last[:] if each.is_of(footer)), None)
    if before is not None and before.read(footer) is not None:
        return before
    shape = (before or FooterShape(footer, leaves)).learn(footer, metadata)
    with _lock:
        _learnt_last[:] = [shape, *(each for each in _learnt_last if each is not before)][:_KINDS]
    return shape


def known_forms(shape: FooterShape) -> tuple[FooterForm, ...]:
    """The forms of a shape from `learnt_shape`."""
    return next((each.forms for each in _of_shapes[:] if each.shape is shape), ())


def learn_form(shape: FooterShape, footer: bytes) -> None:
    """Have a form read footers like one that the shape has read by itself, if there are many.

    CPU-heavy.
    """
    with _lock:
        known = next((each for each in _of_shapes if each.shape is shape), None)
        if known is None:
            known = _Forms(shape)
            _of_shapes.insert(0, known)
            del _of_shapes[_KINDS:]
        known.read += 1
        if known.read % _FORM_EACH or len(known.forms) >= _FORMS or len(footer) > _LONGEST_FOOTER:
            return
    from adelta.parquet.footer.footer_form import FooterForm  # most programs need none

    if any(form.fits(footer) for form in known.forms):
        return
    patterns = shape.patterns_of(footer)
    if patterns is not None and len(patterns.chunks) <= _MOST_LEAVES:
        known.forms = (*known.forms, FooterForm(patterns))


def forget_shapes() -> None:
    """Know no more than a process that has just begun; how files are read depends on that.

    Schemas are known by their trees, so that it matters too which of these are kept.
    """
    with _lock:
        _kinds.clear()
        _learnt_last.clear()
        _of_shapes.clear()
    forget_trees()


def _kind_of(tree: ColumnTree) -> _Kind:
    for known in _kinds[:]:
        if known.tree is tree:
            return known
    kind = _Kind(tree)
    with _lock:
        _kinds.insert(0, kind)
        del _kinds[_KINDS:]
    return kind


def _by_shape(
    known: KnownShape, footer: bytes, size: int
) -> dict[tuple[int, int], ChunkLayout] | None:
    groups = known.shape.places(footer)
    if groups is None:
        return None
    found: dict[tuple[int, int], ChunkLayout] = {}
    for number, chunks in enumerate(groups):
        for leaf, (start, end, values, unfolded, *_) in enumerate(chunks):
            if end > size:
                return None
            kind, length = known.types[leaf]
            bytes_of = decoded_bytes(kind, length, unfolded, values)
            found[number, leaf] = ChunkLayout((start, end), kind, bytes_of)
    return found


def _learnt(
    kind: _Kind, path: str, size: int, metadata: pq.FileMetaData, footer: bytes
) -> dict[tuple[int, int], ChunkLayout] | None:
    """What Arrow finds of all chunks, once the footer's shape is known by which it is the same."""
    leaves = range(kind.tree.num_leaves)
    try:
        from adelta.parquet.footer.footer_shape import FooterShape  # most programs need none
    except OSError:  # no descriptor is left to load it by, say: it would only have spared work
        return None
    try:
        judged = chunk_layouts(path, size, metadata, range(metadata.num_row_groups), leaves)
        before = next((each for each in kind.shapes if each.shape.is_of(footer)), None)
        shape = FooterShape(footer, len(leaves)) if before is None else before.shape
        shape = shape.learn(footer, metadata)
    except (InvalidTableError, UnsupportedFeatureError, ThriftError):
        return None
    schema: Any = metadata.schema
    columns = [schema.column(leaf) for leaf in leaves]
    types = tuple((column.physical_type, column.length or 0) for column in columns)
    is_flat = all(not column.max_repetition_level for column in columns)
    known = KnownShape(shape, types, is_flat, (metadata.created_by or "").startswith(_ARROW))
    if _by_shape(known, footer, size) != judged:
        return judged
    with _lock:
        others = [each for each in kind.shapes if each is not before]
        kind.shapes = (known, *others)[:_SHAPES]
    return judged
