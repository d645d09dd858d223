package adelta.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table behind a temporary view, and what the view's columns are of the table's.
 *
 * Such a view chooses, renames and computes columns of all rows of the latest version of a table;
 * rows that are changed through it are the table's. Scans bear marks by which they are known here:
 * of a named table, or the path and version of one that a reader has loaded.
 */
public final class ViewedTable {
    /** What is read by a name: the relation. */
    private static final TreeNodeTag NAMED = new TreeNodeTag("adelta.named");
    /** What a reader has loaded: JSON of its path, and of its version where it asked for one. */
    private static final TreeNodeTag LOADED = new TreeNodeTag("adelta.loaded");

    private final String verb;
    private final Map columns = new HashMap();
    private DataSourceV2Relation relation = null;

    private ViewedTable(String verb) {
        this.verb = verb;
    }

    /** Mark a scan of a table that is read by its name. */
    static LogicalPlan marked(LogicalPlan scan, DataSourceV2Relation relation) {
        scan.setTagValue(NAMED, relation);
        return scan;
    }

    /** What a statement would change; null where that is no view with a Delta table in it. */
    static ViewedTable of(LogicalPlan target, String verb) {
        return isView(target) ? loaded(target, verb) : null;
    }

    /** The same, of a view whose plan is there in its place. */
    static ViewedTable loaded(LogicalPlan target, String verb) {
        if (!target.resolved() || !holds(target)) {
            return null;
        }
        ViewedTable found = new ViewedTable(verb);
        found.enter(target);
        return found;
    }

    private static boolean isView(LogicalPlan plan) {
        return plan instanceof View
            || plan instanceof SubqueryAlias && isView(((SubqueryAlias) plan).child());
    }

    private static boolean holds(LogicalPlan plan) {
        boolean found = plan.getTagValue(NAMED).isDefined() || plan.getTagValue(LOADED).isDefined();
        for (int index = 0; !found && index < plan.children().size(); index++) {
            found = holds((LogicalPlan) plan.children().apply(index));
        }
        return found;
    }

    /** The table, under ids of columns of its own. */
    DataSourceV2Relation relation() {
        return relation;
    }

    NamedTable table() {
        return (NamedTable) relation.table();
    }

    /** An expression over the view's columns as one over the table's; null remains. */
    Expression below(Expression expression) {
        return expression == null ? null : (Expression) expression.transform(substitution());
    }

    /** By what columns of the view become what they are of the table's. */
    scala.PartialFunction substitution() {
        return new scala.runtime.AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof AttributeReference
                    && columns.containsKey(((AttributeReference) node).exprId());
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                return isDefinedAt(node)
                    ? columns.get(((AttributeReference) node).exprId()) : otherwise.apply(node);
            }
        };
    }

    /** The assignment to what the view's column is in the table. */
    Assignment below(Assignment assignment) {
        Expression key = below(assignment.key());
        if (!isColumn(key)) {
            throw refused("DELTA_UNSUPPORTED_SOURCE",
                verb + " sets " + assignment.key().sql() + ", which the view computes: set columns"
                    + " of the table itself");
        }
        return new Assignment(key, below(assignment.value()));
    }

    private static boolean isColumn(Expression key) {
        return key instanceof AttributeReference
            || key instanceof GetStructField && isColumn(((GetStructField) key).child());
    }

    private void enter(LogicalPlan plan) {
        Option named = plan.getTagValue(NAMED);
        Option loaded = plan.getTagValue(LOADED);
        if (named.isDefined()) {
            DataSourceV2Relation known = (DataSourceV2Relation) named.get();
            if (((NamedTable) known.table()).isTimeTravel()) {
                throw travelled(((NamedTable) known.table()).version());
            }
            reach(plan, known.table(), known.catalog(), known.identifier(), known.options());
        } else if (loaded.isDefined()) {
            Map said = InPython.read((String) loaded.get());
            if (said.get("version") != null) {
                throw travelled((String) said.get("version"));
            }
            SparkSession session = SparkSession.active();
            SessionTables tables = (SessionTables)
                session.sessionState().analyzer().catalogManager().v2SessionCatalog();
            Identifier path = tables.pathOf((String) said.get("path"));
            reach(
                plan, tables.loadTable(path), Option.apply(tables), Option.apply(path),
                CaseInsensitiveStringMap.empty());
        } else if (plan instanceof View && ((View) plan).isTempView()) {
            enter(((View) plan).child());
        } else if (plan instanceof SubqueryAlias) {
            enter(((SubqueryAlias) plan).child());
        } else if (plan instanceof Project) {
            enter(((Project) plan).child());
            project((Project) plan);
        } else if (plan instanceof Filter) {
            throw refused("DELTA_UNEXPECTED_PARTIAL_SCAN",
                verb + " changes a table through a view of all its rows, and this view has a"
                    + " condition: name the table, and write the condition into the statement");
        } else {
            throw refused("DELTA_UNSUPPORTED_SOURCE",
                verb + " changes a table through a temporary view that chooses and renames its"
                    + " columns, which this view is not: name the table");
        }
    }

    private void project(Project plan) {
        Map found = new HashMap();
        for (int index = 0; index < plan.projectList().size(); index++) {
            Expression one = (Expression) plan.projectList().apply(index);
            Expression value = below(one instanceof Alias ? ((Alias) one).child() : one);
            if (!value.deterministic()) {
                throw refused("DELTA_UNSUPPORTED_SOURCE",
                    verb + " cannot go through a view that computes " + value.sql()
                        + ", which is another value each time: name the table");
            }
            while (value instanceof Cast
                && ((Cast) value).child().dataType().equals(value.dataType())) {
                value = ((Cast) value).child();
            }
            found.put(((Attribute) plan.output().apply(index)).exprId(), value);
        }
        columns.putAll(found);
    }

    private void reach(
            LogicalPlan scan, Table table, Option catalog, Option identifier,
            CaseInsensitiveStringMap options) {
        relation = Relations.of(table, catalog, identifier, options);
        for (int index = 0; index < scan.output().size(); index++) {
            Attribute column = (Attribute) scan.output().apply(index);
            for (int at = 0; at < relation.output().size(); at++) {
                Attribute its = (Attribute) relation.output().apply(at);
                if (its.name().equalsIgnoreCase(column.name())) {
                    columns.put(column.exprId(), its);
                }
            }
            if (!columns.containsKey(column.exprId())) {
                throw refused("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
                    "the table has no column " + column.name() + " any longer: make the view"
                        + " anew");
            }
        }
    }

    /** Whether the view has the table's columns, as they are and where they are. */
    boolean isWhole(LogicalPlan view) {
        boolean whole = view.output().size() == relation.output().size();
        for (int index = 0; whole && index < view.output().size(); index++) {
            Attribute its = (Attribute) relation.output().apply(index);
            Attribute column = (Attribute) view.output().apply(index);
            Object value = columns.get(column.exprId());
            whole = its.name().equalsIgnoreCase(column.name())
                && value instanceof Attribute && ((Attribute) value).exprId().equals(its.exprId());
        }
        return whole;
    }

    private RuntimeException travelled(String version) {
        return refused("DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
            verb + " changes the latest version of a table, and this view is of version " + version
                + ": name the table");
    }

    private static RuntimeException refused(String condition, String message) {
        Platform.throwException(new InPython.Refused(condition, message, null));
        return null;
    }
}
