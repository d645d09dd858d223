package adelta.spark;

import java.time.Instant;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionDef;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * The text of a resolved expression, which means what the expression means.
 *
 * Spark's own text is for people. A time in it is on the session's clock, which shows some hours
 * twice; and functions such as BETWEEN stand there as they were written, before Spark gave their
 * arguments types.
 */
public final class SqlText implements Function {
    public SqlText() {}

    public Object apply(Object expression) {
        return of((Expression) expression);
    }

    /** The text of `expression` over the rows of `plan`: columns bear the names of their tables. */
    public String over(Expression expression, LogicalPlan plan) {
        return of((Expression) expression.transform(new Qualified(plan)));
    }

    /** Whether a function of the user's own is in it: by its name alone it would be another one. */
    public static boolean hasOwnFunctions(Expression expression) {
        boolean found = expression instanceof UserDefinedExpression;
        for (int index = 0; !found && index < expression.children().size(); index++) {
            found = hasOwnFunctions((Expression) expression.children().apply(index));
        }
        return found;
    }

    /** The text of `expression`. */
    public static String of(Expression expression) {
        if (hasOwnFunctions(expression)) {
            Platform.throwException(
                new UnsupportedOperationException(
                    expression.sql() + " has a function of your own, which only Spark computes:"
                        + " compute it in a DataFrame, and merge that"));
        }
        return ((Expression) expression.transform(new Exact())).sql();
    }

    /** A column that was taken from a DataFrame does not say by itself which table it is of. */
    private static final class Qualified extends scala.runtime.AbstractPartialFunction {
        private final LogicalPlan plan;

        Qualified(LogicalPlan plan) {
            this.plan = plan;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference && found((AttributeReference) node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node)
                ? (Object) found((AttributeReference) node) : otherwise.apply(node);
        }

        private Attribute found(AttributeReference wanted) {
            for (int index = 0; index < plan.output().size(); index++) {
                Attribute one = (Attribute) plan.output().apply(index);
                if (one.exprId().equals(wanted.exprId())) {
                    return one;
                }
            }
            return null;
        }
    }

    private static final class Exact extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof InheritAnalysisRules || node instanceof With
                || node instanceof VariantGet || isMoment(node);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (node instanceof InheritAnalysisRules) {
                Expression meant = ((RuntimeReplaceable) node).replacement();
                Object found = isDefinedAt(meant) ? applyOrElse(meant, otherwise) : (Object) meant;
                boolean isBetween = ((Expression) node).prettyName().equals("between");
                return isBetween && found instanceof And ? between((And) found) : found;
            }
            if (node instanceof With) {
                return ((With) node).child().transform(new Inlined((With) node));
            }
            if (node instanceof VariantGet) {
                return taken((VariantGet) node);
            }
            return isMoment(node) ? (Object) moment((Literal) node) : otherwise.apply(node);
        }
    }

    /** A part of a variant; Spark's own text lacks the type that it is cast to. */
    private static Expression taken(VariantGet part) {
        String text = part.prettyName() + "(" + of(part.child()) + ", " + of(part.path()) + ", '"
            + part.targetType().sql() + "')";
        return new PrettyAttribute(text, part.targetType());
    }

    /** The same as BETWEEN, whose bounds get no blanks where columns of char(n) do. */
    private static Expression between(And both) {
        if (!(both.left() instanceof GreaterThanOrEqual && both.right() instanceof LessThanOrEqual)) {
            return both;
        }
        GreaterThanOrEqual low = (GreaterThanOrEqual) both.left();
        LessThanOrEqual high = (LessThanOrEqual) both.right();
        if (!low.left().semanticEquals(high.left())) {
            return both;
        }
        String text = "((" + of(low.left()) + ") BETWEEN (" + of(low.right()) + ") AND ("
            + of(high.right()) + "))";
        return new PrettyAttribute(text, DataTypes.BooleanType);
    }

    private static boolean isMoment(Object node) {
        return node instanceof Literal && ((Literal) node).value() != null
            && ((Literal) node).dataType().equals(DataTypes.TimestampType);
    }

    private static Expression moment(Literal literal) {
        long micros = ((Long) literal.value()).longValue();
        Instant at = Instant.ofEpochSecond(
            Math.floorDiv(micros, 1000000L), 1000L * Math.floorMod(micros, 1000000L));
        Literal text = new Literal(UTF8String.fromString(at.toString()), DataTypes.StringType);
        return new Cast(text, DataTypes.TimestampType, Option.apply("UTC"), EvalMode$.MODULE$.ANSI());
    }

    /** What an expression has in common with itself, where it is used. */
    private static final class Inlined extends scala.runtime.AbstractPartialFunction {
        private final With with;

        Inlined(With with) {
            this.with = with;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof CommonExpressionRef && found((CommonExpressionRef) node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node)
                ? (Object) found((CommonExpressionRef) node) : otherwise.apply(node);
        }

        private Expression found(CommonExpressionRef wanted) {
            for (int index = 0; index < with.defs().size(); index++) {
                CommonExpressionDef one = (CommonExpressionDef) with.defs().apply(index);
                if (one.id().equals(wanted.id())) {
                    return one.child();
                }
            }
            return null;
        }
    }
}
