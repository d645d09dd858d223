package adelta.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An optimizer rule that passes the filters of a scan to its file index, for `DataFrame.inputFiles`.
 *
 * Without it, Spark asks the index for all files of the table. Delta Spark's PrepareDeltaScan lists
 * the files at this point; here they are listed when `inputFiles` is called. The plan is otherwise
 * unchanged.
 */
public final class PruneFiles extends Rule {
    /** Add the rule to a session's optimizer, unless it has it. */
    static synchronized void give(SparkSession session) {
        ExperimentalMethods own = session.sessionState().experimentalMethods();
        List rules = new ArrayList(CollectionConverters.asJava(own.extraOptimizations()));
        for (int index = 0; index < rules.size(); index++) {
            if (rules.get(index) instanceof PruneFiles) {
                return;
            }
        }
        rules.add(new PruneFiles());
        own.extraOptimizations_$eq(seq(rules));
    }

    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new Scans());
    }

    private static final class Scans extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Filter || node instanceof Project;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            scala.Option scan = PhysicalOperation.unapply((LogicalPlan) node);
            if (scan.isEmpty()) {
                return node;
            }
            Object leaf = ((scala.Tuple3) scan.get())._3();
            Seq filters = (Seq) ((scala.Tuple3) scan.get())._2();
            if (filters.isEmpty() || !(leaf instanceof LogicalRelation)) {
                return node;
            }
            LogicalRelation pruned = pruned((LogicalRelation) leaf, filters);
            return pruned == null
                ? node : ((TreeNode) node).transformDown(new Instead((LogicalRelation) leaf, pruned));
        }
    }

    private static final class Instead extends scala.runtime.AbstractPartialFunction {
        private final LogicalRelation before;
        private final LogicalRelation after;

        Instead(LogicalRelation before, LogicalRelation after) {
            this.before = before;
            this.after = after;
        }

        public boolean isDefinedAt(Object node) {
            return node == before;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return node == before ? after : otherwise.apply(node);
        }
    }

    /** The relation with an index that has the filters; null if there is nothing to prune. */
    private static LogicalRelation pruned(LogicalRelation table, Seq filters) {
        if (!(table.relation() instanceof HadoopFsRelation)) {
            return null;
        }
        HadoopFsRelation files = (HadoopFsRelation) table.relation();
        if (!(files.location() instanceof TableFileIndex)) {
            return null;
        }
        TableFileIndex index = (TableFileIndex) files.location();
        if (index.whole != null) {
            return null;
        }
        Set partitions = new HashSet();
        String[] names = files.partitionSchema().fieldNames();
        for (int at = 0; at < names.length; at++) {
            partitions.add(names[at]);
        }
        List ofPartitions = new ArrayList();
        List others = new ArrayList();
        Iterator each = DataSourceStrategy$.MODULE$.normalizeExprs(filters, table.output()).iterator();
        while (each.hasNext()) {
            Expression filter = (Expression) each.next();
            if (filter.deterministic() && !SubqueryExpression.hasSubquery(filter)) {
                (isOf(filter, partitions) ? ofPartitions : others).add(filter);
            }
        }
        if (ofPartitions.isEmpty() && others.isEmpty()) {
            return null;
        }
        Object[] parts = new Object[table.productArity()];
        for (int at = 1; at < parts.length; at++) {
            parts[at] = table.productElement(at);
        }
        parts[0] = new HadoopFsRelation(
            index.pruned(seq(ofPartitions), seq(others), sql(ofPartitions) + " / " + sql(others)),
            files.partitionSchema(),
            files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options(),
            files.sparkSession());
        return (LogicalRelation) table.makeCopy(parts);
    }

    /** Whether an expression refers only to columns with these names. */
    private static boolean isOf(Expression filter, Set names) {
        Iterator columns = filter.references().iterator();
        while (columns.hasNext()) {
            if (!names.contains(((Attribute) columns.next()).name())) {
                return false;
            }
        }
        return true;
    }

    /** The filters as SQL, without expression ids, so that equal scans have equal text. */
    private static String sql(List filters) {
        StringBuilder found = new StringBuilder();
        for (int index = 0; index < filters.size(); index++) {
            found.append(((Expression) filters.get(index)).sql()).append(" AND ");
        }
        return found.toString();
    }

    private static Seq seq(List values) {
        return CollectionConverters.asScala(values).toSeq();
    }
}
