package adelta.spark;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** Columns that a write leaves out, which Spark fills with defaults as of 4.1. */
final class Defaults {
    private Defaults() {}

    /** The rows of a write, to which Spark adds the columns of the table that they do not have. */
    static LogicalPlan filled(V2WriteCommand write, DataSourceV2Relation table, boolean byName) {
        return write.query();
    }
}
