package adelta.spark;

import org.apache.spark.sql.catalyst.analysis.TableOutputResolver;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf$;

/** Columns that a write leaves out, which Spark 4.0 refuses in tables of catalogs. */
final class Defaults {
    private Defaults() {}

    /** The rows of a write with all columns of a table: defaults, or nulls, where they have none. */
    static LogicalPlan filled(V2WriteCommand write, DataSourceV2Relation table, boolean byName) {
        return TableOutputResolver.resolveOutputColumns(
            table.name(), table.output(), write.query(), byName, SQLConf$.MODULE$.get(), true);
    }
}
