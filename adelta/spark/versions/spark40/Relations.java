package adelta.spark;

import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;

/** Tables in plans, whose classes have other parameters by version of Spark. */
final class Relations {
    private Relations() {}

    static DataSourceV2Relation of(
            Table table, Option catalog, Option identifier, CaseInsensitiveStringMap options) {
        return DataSourceV2Relation.create(table, catalog, identifier, options);
    }

    /** The relation with another table, other columns and other options. */
    static DataSourceV2Relation like(
            DataSourceV2Relation relation, Table table, Seq columns,
            CaseInsensitiveStringMap options) {
        return relation.copy(
            table, columns, relation.catalog(), relation.identifier(), options);
    }

    static UnresolvedTableSpec withProvider(UnresolvedTableSpec told, String provider) {
        return told.copy(
            told.properties(), new Some(provider), told.optionExpression(), told.location(),
            told.comment(), told.collation(), told.serde(), told.external());
    }

    static TableSpec withProvider(TableSpec told, String provider) {
        return told.copy(
            told.properties(), new Some(provider), told.options(), told.location(),
            told.comment(), told.collation(), told.serde(), told.external());
    }
}
