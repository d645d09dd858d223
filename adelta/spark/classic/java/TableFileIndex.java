package adelta.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat$;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.ArraySeq$;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt$;

/**
 * The files of one version of a table, as Python plans them.
 *
 * Compiled in the driver when it is first used, by the compiler that Spark has for generated code.
 * That compiler knows no generics, no lambdas and no patterns.
 */
public final class TableFileIndex implements FileIndex {
    private static final int PLANS_KEPT = 8;

    private final String table;
    private final String latest;
    private final String rootPath;
    private final StructType partitions;
    private long bytes;  // less than none: not known yet
    private long rows;
    private boolean countsRows;  // once it has been asked for them
    private final boolean vectors;
    private final boolean rowIds;
    private final Function planner;
    private final Map plans = new LinkedHashMap();
    private final Map extremes = new LinkedHashMap();  // by columns' names
    TableFileIndex whole;  // the index without filters, if this one has some; else null
    private scala.collection.immutable.Seq partitionFilters;
    private scala.collection.immutable.Seq dataFilters;
    private String filters = "";  // the filters of both kinds as SQL

    /**
     * `planner` makes of filters, as JSON, what `read` understands: with `vectors` each file has a
     * deletion vector beside it, or an empty text, and with `rowIds` the id of its first row and a
     * version. For "bytes" and "rows" it says how many there are of all files, as eight bytes, and
     * for "extremes " and a column's name the least value and the greatest one, or nothing. Equal
     * tables have equal files. `latest` is the version and the address, where nobody asked for that
     * version; else empty.
     */
    public TableFileIndex(
            String table, String latest, String rootPath, StructType partitions, String bytes,
            Boolean vectors, Boolean rowIds, Function planner) {
        this.table = table;
        this.latest = latest;
        this.rootPath = rootPath;
        this.partitions = partitions;
        this.bytes = Long.parseLong(bytes);
        this.vectors = vectors.booleanValue();
        this.rowIds = rowIds.booleanValue();
        this.planner = planner;
    }

    /** The same index, whose `inputFiles` match the filters; `filtersAsSql` identifies these. */
    TableFileIndex pruned(
            scala.collection.immutable.Seq partitionFilters,
            scala.collection.immutable.Seq dataFilters, String filtersAsSql) {
        TableFileIndex found = new TableFileIndex(
            table, latest, rootPath, partitions, String.valueOf(bytes), Boolean.valueOf(vectors),
            Boolean.valueOf(rowIds), planner);
        found.whole = this;
        found.partitionFilters = partitionFilters;
        found.dataFilters = dataFilters;
        found.filters = filtersAsSql;
        return found;
    }

    public String latest() {
        return latest;
    }

    /** Two: to what has one path Spark writes files by itself, and clears it, past the log. */
    public scala.collection.immutable.Seq rootPaths() {
        List found = new ArrayList();
        found.add(new Path(rootPath));
        found.add(new Path(rootPath, "_delta_log"));
        return CollectionConverters.asScala(found).toSeq();
    }

    public scala.collection.immutable.Seq listFiles(
            scala.collection.immutable.Seq partitionFilters,
            scala.collection.immutable.Seq dataFilters) {
        return CollectionConverters.asScala(directories(partitionFilters, dataFilters)).toSeq();
    }

    private List directories(
            scala.collection.immutable.Seq partitionFilters,
            scala.collection.immutable.Seq dataFilters) {
        StringBuilder filters = new StringBuilder("[");
        describeAll(partitionFilters, filters);
        describeAll(dataFilters, filters);
        List found;
        try {
            found = planned(filters.append("]").toString());
        } catch (java.io.IOException error) {
            throw new IllegalStateException("what Python planned cannot be read", error);
        }
        return kept(found, partitionFilters);
    }

    /** Spark does not look at filters of partitions again: each has to be true. */
    private List kept(List directories, scala.collection.immutable.Seq filters) {
        List predicates = new ArrayList();
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            Expression filter = (Expression) ((Expression) each.next()).transform(new Bind(partitions));
            predicates.add(Predicate$.MODULE$.createInterpreted(filter));
        }
        if (predicates.isEmpty()) {
            return directories;
        }
        List found = new ArrayList();
        for (int index = 0; index < directories.size(); index++) {
            PartitionDirectory directory = (PartitionDirectory) directories.get(index);
            boolean keeps = true;
            for (int at = 0; keeps && at < predicates.size(); at++) {
                keeps = ((InterpretedPredicate) predicates.get(at)).eval(directory.values());
            }
            if (keeps) {
                found.add(directory);
            }
        }
        return found;
    }

    /** Partition columns to their places in a row. */
    private static final class Bind extends scala.runtime.AbstractPartialFunction {
        private final StructType partitions;

        Bind(StructType partitions) {
            this.partitions = partitions;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof AttributeReference)) {
                return otherwise.apply(node);
            }
            AttributeReference column = (AttributeReference) node;
            int at = partitions.fieldIndex(column.name());
            return new BoundReference(at, column.dataType(), true);
        }
    }

    private List planned(String filters) throws java.io.IOException {
        if (whole != null) {
            return whole.planned(filters);
        }
        synchronized (plans) {
            List known = (List) plans.get(filters);
            if (known != null) {
                return known;
            }
        }
        List found = read(asked(filters));
        synchronized (plans) {
            if (plans.size() >= PLANS_KEPT) {
                plans.remove(plans.keySet().iterator().next());
            }
            plans.put(filters, found);
        }
        return found;
    }

    private List read(byte[] plan) throws java.io.IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(plan));
        int groups = in.readInt();
        List found = new ArrayList(groups);
        for (int group = 0; group < groups; group++) {
            Object[] values = new Object[partitions.length()];
            for (int index = 0; index < values.length; index++) {
                values[index] = value(in, partitions.apply(index).dataType());
            }
            Object[] files = new Object[in.readInt()];
            for (int index = 0; index < files.length; index++) {
                Path path = new Path(text(in));
                long length = in.readLong();
                long modified = in.readLong();
                FileStatus file = new FileStatus(length, false, 1, 128L << 20, modified, path);
                files[index] = new FileStatusWithMetadata(
                    file, vectors || rowIds ? said(in) : FileStatusWithMetadata.apply$default$2());
            }
            found.add(PartitionDirectory.apply(
                (InternalRow) new GenericInternalRow(values),
                (scala.collection.immutable.Seq) ArraySeq$.MODULE$.unsafeWrapArray(files)));
        }
        return found;
    }

    /** The metadata of a file by which `TableFormat` knows its deletion vector and its rows. */
    private scala.collection.immutable.Map said(DataInputStream in) throws java.io.IOException {
        Map found = new LinkedHashMap();
        if (vectors) {
            found.put("adelta.vector", text(in));
        }
        if (rowIds) {
            found.put("base_row_id", Long.valueOf(in.readLong()));
            found.put("default_row_commit_version", Long.valueOf(in.readLong()));
        }
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(found));
    }

    private static String text(DataInputStream in) throws java.io.IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static Object value(DataInputStream in, DataType type) throws java.io.IOException {
        if (!in.readBoolean()) {
            return null;
        }
        if (type instanceof DecimalType) {
            DecimalType decimal = (DecimalType) type;
            return Decimal.apply(
                new BigDecimal(text(in)), decimal.precision(), decimal.scale());
        }
        if (type.equals(DataTypes.BinaryType)) {
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            return bytes;
        }
        if (type.equals(DataTypes.BooleanType)) {
            return Boolean.valueOf(in.readLong() != 0L);
        }
        if (type.equals(DataTypes.DoubleType)) {
            return Double.valueOf(in.readDouble());
        }
        if (type.equals(DataTypes.FloatType)) {
            return Float.valueOf((float) in.readDouble());
        }
        if (type.equals(DataTypes.ByteType)) {
            return Byte.valueOf((byte) in.readLong());
        }
        if (type.equals(DataTypes.ShortType)) {
            return Short.valueOf((short) in.readLong());
        }
        if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
            return Integer.valueOf((int) in.readLong());
        }
        if (type.equals(DataTypes.LongType) || type.equals(DataTypes.TimestampType)
                || type.equals(DataTypes.TimestampNTZType)) {
            return Long.valueOf(in.readLong());
        }
        return UTF8String.fromString(text(in));
    }

    public String[] inputFiles() {
        scala.collection.immutable.Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        List directories =
            whole != null ? directories(partitionFilters, dataFilters) : directories(none, none);
        List found = new ArrayList();
        for (int index = 0; index < directories.size(); index++) {
            PartitionDirectory directory = (PartitionDirectory) directories.get(index);
            scala.collection.Iterator files = directory.files().iterator();
            while (files.hasNext()) {
                found.add(((FileStatusWithMetadata) files.next()).getPath().toUri().toString());
            }
        }
        return (String[]) found.toArray(new String[found.size()]);
    }

    public void refresh() {}  // a version does not change

    public synchronized long sizeInBytes() {
        if (bytes < 0L) {
            bytes = whole == null ? number("bytes") : whole.sizeInBytes();
        }
        return bytes;
    }

    /** How many rows there are; less than none where the log does not say. */
    synchronized long rows() {
        if (!countsRows) {
            rows = number("rows");
            countsRows = true;
        }
        return rows;
    }

    /** A column's least value and its greatest one; null where the log does not say. */
    synchronized Object[] extremes(String column, DataType type) {
        if (!extremes.containsKey(column)) {
            byte[] said = asked("extremes " + column);
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(said));
            try {
                extremes.put(column, said.length == 0
                    ? null : new Object[] {value(in, type), value(in, type)});
            } catch (java.io.IOException error) {
                throw new IllegalStateException("what Python says cannot be read", error);
            }
        }
        return (Object[]) extremes.get(column);
    }

    /** Add the rules for tables to a session's optimizer; `deleted` is the column of deleted rows. */
    public static void giveRules(
            org.apache.spark.sql.classic.SparkSession session, String deleted) {
        MetadataOnlyQuery.give(session, deleted);
        PruneFiles.give(session);
    }

    private long number(String what) {
        return ByteBuffer.wrap(asked(what)).getLong();
    }

    /** What the planner is told of a table of so many rows, whose columns have what is `said`. */
    public CatalogStatistics statistics(String rows, byte[] said) throws java.io.IOException {
        scala.collection.immutable.HashMap columns = new scala.collection.immutable.HashMap();
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(said));
        while (in.available() > 0) {
            String name = text(in);
            scala.Option distinct = count(in);
            scala.Option nulls = count(in);
            scala.Option least = end(in);
            scala.Option greatest = end(in);
            columns = columns.updated(name, new CatalogColumnStat(
                distinct, least, greatest, nulls, scala.Option.empty(), scala.Option.empty(),
                scala.Option.empty(), CatalogColumnStat$.MODULE$.VERSION()));
        }
        return new CatalogStatistics(
            BigInt$.MODULE$.apply(sizeInBytes()),
            scala.Option.apply(BigInt$.MODULE$.apply(rows)),
            columns);
    }

    private static scala.Option count(DataInputStream in) throws java.io.IOException {
        return scala.Option.apply(BigInt$.MODULE$.apply(in.readLong()));
    }

    /** A column's least value, or its greatest, as Spark's catalog spells it. */
    private static scala.Option end(DataInputStream in) throws java.io.IOException {
        return in.readBoolean() ? scala.Option.apply(text(in)) : scala.Option.empty();
    }

    private byte[] asked(String filters) {
        Object answer = planner.apply(filters);
        if (!(answer instanceof byte[])) {
            throw new IllegalArgumentException(String.valueOf(answer));
        }
        return (byte[]) answer;
    }

    public StructType partitionSchema() {
        return partitions;
    }

    public String toString() {
        return "adelta " + table;
    }

    public boolean equals(Object other) {
        return other instanceof TableFileIndex
            && ((TableFileIndex) other).table.equals(table)
            && ((TableFileIndex) other).filters.equals(filters);
    }

    public int hashCode() {
        return table.hashCode();
    }

    // ------------------------------------------------------------------------------- filters

    private static void describeAll(scala.collection.immutable.Seq filters, StringBuilder into) {
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            describeEach((Expression) each.next(), into);
        }
    }

    /** Each side of a conjunction for itself: what cannot be said of one leaves the other. */
    private static void describeEach(Expression filter, StringBuilder into) {
        if (filter instanceof And) {
            describeEach(((And) filter).left(), into);
            describeEach(((And) filter).right(), into);
            return;
        }
        String said = describe(filter);
        if (said != null) {
            into.append(into.length() > 1 ? "," : "").append(said);
        }
    }

    /** A filter as JSON; null where Python has no counterpart of it. */
    private static String describe(Expression e) {
        if (e instanceof And) {
            return both("and", describe(((And) e).left()), describe(((And) e).right()));
        }
        if (e instanceof Or) {
            return both("or", describe(((Or) e).left()), describe(((Or) e).right()));
        }
        if (e instanceof Not) {
            return one("not", describe(((Not) e).child()));
        }
        if (e instanceof IsNull) {
            return one("null", column(((IsNull) e).child()));
        }
        if (e instanceof IsNotNull) {
            String said = one("null", column(((IsNotNull) e).child()));
            return one("not", said);
        }
        if (e instanceof EqualTo) {
            return compared("=", "=", ((EqualTo) e).left(), ((EqualTo) e).right());
        }
        if (e instanceof EqualNullSafe) {
            return compared("<=>", "<=>", ((EqualNullSafe) e).left(), ((EqualNullSafe) e).right());
        }
        if (e instanceof LessThan) {
            return compared("<", ">", ((LessThan) e).left(), ((LessThan) e).right());
        }
        if (e instanceof LessThanOrEqual) {
            return compared(
                "<=", ">=", ((LessThanOrEqual) e).left(), ((LessThanOrEqual) e).right());
        }
        if (e instanceof GreaterThan) {
            return compared(">", "<", ((GreaterThan) e).left(), ((GreaterThan) e).right());
        }
        if (e instanceof GreaterThanOrEqual) {
            return compared(
                ">=", "<=", ((GreaterThanOrEqual) e).left(), ((GreaterThanOrEqual) e).right());
        }
        if (e instanceof StartsWith) {
            return compared("starts", null, ((StartsWith) e).left(), ((StartsWith) e).right());
        }
        if (e instanceof EndsWith) {
            return compared("ends", null, ((EndsWith) e).left(), ((EndsWith) e).right());
        }
        if (e instanceof Contains) {
            return compared("contains", null, ((Contains) e).left(), ((Contains) e).right());
        }
        if (e instanceof In) {
            return options((In) e);
        }
        if (e instanceof InSet) {
            return options((InSet) e);
        }
        return null;
    }

    private static String one(String op, String child) {
        return child == null ? null : "[\"" + op + "\"," + child + "]";
    }

    private static String both(String op, String left, String right) {
        return left == null || right == null ? null : "[\"" + op + "\"," + left + "," + right + "]";
    }

    private static String compared(String op, String turned, Expression left, Expression right) {
        if (left instanceof Literal && turned != null) {
            return compared(turned, null, right, left);
        }
        if (!(right instanceof Literal) || !left.dataType().equals(right.dataType())) {
            return null;
        }
        return both(op, column(left), literal(((Literal) right).value(), right.dataType()));
    }

    private static String options(In in) {
        StringBuilder said = new StringBuilder();
        scala.collection.Iterator each = in.list().iterator();
        while (each.hasNext()) {
            Expression option = (Expression) each.next();
            if (!(option instanceof Literal)
                    || !option.dataType().equals(in.value().dataType())
                    || !add(said, ((Literal) option).value(), option.dataType())) {
                return null;
            }
        }
        return both("in", column(in.value()), "[" + said + "]");
    }

    private static String options(InSet in) {
        StringBuilder said = new StringBuilder();
        scala.collection.Iterator each = in.hset().iterator();
        while (each.hasNext()) {
            if (!add(said, each.next(), in.child().dataType())) {
                return null;
            }
        }
        return both("in", column(in.child()), "[" + said + "]");
    }

    private static boolean add(StringBuilder said, Object value, DataType type) {
        String option = literal(value, type);
        if (option == null) {
            return false;
        }
        said.append(said.length() > 0 ? "," : "").append(option);
        return true;
    }

    private static String column(Expression e) {
        String path = path(e);
        return path == null ? null : "[" + path + "]";
    }

    private static String path(Expression e) {
        if (e instanceof AttributeReference) {
            return quoted(((AttributeReference) e).name());
        }
        if (e instanceof GetStructField) {
            GetStructField step = (GetStructField) e;  // whose own name may be one of before
            String above = path(step.child());
            StructType type = (StructType) step.child().dataType();
            return above == null
                ? null : above + "," + quoted(type.fields()[step.ordinal()].name());
        }
        return null;
    }

    /** A value as text; dates are days, times microseconds, since the epoch. */
    private static String literal(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        if (type.equals(DataTypes.BinaryType)) {
            StringBuilder hex = new StringBuilder();
            byte[] bytes = (byte[]) value;
            for (int index = 0; index < bytes.length; index++) {
                hex.append(Character.forDigit((bytes[index] >> 4) & 15, 16));
                hex.append(Character.forDigit(bytes[index] & 15, 16));
            }
            return quoted(hex.toString());
        }
        boolean plain = type instanceof DecimalType
            || type.equals(DataTypes.StringType) || type.equals(DataTypes.BooleanType)
            || type.equals(DataTypes.ByteType) || type.equals(DataTypes.ShortType)
            || type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType)
            || type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType)
            || type.equals(DataTypes.DateType) || type.equals(DataTypes.TimestampType)
            || type.equals(DataTypes.TimestampNTZType);
        return plain ? quoted(value.toString()) : null;
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (int index = 0; index < text.length(); index++) {
            char one = text.charAt(index);
            if (one == '"' || one == '\\' || one < ' ' || Character.isSurrogate(one)) {
                json.append(String.format("\\u%04x", new Object[] {Integer.valueOf(one)}));
            } else {
                json.append(one);
            }
        }
        return json.append("\"").toString();
    }
}
