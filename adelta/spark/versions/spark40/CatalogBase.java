package adelta.spark;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;

/** A catalog whose tables are defined by `NewTable`, in every Spark. */
public abstract class CatalogBase implements StagingTableCatalog {
    abstract Table create(Identifier table, NewTable definition);

    abstract StagedTable stage(Identifier table, NewTable definition, String mode);

    /** Add the type of a table to its properties, where Spark shows it. */
    static void putTableType(Map properties, String type) {}

    static NewTable definition(Column[] columns, Transform[] partitions, Map properties) {
        return new NewTable(
            CatalogV2Util.v2ColumnsToStructType(columns), columns, partitions, properties,
            new ArrayList());
    }

    public Table createTable(
            Identifier table, Column[] columns, Transform[] partitions, Map properties) {
        return create(table, definition(columns, partitions, properties));
    }

    public StagedTable stageCreate(
            Identifier table, Column[] columns, Transform[] partitions, Map properties) {
        return stage(table, definition(columns, partitions, properties), "create");
    }

    public StagedTable stageReplace(
            Identifier table, Column[] columns, Transform[] partitions, Map properties) {
        return stage(table, definition(columns, partitions, properties), "replace");
    }

    public StagedTable stageCreateOrReplace(
            Identifier table, Column[] columns, Transform[] partitions, Map properties) {
        return stage(table, definition(columns, partitions, properties), "create or replace");
    }
}
