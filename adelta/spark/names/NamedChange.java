package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.Statistics$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A change of a named table: DELETE or UPDATE, whose one row says how many rows it took, a new
 * constraint, or ANALYZE; or SHOW PARTITIONS, whose rows are texts.
 */
public final class NamedChange extends LogicalPlan implements RunnableCommand {
    private static final String PARTITIONS = "partitions";

    private final NamedTable table;
    private final String verb;
    private final String where;
    private final String values;
    private final Seq output;

    /** What `of` makes, and Spark's copies of it. */
    public NamedChange(NamedTable table, String verb, String where, String values, Seq output) {
        this.table = table;
        this.verb = verb;
        this.where = where;
        this.values = values;
        this.output = output;
    }

    /** `where` and `values`, which are JSON, hold SQL text. */
    public static NamedChange of(NamedTable table, String verb, String where, String values) {
        List columns = new ArrayList();
        columns.add(
            new AttributeReference(
                "num_affected_rows", DataTypes.LongType, true, Metadata.empty(),
                NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$));
        Seq output = CollectionConverters.asScala(columns).toSeq();
        return new NamedChange(table, verb, where, values, output);
    }

    /** What says nothing; `values` are JSON. */
    public static NamedChange silent(NamedTable table, String verb, String values) {
        return new NamedChange(table, verb, null, values, (Seq) Nil$.MODULE$);
    }

    /** SHOW PARTITIONS of those with some values, which are JSON; the `output` is Spark's. */
    public static NamedChange partitions(NamedTable table, String values, Seq output) {
        return new NamedChange(table, PARTITIONS, null, values, output);
    }

    public Seq run(SparkSession session) {
        List rows = new ArrayList();
        Object[] question = "delete".equals(verb)
            ? new Object[] {verb, session, where} : new Object[] {verb, session, values, where};
        Object count = table.ask(question);
        if (PARTITIONS.equals(verb)) {
            java.util.Iterator found = ((List) InPython.read((String) count).get("rows")).iterator();
            while (found.hasNext()) {
                rows.add(RowFactory.create(new Object[] {found.next()}));
            }
        } else if (!output.isEmpty()) {
            Object value = count == null ? null : Long.valueOf(((Number) count).longValue());
            rows.add(RowFactory.create(new Object[] {value}));
        }
        return CollectionConverters.asScala(rows).toSeq();
    }

    public Seq output() {
        return output;
    }

    public Seq children() {
        return (Seq) Nil$.MODULE$;
    }

    public TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) {
        return this;
    }

    public Statistics stats() {
        return Statistics$.MODULE$.DUMMY();
    }

    public Seq nodePatterns() {
        List patterns = new ArrayList();
        patterns.add(TreePattern$.MODULE$.COMMAND());
        return CollectionConverters.asScala(patterns).toSeq();
    }

    public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(
            Seq patterns) {}

    public int productArity() {
        return 5;
    }

    public Object productElement(int index) {
        return new Object[] {table, verb, where, values, output}[index];
    }

    public boolean canEqual(Object other) {
        return other instanceof NamedChange;
    }

    public boolean equals(Object other) {
        return this == other;
    }

    public int hashCode() {
        return System.identityHashCode(this);
    }
}
