package adelta.spark;

import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.unsafe.Platform;

/** A session catalog whose tables are defined by `NewTable`, in every Spark. */
public abstract class SessionCatalogBase extends DelegatingCatalogExtension
        implements StagingTableCatalog {
    abstract Table create(Identifier table, NewTable definition);

    abstract StagedTable stage(Identifier table, NewTable definition, String mode);

    /** A table that Spark's own catalog creates. */
    protected Table createBySpark(Identifier table, NewTable definition) {
        try {
            return createTable(
                table, definition.columns, definition.partitions, definition.properties);
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    public Table createTable(Identifier table, TableInfo info) {
        return create(table, CatalogBase.definition(info));
    }

    public StagedTable stageCreate(Identifier table, TableInfo info) {
        return stage(table, CatalogBase.definition(info), "create");
    }

    public StagedTable stageReplace(Identifier table, TableInfo info) {
        return stage(table, CatalogBase.definition(info), "replace");
    }

    public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
        return stage(table, CatalogBase.definition(info), "create or replace");
    }
}
