package adelta.spark;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.ClusterByTransform;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table under a name: one version of it for reading, and the table for writing.
 *
 * Plans of reads never hold one: `NamedTables` puts a scan of its files in its place.
 */
public class NamedTable implements SupportsWrite, TruncatableTable {
    private final SparkSession session;
    private final Identifier identifier;
    private final String name;
    private final InPython python;
    private final StructType schema;
    private final Map said;
    private final boolean takesAll;
    private final boolean isTimeTravel;

    /**
     * `python` answers for the table; `extra` are properties that its catalog gives it.
     * `isTimeTravel` tells whether a version was asked for.
     */
    public NamedTable(
            SparkSession session, Identifier identifier, String name, InPython python, Map extra,
            boolean isTimeTravel) {
        this.session = session;
        this.identifier = identifier;
        this.name = name;
        this.python = python;
        this.said = InPython.read((String) python.ask(identifier, new Object[] {"describe"}));
        this.schema = (StructType) DataType.fromJson((String) said.get("schema"));
        this.takesAll = true;
        this.isTimeTravel = isTimeTravel;
        ((Map) said.get("properties")).putAll(extra);
    }

    private NamedTable(NamedTable table) {
        session = table.session;
        identifier = table.identifier;
        name = table.name;
        python = table.python;
        said = table.said;
        schema = table.schema;
        takesAll = false;
        isTimeTravel = table.isTimeTravel;
    }

    /** The same table, for whose columns Spark has to fit the rows that are written. */
    public NamedTable strict() {
        return new NamedTable(this);
    }

    /** Whether rows of any columns can be written to it, as far as Spark knows. */
    public boolean takesAll() {
        return takesAll;
    }

    /** Whether a column may become as a given one is, by more fields or a wider type. */
    public boolean evolves(Attribute column, Attribute given) {
        DataType has = column.dataType();
        if (given.dataType() instanceof NullType) {
            return false;
        }
        return has instanceof StructType || has instanceof ArrayType || has instanceof MapType
            || Boolean.TRUE.equals(said.get("widens"));
    }

    /** The answer of its own to what is asked of it. */
    public Object ask(Object[] question) {
        return python.ask(identifier, question);
    }

    /** Whether adelta computes an expression over columns by its text. */
    public boolean evaluates(Expression expression) {
        return !SqlText.hasOwnFunctions(expression)
            && Boolean.TRUE.equals(
                ask(new Object[] {"evaluates", NamedRows.text(expression, null)}));
    }

    public SparkSession session() {
        return session;
    }

    public String name() {
        return name;
    }

    public String toString() {
        return name;
    }

    /** Whether it was loaded at a version or timestamp that a query asks for. */
    boolean isTimeTravel() {
        return isTimeTravel;
    }

    public String version() {
        return (String) said.get("version");
    }

    public StructType schema() {
        return schema;
    }

    public Transform[] partitioning() {
        List found = new ArrayList();
        List partitions = (List) said.get("partitions");
        for (int index = 0; index < partitions.size(); index++) {
            found.add(Expressions.identity(quoted((String) partitions.get(index))));
        }
        List clusters = (List) said.get("clusters");
        if (!clusters.isEmpty()) {
            List columns = new ArrayList();
            for (int index = 0; index < clusters.size(); index++) {
                columns.add(Expressions.column((String) clusters.get(index)));
            }
            found.add(new ClusterByTransform(CollectionConverters.asScala(columns).toSeq()));
        }
        return (Transform[]) found.toArray(new Transform[found.size()]);
    }

    private static String quoted(String column) {
        return "`" + column.replace("`", "``") + "`";
    }

    public Map properties() {
        return new HashMap((Map) said.get("properties"));
    }

    public Set capabilities() {
        Set found = EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.V1_BATCH_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC);
        if (takesAll) {
            found.add(TableCapability.ACCEPT_ANY_SCHEMA);
        }
        return found;
    }

    public boolean truncateTable() {
        ask(new Object[] {"delete", session, "{}", null});
        return true;
    }

    // Two of the interfaces have defaults of these.

    public CustomMetric[] supportedCustomMetrics() {
        return new CustomMetric[0];
    }

    public CustomTaskMetric[] reportDriverMetrics() {
        return new CustomTaskMetric[0];
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Writing(this, new HashMap(info.options().asCaseSensitiveMap()));
    }

    /** A write of a DataFrame, as Spark has it of sources of its first interface. */
    public static final class Writing
            implements WriteBuilder, SupportsTruncate, V1Write, InsertableRelation {
        private final NamedTable table;
        private final Map options;
        private boolean overwrites = false;

        Writing(NamedTable table, Map options) {
            this.table = table;
            this.options = options;
        }

        public WriteBuilder truncate() {
            overwrites = true;
            return this;
        }

        public Write build() {
            return this;
        }

        public InsertableRelation toInsertableRelation() {
            return this;
        }

        public void insert(Dataset rows, boolean overwrite) {
            Boolean replaces = Boolean.valueOf(overwrites || overwrite);
            table.ask(
                new Object[] {"insert", table.session, rows, InPython.write(options), replaces});
        }
    }

    /** A table that comes to be, or to be another one, with the rows that are written to it. */
    public static final class Staged extends NamedTable implements StagedTable {
        private final Runnable entered;

        /** `entered` notes the table in its catalog, once it is there. */
        public Staged(
                SparkSession session, Identifier identifier, String name, InPython python,
                Runnable entered) {
            super(session, identifier, name, python, new HashMap(), false);
            this.entered = entered;
        }

        public void commitStagedChanges() {
            ask(new Object[] {"commit", session()});
            entered.run();
        }

        public void abortStagedChanges() {
            ask(new Object[] {"abort", session()});
        }
    }
}
