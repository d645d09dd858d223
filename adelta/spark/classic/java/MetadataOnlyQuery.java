package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Counts of all rows of a table's version, and the least and greatest values of its columns:
 * answered from its log, where that tells them of all files.
 */
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
                    || !isTold(((Alias) columns.get(index)).child())) {
                return null;
            }
        }
        LogicalRelation table = wholeTable(query.child());
        if (table == null) {
            return null;
        }
        List output = new ArrayList();
        Object[] values = new Object[columns.size()];
        Told told = new Told(query.child(), table);
        for (int index = 0; index < values.length; index++) {
            output.add(((NamedExpression) columns.get(index)).toAttribute());
            Expression child = ((Alias) columns.get(index)).child();
            Expression value = (Expression) child.transform(told);
            if (told.lacks) {
                return null;
            }
            values[index] = value.eval(null);
        }
        List answers = new ArrayList();
        answers.add((InternalRow) new GenericInternalRow(values));
        return new LocalRelation(
            seq(output), seq(answers), false, scala.Option.empty());
    }

    private static Seq seq(List values) {
        return CollectionConverters.asScala(values).toSeq();
    }

    /** Whether a value is made of what the log may tell of all rows, and of literals beside. */
    private static boolean isTold(Expression value) {
        if (value instanceof AggregateExpression) {
            AggregateExpression aggregate = (AggregateExpression) value;
            return !aggregate.isDistinct() && aggregate.filter().isEmpty()
                && (extreme(aggregate) != null
                    || aggregate.aggregateFunction() instanceof Count
                    && literals(((Count) aggregate.aggregateFunction()).children()));
        }
        if (value instanceof Literal) {
            return true;
        }
        scala.collection.Iterator children = value.children().iterator();
        boolean found = value.deterministic() && children.hasNext();
        while (found && children.hasNext()) {
            found = isTold((Expression) children.next());
        }
        return found;
    }

    /** The column of which the least or the greatest value is asked for; null of other functions. */
    private static AttributeReference extreme(AggregateExpression aggregate) {
        Expression column = null;
        if (aggregate.aggregateFunction() instanceof Min) {
            column = ((Min) aggregate.aggregateFunction()).child();
        } else if (aggregate.aggregateFunction() instanceof Max) {
            column = ((Max) aggregate.aggregateFunction()).child();
        }
        return column instanceof AttributeReference ? (AttributeReference) column : null;
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

    /** Aggregations to what a table's log tells of them: it `lacks` one, or does not. */
    private static final class Told extends scala.runtime.AbstractPartialFunction {
        private final LogicalPlan plan;
        private final LogicalRelation table;
        private boolean lacks;

        Told(LogicalPlan plan, LogicalRelation table) {
            this.plan = plan;
            this.table = table;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AggregateExpression;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof AggregateExpression)) {
                return otherwise.apply(node);
            }
            AggregateExpression aggregate = (AggregateExpression) node;
            AttributeReference column = extreme(aggregate);
            Literal found = column == null ? rows() : value(aggregate, column);
            lacks = lacks || found == null;
            return found == null ? node : found;
        }

        private Literal rows() {
            long rows = files(table).rows();
            return rows < 0L ? null : Literal$.MODULE$.apply(Long.valueOf(rows));
        }

        private Literal value(AggregateExpression aggregate, AttributeReference column) {
            NamedExpression own = named(table.output(), source(column).exprId());
            if (own == null) {
                return null;  // it is made of columns, or of a row's place
            }
            DataType type = ((Expression) own).dataType();
            Object[] ends = files(table).extremes(own.name(), type);
            int at = aggregate.aggregateFunction() instanceof Min ? 0 : 1;
            return ends == null ? null : new Literal(ends[at], type);
        }

        /** The column that one of the plan is by another name, as far as it is. */
        private AttributeReference source(AttributeReference column) {
            for (LogicalPlan at = plan; at != table; at = (LogicalPlan) ((UnaryNode) at).child()) {
                NamedExpression made = at instanceof Project
                    ? named(((Project) at).projectList(), column.exprId()) : column;
                Expression from = made instanceof Alias ? ((Alias) made).child() : null;
                if (from instanceof AttributeReference) {
                    column = (AttributeReference) from;
                }
            }
            return column;
        }

        private static NamedExpression named(Seq columns, ExprId id) {
            scala.collection.Iterator each = columns.iterator();
            while (each.hasNext()) {
                NamedExpression found = (NamedExpression) each.next();
                if (found.exprId().equals(id)) {
                    return found;
                }
            }
            return null;
        }
    }

    /** The table whose rows, without deleted ones, the plan has all; null where it has others. */
    private LogicalRelation wholeTable(LogicalPlan plan) {
        while (true) {
            if (plan instanceof Project) {
                plan = ((Project) plan).child();
            } else if (plan instanceof Filter && keepsUndeleted(((Filter) plan).condition())) {
                plan = ((Filter) plan).child();
            } else {
                break;
            }
        }
        boolean found = plan instanceof LogicalRelation && files((LogicalRelation) plan) != null;
        return found ? (LogicalRelation) plan : null;
    }

    private static TableFileIndex files(LogicalRelation table) {
        if (!(table.relation() instanceof HadoopFsRelation)) {
            return null;
        }
        Object files = ((HadoopFsRelation) table.relation()).location();
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
