package adelta.spark;

import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** CREATE TABLE adelta.`/path` without USING: the name says which format the table is of. */
public final class NamedPaths extends Rule {
    public TreeNode apply(TreeNode plan) {
        if (!(plan instanceof V2CreateTablePlan)) {
            return plan;
        }
        Object name = ((LogicalPlan) plan).children().apply(0);
        if (!(name instanceof ResolvedIdentifier)
                || !(((ResolvedIdentifier) name).catalog() instanceof SessionTables)) {
            return plan;
        }
        ResolvedIdentifier table = (ResolvedIdentifier) name;
        String format = ((SessionTables) table.catalog()).formatOfPath(table.identifier());
        if (format == null) {
            return plan;
        }
        Object[] parts = new Object[plan.productArity()];
        boolean changed = false;
        for (int index = 0; index < parts.length; index++) {
            Object part = plan.productElement(index);
            parts[index] = named(part, format);
            changed = changed || parts[index] != part;
        }
        return changed ? (TreeNode) plan.makeCopy(parts) : plan;
    }

    /** What is told of a table, which Spark has resolved by now or has not. */
    private static Object named(Object part, String format) {
        if (part instanceof UnresolvedTableSpec) {
            UnresolvedTableSpec told = (UnresolvedTableSpec) part;
            return told.provider().isDefined() || told.serde().isDefined() ? told
                : Relations.withProvider(told, format);
        }
        if (part instanceof TableSpec) {
            TableSpec told = (TableSpec) part;
            return told.provider().isDefined() || told.serde().isDefined() ? told
                : Relations.withProvider(told, format);
        }
        return part;
    }
}
