package adelta.spark;

import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.immutable.Map;

/** Writes in plans, whose classes have other parameters by version of Spark. */
final class Writes {
    private Writes() {}

    /** Whether the statement itself says WITH SCHEMA EVOLUTION. */
    static boolean evolvesSchema(V2WriteCommand write) {
        return write.withSchemaEvolution();
    }

    static LogicalPlan append(AppendData append, DataSourceV2Relation table, Map options) {
        return new AppendData(
            table, Defaults.filled(append, table, append.isByName()), options,
            append.isByName(), false, append.write(), append.analyzedQuery());
    }

    /** A write that replaces all rows by those of another write. */
    static LogicalPlan overwrite(
            V2WriteCommand write, DataSourceV2Relation table, Map options, boolean byName) {
        return new OverwriteByExpression(
            table, Literal$.MODULE$.TrueLiteral(), Defaults.filled(write, table, byName),
            options, byName, false, Option.empty(), Option.empty());
    }

    static LogicalPlan insertInto(DataSourceV2Relation table, InsertIntoStatement insert) {
        return insert.copy(
            table, insert.partitionSpec(), insert.userSpecifiedCols(), insert.query(),
            insert.overwrite(), insert.ifPartitionNotExists(), insert.byName(),
            insert.replaceCriteriaOpt(), insert.withSchemaEvolution());
    }
}
