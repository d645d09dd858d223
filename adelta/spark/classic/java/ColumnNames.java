package adelta.spark;

import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$;
import org.apache.spark.sql.classic.ExpressionUtils;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What columns are called in expressions that Spark has not looked at yet.
 *
 * Names go to Python and come from there as one text: parts with \1 between, names with \0.
 */
public final class ColumnNames {
    private static final String PART = "\1";
    private static final String NAME = "\0";

    public ColumnNames() {}

    /** The columns of a plan by their full names. */
    public String columns(LogicalPlan plan) {
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < plan.output().size(); index++) {
            Attribute column = (Attribute) plan.output().apply(index);
            text.append(index == 0 ? "" : NAME);
            for (int part = 0; part < column.qualifier().size(); part++) {
                text.append((String) column.qualifier().apply(part)).append(PART);
            }
            text.append(column.name());
        }
        return text.toString();
    }

    /** The names in an expression that have several parts. */
    public String names(Column column) {
        Set found = new LinkedHashSet();
        collect(of(column), found);
        return String.join(NAME, (String[]) found.toArray(new String[found.size()]));
    }

    /** Whether columns are in an expression that were taken from DataFrames. */
    public boolean areTaken(Column column) {
        return areTaken(of(column));
    }

    private static boolean areTaken(Expression expression) {
        boolean found = expression instanceof AttributeReference;
        for (int index = 0; !found && index < expression.children().size(); index++) {
            found = areTaken((Expression) expression.children().apply(index));
        }
        return found;
    }

    private static Expression of(Column column) {
        return ColumnNodeToExpressionConverter$.MODULE$.apply(column.node());
    }

    private static void collect(Expression expression, Set found) {
        if (expression instanceof UnresolvedAttribute) {
            String name = joined((UnresolvedAttribute) expression);
            if (name.indexOf(PART) >= 0) {
                found.add(name);
            }
        }
        for (int index = 0; index < expression.children().size(); index++) {
            collect((Expression) expression.children().apply(index), found);
        }
    }

    private static String joined(UnresolvedAttribute attribute) {
        Seq parts = attribute.nameParts();
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < parts.size(); index++) {
            text.append(index == 0 ? "" : PART).append((String) parts.apply(index));
        }
        return text.toString();
    }

    /**
     * The expression, in which some names, and columns of some plans, have other names.
     *
     * `others` are names by names; `called` has for each plan a text of what its columns are called.
     */
    public Column renamed(Column column, Map others, List plans, List called) {
        Map ofPlans = new HashMap();
        for (int index = 0; index < plans.size(); index++) {
            Seq output = ((LogicalPlan) plans.get(index)).output();
            String[] names = ((String) called.get(index)).split(NAME);
            for (int place = 0; place < output.size(); place++) {
                ofPlans.put(((Attribute) output.apply(place)).exprId(), names[place]);
            }
        }
        Expression expression = of(column);
        return ExpressionUtils.column(
            (Expression) expression.transform(new Renamed(others, ofPlans)));
    }

    private static final class Renamed extends scala.runtime.AbstractPartialFunction {
        private final Map others;
        private final Map ofPlans;

        Renamed(Map others, Map ofPlans) {
            this.others = others;
            this.ofPlans = ofPlans;
        }

        public boolean isDefinedAt(Object node) {
            return found(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            String name = found(node);
            if (name == null) {
                return otherwise.apply(node);
            }
            List parts = java.util.Arrays.asList((Object[]) name.split(PART));
            return new UnresolvedAttribute(CollectionConverters.asScala(parts).toSeq());
        }

        private String found(Object node) {
            if (node instanceof UnresolvedAttribute) {
                return (String) others.get(joined((UnresolvedAttribute) node));
            }
            return node instanceof AttributeReference
                ? (String) ofPlans.get(((AttributeReference) node).exprId()) : null;
        }
    }
}
