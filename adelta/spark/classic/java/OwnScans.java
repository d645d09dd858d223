package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** The scans of Delta tables that a plan computes rows of. */
public final class OwnScans {
    private static final String INDEX = "adelta.spark.TableFileIndex";
    private static final String SOURCE =
        "org.apache.spark.sql.execution.datasources.v2.python.PythonTable";

    /**
     * File indexes, and relations of data sources in Python, subqueries' ones among them; none of
     * rows that Spark keeps in its cache.
     */
    public List of(SparkSession session, LogicalPlan plan) {
        CacheManager cache = session.sharedState().cacheManager();
        List found = new ArrayList();
        look(plan, cache.isEmpty() ? null : cache, session, found);
        return found;
    }

    private static void look(
            QueryPlan plan, CacheManager cache, SparkSession session, List found) {
        if (cache != null && cache.lookupCachedData(session, (LogicalPlan) plan).isDefined()) {
            return;
        }
        note(plan, found);
        look(plan.children(), cache, session, found);
        look(plan.subqueries(), cache, session, found);
    }

    private static void look(
            scala.collection.immutable.Seq plans, CacheManager cache, SparkSession session,
            List found) {
        for (int index = 0; index < plans.size(); index++) {
            look((QueryPlan) plans.apply(index), cache, session, found);
        }
    }

    private static void note(Object node, List found) {
        if (node instanceof LogicalRelation) {
            Object relation = ((LogicalRelation) node).relation();
            if (relation instanceof HadoopFsRelation) {
                Object files = ((HadoopFsRelation) relation).location();
                if (files.getClass().getName().equals(INDEX)) {
                    found.add(files);
                }
            }
        } else if (node instanceof DataSourceV2ScanRelation) {
            note(((DataSourceV2ScanRelation) node).relation(), found);
        } else if (node instanceof DataSourceV2Relation) {
            if (((DataSourceV2Relation) node).table().getClass().getName().equals(SOURCE)) {
                found.add(node);
            }
        }
    }
}
