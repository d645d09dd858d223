package adelta.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.AddCheckConstraint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** Constraints of tables, which Spark's statements define as of 4.1. */
final class Constraints {
    private Constraints() {}

    /** A constraint, and its condition where it is a check. */
    static Map described(Constraint constraint) {
        Map said = new HashMap();
        said.put("name", constraint.name());
        said.put("described", constraint.toDDL());
        if (constraint instanceof Check) {
            said.put("check", ((Check) constraint).predicateSql());
        }
        return said;
    }

    /** Describe a change of constraints in `said`; whether it is one. */
    static boolean describe(TableChange change, Map said) {
        if (change instanceof TableChange.AddConstraint) {
            said.put("kind", "add constraint");
            said.putAll(described(((TableChange.AddConstraint) change).constraint()));
            return true;
        }
        if (change instanceof TableChange.DropConstraint) {
            said.put("kind", "drop constraint");
            said.put("name", ((TableChange.DropConstraint) change).name());
            said.put("if_exists", Boolean.valueOf(((TableChange.DropConstraint) change).ifExists()));
            return true;
        }
        return false;
    }

    /** The plan of the table to which a plan adds a check; null where it is another plan. */
    static LogicalPlan checkedTable(LogicalPlan plan) {
        return plan instanceof AddCheckConstraint ? ((AddCheckConstraint) plan).child() : null;
    }

    /** The check that a plan of `checkedTable` adds. */
    static Map addedCheck(LogicalPlan plan) {
        return described(((AddCheckConstraint) plan).checkConstraint().toV2Constraint());
    }
}
