package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Counts of all rows of a table's version: answered from its log, where that has counts of all. */
public final class MetadataOnlyQuery extends Rule {
    private static final String ENABLED = "spark.databricks.delta.optimizeMetadataQuery.enabled";

    private final String deleted;

    private MetadataOnlyQuery(String deleted) {
        this.deleted = deleted;
    }

    /** Let a session's optimizer have the rule, once. A column `deleted` says which rows are not. */
    static synchronized void give(SparkSession session, String deleted) {
        ExperimentalMethods own = session.sessionState().experimentalMethods();
        List rules = new ArrayList(CollectionConverters.asJava(own.extraOptimizations()));
        for (int index = 0; index < rules.size(); index++) {
            if (rules.get(index) instanceof MetadataOnlyQuery) {
                return;
            }
        }
        rules.add(new MetadataOnlyQuery(deleted));
        own.extraOptimizations_$eq(seq(rules));
    }

    public TreeNode apply(TreeNode plan) {
        boolean asked = SQLConf$.MODULE$.get().getConfString(ENABLED, "true").equals("true");
        return asked ? plan.transformDown(new Answers()) : plan;
    }

    private final class Answers extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Aggregate;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof Aggregate)) {
                return otherwise.apply(node);
            }
            LogicalPlan answer = answer((Aggregate) node);
            return answer == null ? node : answer;
        }
    }

    /** What an aggregation comes to; null where rows have to be read. */
    private LogicalPlan answer(Aggregate query) {
        if (!query.groupingExpressions().isEmpty()) {
            return null;
        }
        List columns = CollectionConverters.asJava(query.aggregateExpressions());
        for (int index = 0; index < columns.size(); index++) {
            if (!(columns.get(index) instanceof Alias)
                    || !counts(((Alias) columns.get(index)).child())) {
                return null;
            }
        }
        TableFileIndex files = wholeTable(query.child());
        long rows = files == null ? -1L : files.rows();
        if (rows < 0L) {
            return null;
        }
        List output = new ArrayList();
        Object[] values = new Object[columns.size()];
        Counted counted = new Counted(Literal$.MODULE$.apply(Long.valueOf(rows)));
        for (int index = 0; index < values.length; index++) {
            output.add(((NamedExpression) columns.get(index)).toAttribute());
            Expression child = ((Alias) columns.get(index)).child();
            values[index] = ((Expression) child.transform(counted)).eval(null);
        }
        List answers = new ArrayList();
        answers.add((InternalRow) new GenericInternalRow(values));
        return new LocalRelation(
            seq(output), seq(answers), false, scala.Option.empty());
    }

    private static Seq seq(List values) {
        return CollectionConverters.asScala(values).toSeq();
    }

    /** Whether a value is made of counts of all rows, and of literals beside. */
    private static boolean counts(Expression value) {
        if (value instanceof AggregateExpression) {
            AggregateExpression aggregate = (AggregateExpression) value;
            return !aggregate.isDistinct() && aggregate.filter().isEmpty()
                && aggregate.aggregateFunction() instanceof Count
                && literals(((Count) aggregate.aggregateFunction()).children());
        }
        if (value instanceof Literal) {
            return true;
        }
        scala.collection.Iterator children = value.children().iterator();
        boolean found = value.deterministic() && children.hasNext();
        while (found && children.hasNext()) {
            found = counts((Expression) children.next());
        }
        return found;
    }

    private static boolean literals(Seq values) {
        scala.collection.Iterator each = values.iterator();
        while (each.hasNext()) {
            Object value = each.next();
            if (!(value instanceof Literal) || ((Literal) value).value() == null) {
                return false;
            }
        }
        return true;
    }

    private static final class Counted extends scala.runtime.AbstractPartialFunction {
        private final Literal rows;

        Counted(Literal rows) {
            this.rows = rows;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AggregateExpression;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return node instanceof AggregateExpression ? rows : otherwise.apply(node);
        }
    }

    /** The files whose rows, without deleted ones, the plan has all; null where it has others. */
    private TableFileIndex wholeTable(LogicalPlan plan) {
        while (true) {
            if (plan instanceof Project) {
                plan = ((Project) plan).child();
            } else if (plan instanceof Filter && keepsUndeleted(((Filter) plan).condition())) {
                plan = ((Filter) plan).child();
            } else {
                break;
            }
        }
        if (!(plan instanceof LogicalRelation)) {
            return null;
        }
        Object relation = ((LogicalRelation) plan).relation();
        if (!(relation instanceof HadoopFsRelation)) {
            return null;
        }
        Object files = ((HadoopFsRelation) relation).location();
        return files instanceof TableFileIndex ? (TableFileIndex) files : null;
    }

    private boolean keepsUndeleted(Expression condition) {
        if (!(condition instanceof Not)) {
            return false;
        }
        Expression column = ((Not) condition).child();
        return column instanceof AttributeReference
            && ((AttributeReference) column).name().equals(deleted);
    }
}
