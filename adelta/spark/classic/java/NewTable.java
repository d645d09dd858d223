package adelta.spark;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** What CREATE TABLE says of a table: Spark has other types for it by version. */
final class NewTable {
    final StructType schema;
    final Column[] columns;
    final Transform[] partitions;
    final Map properties;
    /** Each as `Constraints` describes it. */
    final List constraints;

    NewTable(
            StructType schema, Column[] columns, Transform[] partitions, Map properties,
            List constraints) {
        this.schema = schema;
        this.columns = columns;
        this.partitions = partitions;
        this.properties = properties;
        this.constraints = constraints;
    }
}
