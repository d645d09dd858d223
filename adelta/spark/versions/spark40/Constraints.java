package adelta.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.TableChange;

/** Constraints of tables, of which Spark 4.0 has no statements. */
final class Constraints {
    private Constraints() {}

    /** Describe a change of constraints in `said`; whether it is one. */
    static boolean describe(TableChange change, Map said) {
        return false;
    }

    /** The plan of the table to which a plan adds a check; null where it is another plan. */
    static LogicalPlan checkedTable(LogicalPlan plan) {
        return null;
    }

    /** The check that a plan of `checkedTable` adds. */
    static Map addedCheck(LogicalPlan plan) {
        throw new IllegalArgumentException("Spark 4.0 has no statements of constraints");
    }
}
