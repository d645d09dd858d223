package adelta.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Which rows DELETE and UPDATE change, and to what, in words for Python.
 *
 * Conditions and values are SQL text over one row. What adelta does not compute in them, subqueries
 * and functions of the user's own, Spark does. A part with subqueries that is about no row becomes a
 * constant. Else a condition says of two rows the same that are alike in the columns which it names;
 * so Spark finds what these hold in the rows for which it is true, and the rows of the table that
 * hold it are changed.
 */
public final class NamedRows implements NamedChange.Question {
    private static final String TARGET = "target";
    private static final String SOURCE = "source";

    private final String verb;
    private final NamedTable table;
    private final DataSourceV2Relation relation;
    private final Expression where;
    private final List columns;
    private final List values;

    /**
     * `where` is null where all rows are meant; `values` are expressions for `columns`. Both are
     * over the columns of `relation`, which is the table.
     */
    public NamedRows(
            String verb, NamedTable table, DataSourceV2Relation relation, Expression where,
            List columns, List values) {
        this.verb = verb;
        this.table = table;
        this.relation = relation;
        this.where = where;
        this.columns = columns;
        this.values = values;
    }

    /** Whether an expression asks subqueries. */
    public static boolean asks(Expression expression) {
        return SubqueryExpression$.MODULE$.hasSubquery(expression);
    }

    public Object[] asked(SparkSession given) {
        org.apache.spark.sql.classic.SparkSession session =
            (org.apache.spark.sql.classic.SparkSession) given;
        Object version = madeOf();
        Expression condition = where == null ? null : constant(where, session);
        boolean joins = version != null || condition != null && !evaluates(condition);
        List found = new ArrayList();
        List computed = new ArrayList();
        for (int index = 0; index < values.size(); index++) {
            Expression value = constant((Expression) values.get(index), session);
            boolean ours = evaluates(value);
            joins = joins || !ours;
            computed.add(Boolean.valueOf(!ours));
            found.add(value);
        }
        Map said = new HashMap();
        if (!joins) {
            said.put("where", condition == null ? null : text(condition, null));
            said.put("values", pairs(found, computed, null, null));
            return new Object[] {verb, given, InPython.write(said), null};
        }
        List picked = new ArrayList();
        pick(condition, picked);
        for (int index = 0; index < found.size(); index++) {
            if (Boolean.TRUE.equals(computed.get(index))) {
                pick((Expression) found.get(index), picked);
            }
        }
        Map keys = new LinkedHashMap();
        List names = new ArrayList();
        List on = new ArrayList();
        for (int index = 0; index < picked.size(); index++) {
            key((Expression) picked.get(index), "k" + index, keys, on);
        }
        said.put("values", pairs(found, computed, TARGET, names));
        said.put("made_of", version);
        said.put("predicate", where == null ? null : where.sql());
        said.put("parts", condition == null || asks(condition) ? new ArrayList() : parts(condition));
        said.put("on", on.isEmpty() ? "true" : joined(on));
        LogicalPlan rows = picked.isEmpty()
            ? (LogicalPlan) new OneRowRelation() : NamedTables.scan(relation, table);
        if (condition != null) {
            rows = new Filter(condition, rows);
        }
        keys.put("k", functions.lit(Boolean.TRUE));
        String[] different = (String[]) keys.keySet().toArray(new String[keys.size()]);
        List columns = new ArrayList();
        for (int index = 0; index < different.length; index++) {
            columns.add(((Column) keys.get(different[index])).as(different[index]));
        }
        for (int index = 0; index < names.size(); index++) {
            columns.add(ExpressionUtils.column((Expression) names.get(index)));
        }
        Dataset held = Dataset.ofRows(session, rows).select(
            CollectionConverters.asScala(columns).toSeq());
        return new Object[] {
            verb, given, InPython.write(said), held.dropDuplicates(different)};
    }

    /** The version of the table that subqueries ask for; null where none does. */
    private Object madeOf() {
        List asking = new ArrayList();
        if (where != null && asks(where)) {
            asking.add(named(where, "where"));
        }
        for (int index = 0; index < values.size(); index++) {
            if (asks((Expression) values.get(index))) {
                asking.add(named((Expression) values.get(index), "value"));
            }
        }
        return asking.isEmpty() ? null : table.ask(new Object[] {"made_of", table.session(),
            new Project(CollectionConverters.asScala(asking).toSeq(), new OneRowRelation())});
    }

    /**
     * By what rows are found that hold the same in a column, or a field of one.
     *
     * Of values that are equal, as 0.0 and -0.0 are and some texts by a collation, an expression may
     * tell one from the other: so zeros have a key besides, and texts are compared as they are.
     */
    private static void key(Expression picked, String name, Map keys, List on) {
        DataType type = picked.dataType();
        if (!tellsRowsApart(type, false)) {
            throw refused("the column " + picked.sql() + " is a " + type.simpleString() + ", by"
                + " which rows are not found that only Spark computes: compute what is asked in a"
                + " DataFrame, and merge that");
        }
        Column column = ExpressionUtils.column(picked);
        String target = text(picked, TARGET);
        keys.put(name, type instanceof StringType ? column.cast(DataTypes.StringType) : column);
        on.add(target + " <=> " + SOURCE + "." + name);
        if (type instanceof FractionalType && !(type instanceof DecimalType)) {
            Column zero = column.equalTo(Integer.valueOf(0));
            keys.put(name + "z", functions.when(zero, column.cast(DataTypes.StringType)));
            on.add("CASE WHEN " + target + " = 0 THEN CAST(" + target + " AS STRING) END <=> "
                + SOURCE + "." + name + "z");
        }
    }

    /** Whether rows are found by such values; what is `within` others has no key of its own. */
    private static boolean tellsRowsApart(DataType type, boolean within) {
        if (type instanceof ArrayType) {
            return tellsRowsApart(((ArrayType) type).elementType(), true);
        }
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int index = 0; index < fields.length; index++) {
                if (!tellsRowsApart(fields[index].dataType(), true)) {
                    return false;
                }
            }
            return true;
        }
        if (!(type instanceof AtomicType) || type instanceof VariantType) {
            return false;
        }
        boolean unlike = type instanceof StringType
            ? !type.equals(DataTypes.StringType)
            : type instanceof FractionalType && !(type instanceof DecimalType);
        return !within || !unlike;
    }

    /** Whether adelta computes an expression by its text. */
    private boolean evaluates(Expression expression) {
        return !asks(expression) && table.evaluates(expression);
    }

    /** The texts of those parts of a condition that AND joins and that adelta computes. */
    private List parts(Expression condition) {
        List found = new ArrayList();
        if (condition instanceof And) {
            found.addAll(parts(((And) condition).left()));
            found.addAll(parts(((And) condition).right()));
        } else if (evaluates(condition)) {
            found.add(text(condition, null));
        }
        return found;
    }

    /** Take up the columns, and fields of columns, by which it is known what an expression is. */
    private static void pick(Expression expression, List picked) {
        if (expression == null) {
            return;
        }
        if (!expression.deterministic()) {
            throw refused(expression.sql() + " is another value whenever it is computed, which a"
                + " change of a Delta table cannot go by: write its values to a table, and merge"
                + " that");
        }
        if (isPath(expression)) {
            for (int index = 0; index < picked.size(); index++) {
                if (expression.semanticEquals((Expression) picked.get(index))) {
                    return;
                }
            }
            picked.add(expression);
            return;
        }
        for (int index = 0; index < expression.children().size(); index++) {
            pick((Expression) expression.children().apply(index), picked);
        }
    }

    private static boolean isPath(Expression expression) {
        return expression instanceof AttributeReference
            || expression instanceof GetStructField
                && isPath(((GetStructField) expression).child());
    }

    /** Columns and the text of their values; those that Spark has computed become `names`. */
    private List pairs(List found, List computed, String table, List names) {
        List pairs = new ArrayList();
        for (int index = 0; index < found.size(); index++) {
            Expression value = (Expression) found.get(index);
            List pair = new ArrayList();
            pair.add(columns.get(index));
            if (names != null && Boolean.TRUE.equals(computed.get(index))) {
                String name = "v" + index;
                names.add(named(value, name));
                pair.add(SOURCE + "." + name);
            } else {
                pair.add(text(value, table));
            }
            pairs.add(pair);
        }
        return pairs;
    }

    private static String joined(List parts) {
        StringBuilder text = new StringBuilder();
        for (int index = 0; index < parts.size(); index++) {
            text.append(index == 0 ? "" : " AND ").append((String) parts.get(index));
        }
        return text.toString();
    }

    private static Alias named(Expression expression, String name) {
        return new Alias(
            expression, name, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$,
            Option.empty(), (Seq) Nil$.MODULE$);
    }

    private static RuntimeException refused(String message) {
        Platform.throwException(new InPython.Refused(message));
        return null;
    }

    /** The text of an expression over columns, which are those of `table`, or bear no table's name. */
    public static String text(Expression expression, String table) {
        return SqlText.of((Expression) expression.transform(new Qualified(table)));
    }

    /** Columns by the name of one table, or by their bare names. */
    private static final class Qualified extends scala.runtime.AbstractPartialFunction {
        private final Seq qualifier;

        Qualified(String table) {
            List names = new ArrayList();
            if (table != null) {
                names.add(table);
            }
            qualifier = CollectionConverters.asScala(names).toSeq();
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node)
                ? ((AttributeReference) node).withQualifier(qualifier) : otherwise.apply(node);
        }
    }

    // ------------------------------------------------------------------------------- constants

    /** The expression with constants for subqueries, and what is around them, about no row. */
    private static Expression constant(
            Expression expression, final org.apache.spark.sql.classic.SparkSession session) {
        return (Expression) expression.transformDown(
            new scala.runtime.AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return isConstant((Expression) node);
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    return isDefinedAt(node)
                        ? computed((Expression) node, session) : otherwise.apply(node);
                }
            });
    }

    private static boolean isConstant(Expression expression) {
        return asks(expression) && !(expression instanceof ListQuery) && expression.resolved() && expression.references().isEmpty()
            && expression.deterministic() && expression.dataType() instanceof AtomicType;
    }

    private static Expression computed(
            Expression expression, org.apache.spark.sql.classic.SparkSession session) {
        List one = new ArrayList();
        one.add(named(expression, "value"));
        LogicalPlan plan =
            new Project(CollectionConverters.asScala(one).toSeq(), new OneRowRelation());
        Row[] rows = (Row[]) Dataset.ofRows(session, plan).collect();
        return Literal$.MODULE$.create(rows[0].get(0), expression.dataType());
    }
}
