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
 * A statement about a named table: DELETE, UPDATE or MERGE, whose one row says how many rows it took, a
 * new constraint, or ANALYZE; or SHOW PARTITIONS, whose rows are texts.
 */
public final class NamedChange extends LogicalPlan implements RunnableCommand {
    private static final String[] AFFECTED = {"num_affected_rows"};
    private static final String[] MERGED =
        {"num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"};

    /** What Python is asked when a change is carried out. */
    public interface Question {
        /** A verb, the session, and what is said of it; for some verbs a DataFrame besides. */
        Object[] asked(SparkSession session);
    }

    private final NamedTable table;
    private final Question question;
    private final Seq output;

    /** What the methods make, and Spark's copies of it. */
    public NamedChange(NamedTable table, Question question, Seq output) {
        this.table = table;
        this.question = question;
        this.output = output;
    }

    /** A DELETE or UPDATE. */
    public static NamedChange rows(NamedTable table, NamedRows rows) {
        return new NamedChange(table, rows, columns(AFFECTED));
    }

    /** A MERGE. */
    public static NamedChange merge(NamedTable table, NamedMerge merge) {
        return new NamedChange(table, merge, columns(MERGED));
    }

    private static Seq columns(String[] counts) {
        List columns = new ArrayList();
        for (int index = 0; index < counts.length; index++) {
            columns.add(
                new AttributeReference(
                    counts[index], DataTypes.LongType, true, Metadata.empty(),
                    NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$));
        }
        return CollectionConverters.asScala(columns).toSeq();
    }

    /** What has no rows; `said` is JSON. */
    public static NamedChange silent(NamedTable table, String verb, String said) {
        return new NamedChange(table, saying(verb, said), (Seq) Nil$.MODULE$);
    }

    /** SHOW PARTITIONS of those with some values, which are JSON; the `output` is Spark's. */
    public static NamedChange partitions(NamedTable table, String values, Seq output) {
        return new NamedChange(table, saying("partitions", values), output);
    }

    private static Question saying(final String verb, final String said) {
        return new Question() {
            public Object[] asked(SparkSession session) {
                return new Object[] {verb, session, said};
            }
        };
    }

    public Seq run(SparkSession session) {
        String answer = (String) table.ask(question.asked(session));
        List found = new ArrayList();
        if (output.size() > 0) {
            java.util.Iterator rows = ((List) InPython.read(answer).get("rows")).iterator();
            while (rows.hasNext()) {
                Object[] values = ((List) rows.next()).toArray();
                for (int index = 0; index < values.length; index++) {
                    if (values[index] instanceof Number) {
                        values[index] = Long.valueOf(((Number) values[index]).longValue());
                    }
                }
                found.add(RowFactory.create(values));
            }
        }
        return CollectionConverters.asScala(found).toSeq();
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
        return 3;
    }

    public Object productElement(int index) {
        return new Object[] {table, question, output}[index];
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
