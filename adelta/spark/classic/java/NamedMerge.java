package adelta.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * MERGE INTO a named table, in words for Python: SQL text over the columns of both sides.
 *
 * Spark gives what is named its meaning: the target takes rows of any columns, so that Spark leaves
 * the statement as it was written, `*` and new columns included.
 */
public final class NamedMerge implements NamedChange.Question {
    private final MergeIntoTable merge;
    private final NamedTable table;
    private final SparkSession session;
    private final LogicalPlan target;
    private final LogicalPlan source;
    private final String targetName;
    private final String sourceName;
    private final Map named = new HashMap();
    private final Set used = new HashSet();
    private final List computed = new ArrayList();
    private final Set taken = new HashSet();
    private final Map ofPairs = new LinkedHashMap(); // what Spark computes, by its names
    private final Map ofOthers = new LinkedHashMap();
    private final Map texts = new HashMap(); // of it, and of what is computed of the source
    private Expression condition;
    private String said;

    private NamedMerge(MergeIntoTable merge, NamedTable table, boolean anew) {
        this.merge = merge;
        this.table = table;
        this.session = table.session();
        this.target = columnsOf(merge.targetTable(), anew);
        this.source = columnsOf(merge.sourceTable(), false);
        note(target.output(), taken);
        note(source.output(), taken);
        this.targetName = free("target", taken);
        this.sourceName = free("source", taken);
        for (int index = 0; index < target.output().size(); index++) {
            Attribute column = (Attribute) target.output().apply(index);
            named.put(column.exprId(), like(column, column.name(), targetName));
        }
        Set known = new HashSet();
        for (int index = 0; index < source.output().size(); index++) {
            Attribute column = (Attribute) source.output().apply(index);
            String name = column.name();
            for (int at = 2; !known.add(name.toLowerCase(Locale.ROOT)); at++) {
                if (stars()) {
                    throw refused("the source of a MERGE with * has two columns " + name
                        + ": give one of them another name");
                }
                name = column.name() + " " + at;
            }
            named.put(column.exprId(), like(column, name, sourceName));
        }
    }

    /** The merge, once what its tables are is known. */
    public static NamedMerge of(MergeIntoTable merge, NamedTable table) {
        return of(merge, table, true);
    }

    /** The same; unless `anew`, Spark has resolved its expressions to the table's columns before. */
    static NamedMerge of(MergeIntoTable merge, NamedTable table, boolean anew) {
        NamedMerge found = new NamedMerge(merge, table, anew);
        found.said = InPython.write(found.described());
        return found;
    }

    public Object[] asked(SparkSession given) {
        Map renamed = new HashMap();
        Object rows = Dataset.ofRows(session(), rows(renamed));
        return new Object[] {
            "merge", given, said, rows, joins() ? joined(renamed) : null};
    }

    private boolean joins() {
        return !ofPairs.isEmpty() || !ofOthers.isEmpty();
    }

    /** The rows of the table, the condition over these and the source, and what else is computed. */
    private Object[] joined(Map renamed) {
        DataSourceV2Relation relation =
            (DataSourceV2Relation) EliminateSubqueryAliases$.MODULE$.apply(merge.targetTable());
        DataSourceV2Relation known = Relations.like(
            relation, relation.table(), target.output(), relation.options());
        return new Object[] {
            Dataset.ofRows(session(), NamedTables.scan(known, table)),
            column(condition, renamed), columns(ofPairs, renamed), columns(ofOthers, renamed)};
    }

    private static Map columns(Map expressions, Map renamed) {
        Map columns = new LinkedHashMap();
        java.util.Iterator names = expressions.keySet().iterator();
        while (names.hasNext()) {
            Object name = names.next();
            columns.put(name, column((Expression) expressions.get(name), renamed));
        }
        return columns;
    }

    /** A column of Spark's, over the source's columns under the ids that they are given. */
    private static Object column(Expression expression, final Map renamed) {
        return ExpressionUtils.column(
            (Expression) expression.transform(
                new scala.runtime.AbstractPartialFunction() {
                    public boolean isDefinedAt(Object node) {
                        return node instanceof AttributeReference
                            && renamed.containsKey(((AttributeReference) node).exprId());
                    }

                    public Object applyOrElse(Object node, scala.Function1 otherwise) {
                        return isDefinedAt(node)
                            ? renamed.get(((AttributeReference) node).exprId())
                            : otherwise.apply(node);
                    }
                }));
    }

    private static RuntimeException refused(String message) {
        Platform.throwException(new InPython.Refused(message));
        return null;
    }

    private static void note(Seq columns, Set names) {
        for (int index = 0; index < columns.size(); index++) {
            names.add(((Attribute) columns.apply(index)).name().toLowerCase(Locale.ROOT));
        }
    }

    private static String free(String name, Set taken) {
        String found = name;
        while (taken.contains(found)) {
            found = found + "_";
        }
        return found;
    }

    private static AttributeReference like(Attribute column, String name, String table) {
        List qualifier = new ArrayList();
        if (table != null) {
            qualifier.add(table);
        }
        return new AttributeReference(
            name, column.dataType(), column.nullable(), column.metadata(), column.exprId(),
            CollectionConverters.asScala(qualifier).toSeq());
    }

    /** The columns of a plan under its names; `anew` they are no other relation's. */
    private static LogicalPlan columnsOf(LogicalPlan plan, boolean anew) {
        List columns = new ArrayList();
        for (int index = 0; index < plan.output().size(); index++) {
            Attribute column = (Attribute) plan.output().apply(index);
            columns.add(anew ? column.newInstance() : column);
        }
        return new LocalRelation(
            CollectionConverters.asScala(columns).toSeq(), (Seq) Nil$.MODULE$, false,
            Option.empty());
    }

    // ---------------------------------------------------------------------------------- source

    /** The source with the columns that are asked for, each of which has a name of its own. */
    private LogicalPlan rows(Map renamed) {
        List columns = new ArrayList();
        for (int index = 0; index < source.output().size(); index++) {
            Attribute column = (Attribute) source.output().apply(index);
            AttributeReference known = (AttributeReference) named.get(column.exprId());
            if (stars() || used.contains(column.exprId())) {
                Alias alias = new Alias(
                    (Expression) column, known.name(), NamedExpression$.MODULE$.newExprId(),
                    (Seq) Nil$.MODULE$, Option.empty(), (Seq) Nil$.MODULE$);
                columns.add(alias);
                renamed.put(column.exprId(), alias.toAttribute());
            }
        }
        columns.addAll(computed);
        if (columns.isEmpty()) { // the rows count
            columns.add(
                new Alias(
                    Literal$.MODULE$.TrueLiteral(), "row", NamedExpression$.MODULE$.newExprId(),
                    (Seq) Nil$.MODULE$, Option.empty(), (Seq) Nil$.MODULE$));
        }
        return new Project(CollectionConverters.asScala(columns).toSeq(), merge.sourceTable());
    }

    // --------------------------------------------------------------------------------- clauses

    private Map described() {
        Map said = new HashMap();
        said.put("target", targetName);
        said.put("source", sourceName);
        said.put("evolves", Boolean.valueOf(merge.withSchemaEvolution()));
        said.put("on", text(merge.mergeCondition(), both()));
        List clauses = new ArrayList();
        add(clauses, "matched", merge.matchedActions(), both());
        add(clauses, "not matched", merge.notMatchedActions(), source);
        add(clauses, "not matched by source", merge.notMatchedBySourceActions(), target);
        said.put("clauses", clauses);
        said.put("texts", texts);
        return said;
    }

    private LogicalPlan both() {
        return new Join(target, source, Inner$.MODULE$, Option.empty(), JoinHint.NONE());
    }

    private void add(List clauses, String when, Seq actions, LogicalPlan over) {
        for (int index = 0; index < actions.size(); index++) {
            MergeAction action = (MergeAction) actions.apply(index);
            Map said = new HashMap();
            said.put("when", when);
            if (action.condition().isDefined()) {
                said.put("condition", text((Expression) action.condition().get(), over));
            }
            if (action instanceof DeleteAction) {
                said.put("action", "delete");
            } else if (action instanceof UpdateStarAction) {
                said.put("action", "update all");
            } else if (action instanceof InsertStarAction) {
                said.put("action", "insert all");
            } else if (action instanceof UpdateAction) {
                said.put("action", "update");
                said.put("values", values(((UpdateAction) action).assignments(), over));
            } else {
                said.put("action", "insert");
                said.put("values", values(((InsertAction) action).assignments(), over));
            }
            clauses.add(said);
        }
    }

    private boolean stars() {
        return stars(merge.matchedActions()) || stars(merge.notMatchedActions());
    }

    private static boolean stars(Seq actions) {
        boolean found = false;
        for (int index = 0; index < actions.size(); index++) {
            Object action = actions.apply(index);
            found = found || action instanceof UpdateStarAction || action instanceof InsertStarAction;
        }
        return found;
    }

    private List values(Seq assignments, LogicalPlan over) {
        List values = new ArrayList();
        for (int index = 0; index < assignments.size(); index++) {
            Assignment one = (Assignment) assignments.apply(index);
            List pair = new ArrayList();
            pair.add(column(one.key()));
            pair.add(isDefault(one.value()) ? null : text(one.value(), over));
            values.add(pair);
        }
        return values;
    }

    private static boolean isDefault(Expression value) {
        return value instanceof UnresolvedAttribute
            && ((UnresolvedAttribute) value).nameParts().size() == 1
            && "DEFAULT".equalsIgnoreCase((String) ((UnresolvedAttribute) value).nameParts().head());
    }

    /** The name of a column that is set, which may be one that the target is to take in. */
    private Object column(Expression key) {
        List names = new ArrayList();
        if (!(key instanceof UnresolvedAttribute)) {
            return SqlText.of((Expression) key.transform(new Named(new HashMap(), new HashSet())));
        }
        Seq parts = ((UnresolvedAttribute) key).nameParts();
        for (int index = 0; index < parts.size(); index++) {
            names.add(parts.apply(index));
        }
        Option found = target.resolve(parts, session().sessionState().conf().resolver());
        if (found.isDefined()) {
            Expression plain = ((Expression) found.get());
            plain = plain instanceof Alias ? ((Alias) plain).child() : plain;
            return SqlText.of((Expression) plain.transform(new Named(new HashMap(), new HashSet())));
        }
        for (int index = 0; index < source.output().size(); index++) { // whose type it is to have
            Attribute column = (Attribute) source.output().apply(index);
            if (column.name().equalsIgnoreCase((String) parts.head())) {
                used.add(column.exprId());
            }
        }
        return names;
    }

    private org.apache.spark.sql.classic.SparkSession session() {
        return (org.apache.spark.sql.classic.SparkSession) session;
    }

    /** The text of an expression over rows of a plan. */
    private String text(Expression expression, LogicalPlan over) {
        List one = new ArrayList();
        one.add(
            new Alias(
                expression, "value", NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$,
                Option.empty(), (Seq) Nil$.MODULE$));
        LogicalPlan asked = new Project(CollectionConverters.asScala(one).toSeq(), over);
        LogicalPlan plan = Dataset.ofRows(session(), asked).queryExecution().analyzed();
        Object found = plan instanceof Project ? ((Project) plan).projectList().head() : null;
        if (!(found instanceof Alias) || !((Project) plan).child().equals(over)
                || SubqueryExpression$.MODULE$.hasSubquery(((Alias) found).child())) {
            throw refused(
                "MERGE INTO a Delta table takes conditions and values that are about one row of each"
                    + " side: let the source be a query, and make what " + expression.sql()
                    + " finds a column of it");
        }
        Expression meant = ((Alias) found).child();
        boolean isCondition = condition == null;
        if (isCondition) { // which comes first
            condition = meant;
            meant.transform(new Named(named, used));
        }
        if (!table.evaluates(meant)) {
            Expression whole = meant;
            meant = withComputed(whole);
            if (over != source && !table.evaluates(meant)) {
                return leftToSpark(whole, over == target ? ofOthers : ofPairs);
            }
        }
        return SqlText.of((Expression) meant.transform(new Named(named, used)));
    }

    /** The text of the column that Spark computes of rows of the table, or of pairs of rows. */
    private String leftToSpark(Expression expression, Map into) {
        expression.transform(new Named(named, used));
        String name = free("computed " + texts.size(), taken);
        texts.put(name, expression.sql());
        into.put(name, expression);
        return SqlText.of(like((Attribute) target.output().head(), name, sourceName));
    }

    /** The expression, in which columns of the source's stand for what is about it alone. */
    private Expression withComputed(Expression expression) {
        return (Expression) expression.transformDown(
            new scala.runtime.AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return isOfSource((Expression) node);
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    return isDefinedAt(node) ? computed((Expression) node) : otherwise.apply(node);
                }
            });
    }

    private boolean isOfSource(Expression expression) {
        boolean whole = !(expression instanceof Attribute) && !expression.foldable();
        return whole && expression.references().subsetOf(source.outputSet())
            && (!expression.references().isEmpty() || !expression.deterministic());
    }

    private Attribute computed(Expression expression) {
        String name = free("computed " + texts.size(), taken);
        texts.put(name, expression.sql());
        Alias alias = new Alias(
            expression, name, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$,
            Option.empty(), (Seq) Nil$.MODULE$);
        computed.add(alias);
        named.put(alias.exprId(), like(alias.toAttribute(), name, sourceName));
        return alias.toAttribute();
    }

    /** Columns under the names of their sides; those that have none, by their bare names. */
    private static final class Named extends scala.runtime.AbstractPartialFunction {
        private final Map known;
        private final Set used;

        Named(Map known, Set used) {
            this.known = known;
            this.used = used;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            AttributeReference column = (AttributeReference) node;
            Object found = known.get(column.exprId());
            used.add(column.exprId());
            return found == null ? like(column, column.name(), null) : found;
        }
    }
}
