package adelta.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceConstantMetadataStructField;
import org.apache.spark.sql.catalyst.expressions.FileSourceGeneratedMetadataStructField;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Spark's own format of Parquet, with what tables need besides.
 *
 * No row groups are left out by floating-point columns: statistics may say nothing of NaN, which is
 * above all numbers to Spark, and dictionaries and Bloom filters are asked by bits, where -0.0 is
 * not 0.0.
 *
 * There may be one column that is in no file: whether the row is deleted. Every file then says by
 * its metadata `VECTOR` which rows its deletion vector names; a file that says nothing is not read.
 * Executors get these classes in a jar where there is that column, and do not need them elsewhere.
 *
 * A table that tracks rows has their ids and versions in the column `_metadata`, under Delta's
 * names. Rows have them in columns of their files, or by the metadata of the file: the id of its
 * first row and its version.
 */
public final class TableFormat extends ParquetFileFormat {
    public static final String DELETED = "__adelta_deleted";
    public static final String VECTOR = "adelta.vector";
    public static final String FIRST_ID = "base_row_id";
    public static final String VERSION = "default_row_commit_version";

    private static final long NOT_KNOWN = -1L;

    private final String ids;
    private final String versions;

    /** The columns of files that ids and versions of rows are in; null where none are told. */
    public TableFormat(String ids, String versions) {
        this.ids = ids;
        this.versions = versions;
    }

    public String toString() {
        return "Parquet";
    }

    public boolean equals(Object other) {
        return other instanceof TableFormat
            && java.util.Objects.equals(ids, ((TableFormat) other).ids)
            && java.util.Objects.equals(versions, ((TableFormat) other).versions);
    }

    public int hashCode() {
        return java.util.Objects.hash(new Object[] {TableFormat.class.getName(), ids, versions});
    }

    public scala.collection.immutable.Seq metadataSchemaFields() {
        List fields = new ArrayList(CollectionConverters.asJava(super.metadataSchemaFields()));
        if (ids != null) {
            DataType number = DataTypes.LongType;
            fields.add(FileSourceConstantMetadataStructField.apply(FIRST_ID, number, false));
            fields.add(FileSourceConstantMetadataStructField.apply(VERSION, number, false));
            fields.add(FileSourceGeneratedMetadataStructField.apply("row_id", ids, number, false));
            fields.add(
                FileSourceGeneratedMetadataStructField.apply(
                    "row_commit_version", versions, number, false));
        }
        return CollectionConverters.asScala(fields).toSeq();
    }

    /** As with the position of each row, which is read besides. */
    public boolean supportBatch(SparkSession session, StructType schema) {
        boolean plain = place(schema, DELETED) < 0 && (ids == null || place(schema, ids) < 0);
        return super.supportBatch(session, plain ? schema : withPosition(schema));
    }

    public scala.Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType dataSchema,
            StructType partitions,
            StructType required,
            scala.collection.immutable.Seq given,
            scala.collection.immutable.Map options,
            Configuration hadoop) {
        scala.collection.immutable.Seq filters = sound(given, dataSchema);
        int id = ids == null ? -1 : place(required, ids);
        int version = versions == null ? -1 : place(required, versions);
        boolean deletes = place(dataSchema, DELETED) >= 0;
        if (!deletes && id < 0 && version < 0) {
            return new ParquetFileFormat().buildReaderWithPartitionValues(
                session, dataSchema, partitions, required, filters, options, hadoop);
        }
        int deleted = place(required, DELETED);
        if (deletes && deleted < 0) {
            throw new IllegalStateException("a scan does not ask which rows are deleted");
        }
        StructField[] fields = (StructField[]) required.fields().clone();
        if (deletes) {
            fields[deleted] = new StructField(
                DELETED, DataTypes.BooleanType, true, Metadata.empty());  // for it is in no file
        }
        StructType stored = new StructType(fields);
        StructType all = withPosition(stored);
        ParquetFileFormat format = new ParquetFileFormat();
        scala.Function1 plain = format.buildReaderWithPartitionValues(
            session, dataSchema, partitions, stored, filters, options, new Configuration(hadoop));
        scala.Function1 positioned = format.buildReaderWithPartitionValues(
            session, dataSchema, partitions, all, filters, options, new Configuration(hadoop));
        Broadcast conf = session.sparkContext().broadcast(
            new SerializableConfiguration(hadoop),
            ClassTag$.MODULE$.apply(SerializableConfiguration.class));
        boolean offHeap = ((org.apache.spark.sql.classic.SparkSession) session)
            .sessionState().conf().offHeapColumnVectorEnabled();
        int position = place(all, ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME());
        return new Reader(
            plain, positioned, stored, partitions, new int[] {deleted, id, version}, position,
            mayLeaveOut(filters), offHeap, conf);
    }

    /** Whether rows of a file may be left out by filters, so that the others are not all in line. */
    private static boolean mayLeaveOut(scala.collection.immutable.Seq filters) {
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            String[] names = ((Filter) each.next()).references();
            for (int index = 0; index < names.length; index++) {
                if (!names[index].equals(DELETED)) {
                    return true;
                }
            }
        }
        return false;
    }

    /** The columns with the position of each row, at the end unless a query asks for it, too. */
    private static StructType withPosition(StructType schema) {
        String name = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();
        return place(schema, name) >= 0
            ? schema : schema.add(new StructField(name, DataTypes.LongType, true, Metadata.empty()));
    }

    private static int place(StructType schema, String name) {
        for (int index = 0; index < schema.length(); index++) {
            if (schema.apply(index).name().equals(name)) {
                return index;
            }
        }
        return -1;
    }

    /** The filters that name no column with floating-point numbers. */
    static scala.collection.immutable.Seq sound(
            scala.collection.immutable.Seq filters, StructType columns) {
        List kept = new ArrayList();
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            Filter filter = (Filter) each.next();
            String[] names = filter.references();
            boolean exact = true;
            for (int index = 0; exact && index < names.length; index++) {
                exact = !mayBeFraction(names[index], columns);
            }
            if (exact) {
                kept.add(filter);
            }
        }
        return CollectionConverters.asScala(kept).toSeq();
    }

    /** `name` is that of a column, or of a field in it: after a dot, all in backticks or not. */
    private static boolean mayBeFraction(String name, StructType columns) {
        for (int index = 0; index < columns.length(); index++) {
            String column = columns.apply(index).name();
            String quoted = "`" + column.replace("`", "``") + "`";
            boolean named = name.equals(column) || name.startsWith(column + ".")
                || name.equals(quoted) || name.startsWith(quoted + ".");
            if (named && hasFraction(columns.apply(index).dataType())) {
                return true;
            }
        }
        return false;
    }

    private static boolean hasFraction(DataType type) {
        if (type instanceof StructType) {
            StructType fields = (StructType) type;
            for (int index = 0; index < fields.length(); index++) {
                if (hasFraction(fields.apply(index).dataType())) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType) {
            return hasFraction(((ArrayType) type).elementType());
        }
        if (type instanceof MapType) {
            MapType map = (MapType) type;
            return hasFraction(map.keyType()) || hasFraction(map.valueType());
        }
        return type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType);
    }

    /** A file's rows or batches, each with whether it is deleted, its id and its version. */
    private static final class Reader extends scala.runtime.AbstractFunction1
            implements Serializable {
        private final scala.Function1 plain;
        private final scala.Function1 positioned;
        private final StructType required;
        private final StructType partitions;
        private final int deleted;
        private final int id;
        private final int version;
        private final int position;
        private final boolean filtered;
        private final boolean offHeap;
        private final Broadcast hadoop;

        Reader(
                scala.Function1 plain,
                scala.Function1 positioned,
                StructType required,
                StructType partitions,
                int[] computed,
                int position,
                boolean filtered,
                boolean offHeap,
                Broadcast hadoop) {
            this.plain = plain;
            this.positioned = positioned;
            this.required = required;
            this.partitions = partitions;
            this.deleted = computed[0];
            this.id = computed[1];
            this.version = computed[2];
            this.position = position;
            this.filtered = filtered;
            this.offHeap = offHeap;
            this.hadoop = hadoop;
        }

        public Object apply(Object argument) {
            PartitionedFile file = (PartitionedFile) argument;
            String vector = "";
            if (deleted >= 0) {
                scala.Option said = file.otherConstantMetadataColumnValues().get(VECTOR);
                if (said.isEmpty()) {
                    Platform.throwException(
                        new SparkException(
                            file.urlEncodedPath()
                                + ": nobody said which of its rows are deleted"));
                }
                vector = (String) said.get();
            }
            long first = id < 0 ? 0L : number(file, FIRST_ID);
            long from = version < 0 ? 0L : number(file, VERSION);
            if (vector.length() == 0 && id < 0) {
                scala.collection.Iterator rows = (scala.collection.Iterator) plain.apply(file);
                return new Rows(rows, null, this, required.length(), first, from, NOT_KNOWN);
            }
            RoaringBitmap rows = null;
            if (vector.length() > 0) {
                Configuration conf = ((SerializableConfiguration) hadoop.value()).value();
                rows = DeletionVector.read(vector, file.toPath(), conf);
                if (id < 0 && !filtered) {  // to have Spark write each row's position takes longer
                    long start = firstRow(file, conf);
                    scala.collection.Iterator all = (scala.collection.Iterator) plain.apply(file);
                    return new Rows(all, rows, this, required.length(), first, from, start);
                }
            }
            scala.collection.Iterator found = (scala.collection.Iterator) positioned.apply(file);
            int width = Math.max(required.length(), position + 1);
            return new Rows(found, rows, this, width, first, from, NOT_KNOWN);
        }

        /** The position in its file of the first row that a piece of it has. */
        private static long firstRow(PartitionedFile file, Configuration conf) {
            if (file.start() == 0L) {
                return 0L;
            }
            try {
                ParquetReadOptions options = HadoopReadOptions.builder(conf)
                    .withRange(file.start(), file.start() + file.length()).build();
                ParquetFileReader footer =
                    ParquetFileReader.open(HadoopInputFile.fromPath(file.toPath(), conf), options);
                try {
                    List groups = footer.getRowGroups();
                    return groups.isEmpty()
                        ? 0L : ((BlockMetaData) groups.get(0)).getRowIndexOffset();
                } finally {
                    footer.close();
                }
            } catch (IOException error) {
                Platform.throwException(error);
                return 0L;
            }
        }

        private static long number(PartitionedFile file, String name) {
            scala.Option said = file.otherConstantMetadataColumnValues().get(name);
            if (said.isEmpty()) {
                Platform.throwException(
                    new SparkException(
                        file.urlEncodedPath() + " has no " + name + " in the log, which every file"
                            + " of a table that tracks rows has: restore the table to an earlier"
                            + " version"));
            }
            return ((Long) said.get()).longValue();
        }
    }

    private static final class Rows extends scala.collection.AbstractIterator
            implements Closeable {
        private final scala.collection.Iterator from;
        private final RoaringBitmap vector;
        private final Reader reader;
        private final int width;  // of what is read of the file; then come partition columns
        private PeekableIntIterator next;
        private long reached = -1L;
        private long ahead;  // position of the next row, where no column has it
        private final long firstId;
        private final long fileVersion;
        private WritableColumnVector flags;
        private WritableColumnVector idNumbers;
        private WritableColumnVector versionNumbers;
        private ColumnarBatch read;
        private ColumnarBatch given;
        private UnsafeProjection projection;
        private final GenericInternalRow computed = new GenericInternalRow(3);
        private final JoinedRow joined = new JoinedRow();

        Rows(
                scala.collection.Iterator from, RoaringBitmap vector, Reader reader, int width,
                long firstId, long fileVersion, long ahead) {
            this.ahead = ahead;
            this.firstId = firstId;
            this.fileVersion = fileVersion;
            this.from = from;
            this.vector = vector;
            this.reader = reader;
            this.width = width;
            if (TaskContext.get() != null && reader.offHeap) {
                TaskContext.get().addTaskCompletionListener(new Closing(this));
            }
        }

        public boolean hasNext() {
            return from.hasNext();
        }

        public Object next() {
            Object found = from.next();
            return found instanceof ColumnarBatch
                ? (Object) batch((ColumnarBatch) found) : (Object) row((InternalRow) found);
        }

        private ColumnarBatch batch(ColumnarBatch found) {
            int rows = found.numRows();
            boolean isNew = found != read;
            if (reader.deleted >= 0) {
                if (flags == null) {
                    flags = vector(Math.max(rows, 4096), DataTypes.BooleanType);
                    flags.putBooleans(0, Math.max(rows, 4096), false);
                }
                flags.reserve(rows);
                if (vector != null || rows > 4096) {
                    flags.putBooleans(0, rows, false);
                }
                if (vector != null && rows > 0 && ahead == NOT_KNOWN) {
                    mark(found.column(reader.position), rows);
                } else if (vector != null && rows > 0) {
                    mark(ahead, ahead + rows - 1);
                    ahead += rows;
                }
            }
            if (reader.id >= 0) {
                if (idNumbers == null) {
                    idNumbers = vector(Math.max(rows, 4096), DataTypes.LongType);
                }
                idNumbers.reserve(rows);
                ColumnVector stored = found.column(reader.id);
                ColumnVector positions = found.column(reader.position);
                for (int index = 0; index < rows; index++) {
                    idNumbers.putLong(
                        index,
                        stored.isNullAt(index)
                            ? firstId + positions.getLong(index) : stored.getLong(index));
                }
            }
            if (reader.version >= 0) {
                if (versionNumbers == null) {
                    versionNumbers = vector(Math.max(rows, 4096), DataTypes.LongType);
                }
                versionNumbers.reserve(rows);
                ColumnVector stored = found.column(reader.version);
                for (int index = 0; index < rows; index++) {
                    versionNumbers.putLong(
                        index, stored.isNullAt(index) ? fileVersion : stored.getLong(index));
                }
            }
            if (isNew) {
                int own = reader.required.length();
                ColumnVector[] columns = new ColumnVector[own + reader.partitions.length()];
                for (int index = 0; index < columns.length; index++) {
                    columns[index] = index == reader.deleted ? (ColumnVector) flags
                        : index == reader.id ? (ColumnVector) idNumbers
                        : index == reader.version ? (ColumnVector) versionNumbers
                        : found.column(index < own ? index : index - own + width);
                }
                read = found;
                given = new ColumnarBatch(columns);
            }
            given.setNumRows(rows);
            return given;
        }

        private WritableColumnVector vector(int size, DataType type) {
            return reader.offHeap
                ? (WritableColumnVector) new OffHeapColumnVector(size, type)
                : (WritableColumnVector) new OnHeapColumnVector(size, type);
        }

        /** Positions ascend; they have gaps where pages were skipped. */
        private void mark(ColumnVector positions, int rows) {
            long first = positions.getLong(0);
            long last = positions.getLong(rows - 1);
            if (last - first != rows - 1) {
                for (int index = 0; index < rows; index++) {
                    if (names(positions.getLong(index))) {
                        flags.putBoolean(index, true);
                    }
                }
                return;
            }
            mark(first, last);
        }

        /** These rows and all between them are the batch. */
        private void mark(long first, long last) {
            check(first);
            check(last);
            if (next == null || first <= reached) {
                next = vector.getIntIterator();
            }
            reached = last;
            next.advanceIfNeeded((int) first);
            while (next.hasNext()) {
                long at = next.peekNext() & 0xFFFFFFFFL;
                if (at > last) {
                    return;
                }
                flags.putBoolean((int) (at - first), true);
                next.next();
            }
        }

        private boolean names(long position) {
            check(position);
            return vector.contains((int) position);
        }

        private static void check(long position) {
            if (position < 0L || position > 0xFFFFFFFFL) {
                Platform.throwException(
                    new SparkException("rows have no positions, or there are too many"));
            }
        }

        private InternalRow row(InternalRow found) {
            if (projection == null) {
                int own = reader.required.length();
                int all = width + reader.partitions.length();
                Expression[] columns = new Expression[own + reader.partitions.length()];
                for (int index = 0; index < columns.length; index++) {
                    StructField field = index < own
                        ? reader.required.apply(index) : reader.partitions.apply(index - own);
                    int at = index == reader.deleted ? all
                        : index == reader.id ? all + 1
                        : index == reader.version ? all + 2
                        : index < own ? index : index - own + width;
                    columns[index] = new BoundReference(at, field.dataType(), true);
                }
                projection = UnsafeProjection$.MODULE$.create(
                    (scala.collection.immutable.Seq)
                        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(columns));
            }
            boolean gone = vector != null
                && names(ahead == NOT_KNOWN ? found.getLong(reader.position) : ahead++);
            computed.update(0, Boolean.valueOf(gone));
            if (reader.id >= 0) {
                computed.update(
                    1,
                    Long.valueOf(
                        found.isNullAt(reader.id) ? firstId + found.getLong(reader.position)
                            : found.getLong(reader.id)));
            }
            if (reader.version >= 0) {
                computed.update(
                    2,
                    Long.valueOf(
                        found.isNullAt(reader.version) ? fileVersion
                            : found.getLong(reader.version)));
            }
            return projection.apply(joined.apply(found, computed));
        }

        public void close() throws IOException {
            WritableColumnVector[] own = new WritableColumnVector[] {
                flags, idNumbers, versionNumbers
            };
            for (int index = 0; index < own.length; index++) {
                if (own[index] != null) {
                    own[index].close();
                }
            }
            flags = null;
            idNumbers = null;
            versionNumbers = null;
            if (from instanceof Closeable) {
                ((Closeable) from).close();
            }
        }
    }

    private static final class Closing
            implements org.apache.spark.util.TaskCompletionListener {
        private final Rows rows;

        Closing(Rows rows) {
            this.rows = rows;
        }

        public void onTaskCompletion(TaskContext context) {
            try {
                rows.close();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
