package adelta.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedPartitionSpec;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ShowPartitions;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What plans say of named tables, in terms of what can be carried out.
 *
 * A table that is read becomes the scan that Python plans. A write is given the columns that Spark
 * is to fit its rows to. DELETE, UPDATE and MERGE become commands.
 */
public final class NamedTables extends Rule {
    private static final String MERGES = "mergeschema";
    private static final String MERGES_ALL = "spark.databricks.delta.schema.autoMerge.enabled";
    private static final String OVERWRITES = "overwriteschema";

    public TreeNode apply(TreeNode plan) {
        return resolved((LogicalPlan) plan);
    }

    private LogicalPlan resolved(LogicalPlan plan) {
        if (plan.analyzed()) {
            return plan;
        }
        if (plan instanceof DataSourceV2Relation) {
            NamedTable table = named(plan);
            return table == null ? plan : scan((DataSourceV2Relation) plan, table);
        }
        if (plan instanceof DeleteFromTable) {
            NamedTable table = named(((DeleteFromTable) plan).table());
            return table == null
                ? deletionOfView((DeleteFromTable) below(plan))
                : deletion((DeleteFromTable) plan, table);
        }
        if (plan instanceof UpdateTable) {
            NamedTable table = named(((UpdateTable) plan).table());
            return table == null
                ? updateOfView((UpdateTable) below(plan)) : update((UpdateTable) plan, table);
        }
        LogicalPlan checked = Constraints.checkedTable(plan);
        if (checked != null) {
            NamedTable table = within(checked);
            return table == null ? plan : NamedChange.silent(
                table, "constrain", InPython.write(Constraints.addedCheck(plan)));
        }
        if (plan instanceof ShowPartitions) {
            NamedTable table = resolvedTable(((ShowPartitions) plan).table());
            return table == null ? plan : partitions((ShowPartitions) plan, table);
        }
        if (plan instanceof AnalyzeTable || plan instanceof AnalyzeColumn) {
            NamedTable table = resolvedTable((LogicalPlan) plan.children().apply(0));
            return table == null ? plan : analysis(plan, table);
        }
        if (plan instanceof MergeIntoTable) {
            NamedTable table = named(((MergeIntoTable) plan).targetTable());
            return table == null
                ? mergeIntoView((MergeIntoTable) below(plan))
                : merge((MergeIntoTable) plan, table);
        }
        if (plan instanceof InsertIntoStatement) {
            return insertIntoView((InsertIntoStatement) below(plan));
        }
        if (plan instanceof V2WriteCommand) {
            V2WriteCommand write = (V2WriteCommand) below(plan);
            NamedTable table = named((LogicalPlan) write.table());
            return table == null || !write.query().resolved() || !((LogicalPlan) write.table()).resolved()
                ? (LogicalPlan) write : write(write, table);
        }
        return below(plan);
    }

    private static NamedTable resolvedTable(LogicalPlan plan) {
        Object table = plan instanceof ResolvedTable ? ((ResolvedTable) plan).table() : null;
        return table instanceof NamedTable ? (NamedTable) table : null;
    }

    private static LogicalPlan partitions(ShowPartitions shown, NamedTable table) {
        Map values = new HashMap();
        if (shown.pattern().isDefined()) {
            UnresolvedPartitionSpec spec = (UnresolvedPartitionSpec) shown.pattern().get();
            values.putAll(CollectionConverters.asJava(spec.spec()));
        }
        return NamedChange.partitions(table, InPython.write(values), shown.output());
    }

    private static LogicalPlan analysis(LogicalPlan plan, NamedTable table) {
        Object columns = null;
        if (plan instanceof AnalyzeTable) {
            if (!((AnalyzeTable) plan).partitionSpec().isEmpty()) {
                Platform.throwException(
                    new InPython.Refused(
                        "ANALYZE TABLE of a Delta table takes no partitions: leave PARTITION out,"
                            + " files that have their statistics are passed over"));
            }
        } else if (((AnalyzeColumn) plan).columnNames().isDefined()) {
            columns = new ArrayList(
                CollectionConverters.asJava(
                    (scala.collection.immutable.Seq) ((AnalyzeColumn) plan).columnNames().get()));
        }
        return NamedChange.silent(table, "analyze", InPython.write(columns));
    }

    private LogicalPlan below(LogicalPlan plan) {
        return (LogicalPlan) plan.mapChildren(
            new scala.runtime.AbstractFunction1() {
                public Object apply(Object child) {
                    return resolved((LogicalPlan) child);
                }
            });
    }

    private static NamedTable named(LogicalPlan plan) {
        LogicalPlan bare = EliminateSubqueryAliases$.MODULE$.apply(plan);
        if (!(bare instanceof DataSourceV2Relation)) {
            return null;
        }
        Object table = ((DataSourceV2Relation) bare).table();
        return table instanceof NamedTable ? (NamedTable) table : null;
    }

    /** The first named table in a plan. */
    private static NamedTable within(LogicalPlan plan) {
        NamedTable found = named(plan);
        for (int index = 0; found == null && index < plan.children().size(); index++) {
            found = within((LogicalPlan) plan.children().apply(index));
        }
        return found;
    }

    // --------------------------------------------------------------------------------- reads

    /** What reads a table, under the ids of a relation's columns. */
    static LogicalPlan scan(DataSourceV2Relation relation, NamedTable table) {
        String options = InPython.write(new HashMap(relation.options().asCaseSensitiveMap()));
        LogicalPlan plan =
            (LogicalPlan) table.ask(new Object[] {"plan", table.session(), options});
        List columns = new ArrayList();
        for (int index = 0; index < relation.output().size(); index++) {
            Attribute wanted = (Attribute) relation.output().apply(index);
            columns.add(
                new Alias(
                    (Expression) column(plan, wanted.name(), index), wanted.name(),
                    wanted.exprId(), wanted.qualifier(), Option.empty(), none()));
        }
        return ViewedTable.marked(
            new Project(CollectionConverters.asScala(columns).toSeq(), plan), relation);
    }

    private static Attribute column(LogicalPlan plan, String name, int index) {
        if (index < plan.output().size()) {
            Attribute found = (Attribute) plan.output().apply(index);
            if (found.name().equals(name)) {
                return found;
            }
        }
        for (int at = 0; at < plan.output().size(); at++) {
            Attribute found = (Attribute) plan.output().apply(at);
            if (found.name().equals(name)) {
                return found;
            }
        }
        throw new IllegalStateException("the scan of a table lacks its column " + name);
    }

    private static scala.collection.immutable.Seq none() {
        return (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$;
    }

    // -------------------------------------------------------------------------------- writes

    private static LogicalPlan write(V2WriteCommand write, NamedTable table) {
        if (write instanceof AppendData) {
            AppendData append = (AppendData) write;
            if (!table.takesAll()) {
                return append;
            }
            Map options = options(append, table, append.writeOptions());
            return Writes.append(
                append, fitted(append, table, options, append.isByName()), scalaMap(options));
        }
        if (write instanceof OverwriteByExpression) {
            OverwriteByExpression over = (OverwriteByExpression) write;
            if (!table.takesAll() || !over.deleteExpr().resolved()) {
                return over;
            }
            Map options = options(over, table, over.writeOptions());
            if (!over.deleteExpr().equals(Literal$.MODULE$.TrueLiteral())) {
                options.put("replaceWhere", overwritten(over.deleteExpr()));
            } else if (!options.containsKey("partitionOverwriteMode")) {
                options.put("partitionOverwriteMode", "static");
            }
            return overwrite(over, table, options, over.isByName());
        }
        if (write instanceof OverwritePartitionsDynamic) {
            OverwritePartitionsDynamic dynamic = (OverwritePartitionsDynamic) write;
            Map options = options(dynamic, table, dynamic.writeOptions());
            options.put("partitionOverwriteMode", "dynamic");
            return overwrite(dynamic, table, options, dynamic.isByName());
        }
        return (LogicalPlan) write;
    }

    private static String overwritten(Expression condition) {
        if (NamedRows.asks(condition)) {
            Platform.throwException(
                new InPython.Refused(
                    "OVERWRITE of a part of a Delta table cannot ask subqueries: collect what the"
                        + " subquery finds first, and write it into the condition"));
        }
        return NamedRows.text(condition, null);
    }

    private static LogicalPlan overwrite(
            V2WriteCommand write, NamedTable table, Map options, boolean byName) {
        return Writes.overwrite(
            write, fitted(write, table, options, byName), scalaMap(options), byName);
    }

    /** What a command says itself, and by its table: it may be either, and is the command's here. */
    private static Map options(
            V2WriteCommand write, NamedTable table, scala.collection.immutable.Map given) {
        Map options = new HashMap(relation(write).options().asCaseSensitiveMap());
        options.putAll(CollectionConverters.asJava(given));
        // Before the optimizer answers parts of the query by what the log says.
        Object version = table.ask(new Object[] {"made_of", table.session(), write.query()});
        if (version != null) {
            options.put("madeOf", version);
        }
        if (Writes.evolvesSchema(write) || (!says(options, MERGES) && merges(table.session()))) {
            options.put("mergeSchema", "true");
        }
        return options;
    }

    private static scala.collection.immutable.Map scalaMap(Map options) {
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
    }

    private static boolean asked(Map options, String name) {
        return "true".equalsIgnoreCase(option(options, name));
    }

    private static boolean says(Map options, String name) {
        return option(options, name) != null;
    }

    private static String option(Map options, String name) {
        java.util.Iterator keys = options.keySet().iterator();
        while (keys.hasNext()) {
            String key = (String) keys.next();
            if (key.equalsIgnoreCase(name)) {
                return (String) options.get(key);
            }
        }
        return null;
    }

    /** Whether a session has all writes take in new columns and wider types. */
    private static boolean merges(SparkSession session) {
        return "true".equalsIgnoreCase(session.conf().get(MERGES_ALL, "false"));
    }

    /** The table with the columns that the rows are to have: Spark casts them, or refuses. */
    private static DataSourceV2Relation fitted(
            V2WriteCommand write, NamedTable table, Map options, boolean byName) {
        DataSourceV2Relation relation = relation(write);
        scala.collection.immutable.Seq rows = write.query().output();
        List wanted = new ArrayList();
        if (asked(options, OVERWRITES)) {
            for (int index = 0; index < rows.size(); index++) {
                wanted.add(like((Attribute) rows.apply(index)));
            }
        } else {
            boolean merges = asked(options, MERGES);
            for (int index = 0; index < relation.output().size(); index++) {
                AttributeReference column = (AttributeReference) relation.output().apply(index);
                Attribute given = byName ? byName(rows, column.name())
                    : index < rows.size() ? (Attribute) rows.apply(index) : null;
                if (given == null && column.metadata().contains("adelta.computed")) {
                    continue;
                }
                wanted.add(merges && given != null && table.evolves(column, given)
                    ? like(column.name(), given) : column);
            }
            for (int index = 0; merges && index < rows.size(); index++) {
                Attribute given = (Attribute) rows.apply(index);
                boolean known = byName ? byName(relation.output(), given.name()) != null
                    : index < relation.output().size();
                if (!known) {
                    wanted.add(like(given));
                }
            }
        }
        return Relations.like(
            relation, table.strict(), CollectionConverters.asScala(wanted).toSeq(),
            CaseInsensitiveStringMap.empty());
    }

    private static DataSourceV2Relation relation(V2WriteCommand write) {
        return (DataSourceV2Relation)
            EliminateSubqueryAliases$.MODULE$.apply((LogicalPlan) write.table());
    }

    private static Attribute byName(scala.collection.immutable.Seq columns, String name) {
        for (int index = 0; index < columns.size(); index++) {
            Attribute found = (Attribute) columns.apply(index);
            if (found.name().equalsIgnoreCase(name)) {
                return found;
            }
        }
        return null;
    }

    private static AttributeReference like(Attribute given) {
        return like(given.name(), given);
    }

    private static AttributeReference like(String name, Attribute given) {
        return new AttributeReference(
            name, given.dataType(), true, given.metadata(),
            org.apache.spark.sql.catalyst.expressions.NamedExpression$.MODULE$.newExprId(), none());
    }

    // ------------------------------------------------------------------------------- changes

    private static LogicalPlan deletion(DeleteFromTable delete, NamedTable table) {
        Expression condition = delete.condition();
        return !condition.resolved() ? (LogicalPlan) delete : NamedChange.rows(
            table,
            new NamedRows(
                "delete", table, relation(delete.table()), condition, new ArrayList(),
                new ArrayList()));
    }

    private static LogicalPlan update(UpdateTable update, NamedTable table) {
        List columns = new ArrayList();
        List values = new ArrayList();
        for (int index = 0; index < update.assignments().size(); index++) {
            Assignment one = (Assignment) update.assignments().apply(index);
            if (!one.key().resolved() || !one.value().resolved()) {
                return update;
            }
            columns.add(NamedRows.text(one.key(), null));
            values.add(one.value());
        }
        Expression condition =
            update.condition().isDefined() ? (Expression) update.condition().get() : null;
        return condition != null && !condition.resolved() ? (LogicalPlan) update : NamedChange.rows(
            table,
            new NamedRows(
                "update", table, relation(update.table()), condition, columns, values));
    }

    // ------------------------------------------------------------------------ through views

    private static LogicalPlan deletionOfView(DeleteFromTable delete) {
        ViewedTable viewed = delete.condition().resolved()
            ? ViewedTable.of(delete.table(), "DELETE") : null;
        return viewed == null ? (LogicalPlan) delete : deletion(
            new DeleteFromTable(viewed.relation(), viewed.below(delete.condition())),
            viewed.table());
    }

    private static LogicalPlan updateOfView(UpdateTable update) {
        ViewedTable viewed = update.resolved() ? ViewedTable.of(update.table(), "UPDATE") : null;
        if (viewed == null) {
            return update;
        }
        List assignments = new ArrayList();
        for (int index = 0; index < update.assignments().size(); index++) {
            assignments.add(viewed.below((Assignment) update.assignments().apply(index)));
        }
        Option condition = update.condition().isDefined()
            ? Option.apply(viewed.below((Expression) update.condition().get()))
            : update.condition();
        return update(
            update.copy(
                viewed.relation(), CollectionConverters.asScala(assignments).toSeq(), condition),
            viewed.table());
    }

    private LogicalPlan mergeIntoView(MergeIntoTable merge) {
        ViewedTable viewed =
            merge.resolved() ? ViewedTable.of(merge.targetTable(), "MERGE") : null;
        if (viewed == null) {
            return merge;
        }
        if (!viewed.isWhole(merge.targetTable())) {
            Platform.throwException(
                new InPython.Refused(
                    "DELTA_UNSUPPORTED_SOURCE",
                    "MERGE changes a table through a view of all its columns under their own"
                        + " names: name the table",
                    null));
        }
        MergeIntoTable below = (MergeIntoTable) merge.transformExpressions(viewed.substitution());
        MergeIntoTable found = below.copy(
            viewed.relation(), below.sourceTable(), below.mergeCondition(),
            below.matchedActions(), below.notMatchedActions(),
            below.notMatchedBySourceActions(), below.withSchemaEvolution());
        return NamedChange.merge(viewed.table(), NamedMerge.of(found, viewed.table(), false));
    }

    /** Spark takes rows for views of what a reader has loaded, and only what they are of is left. */
    private static LogicalPlan insertIntoView(InsertIntoStatement insert) {
        ViewedTable viewed = ViewedTable.loaded(insert.table(), "INSERT");
        return viewed == null || !viewed.isWhole(insert.table()) ? insert
            : Writes.insertInto(viewed.relation(), insert);
    }

    private static DataSourceV2Relation relation(LogicalPlan target) {
        return (DataSourceV2Relation) EliminateSubqueryAliases$.MODULE$.apply(target);
    }

    private LogicalPlan merge(MergeIntoTable merge, NamedTable table) {
        LogicalPlan source = resolved(merge.sourceTable());
        MergeIntoTable found = merge.copy(
            merge.targetTable(), source, merge.mergeCondition(), merge.matchedActions(),
            merge.notMatchedActions(), merge.notMatchedBySourceActions(),
            merge.withSchemaEvolution());
        boolean ready = source.resolved() && merge.targetTable().resolved();
        return ready ? NamedChange.merge(table, NamedMerge.of(found, table)) : found;
    }
}
