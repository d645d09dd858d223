package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** A catalog whose tables are defined by `NewTable`, in every Spark. */
public abstract class CatalogBase implements StagingTableCatalog {
    abstract Table create(Identifier table, NewTable definition);

    abstract StagedTable stage(Identifier table, NewTable definition, String mode);

    /** Add the type of a table to its properties, where Spark shows it. */
    static void putTableType(Map properties, String type) {
        properties.put(TableCatalog.PROP_TABLE_TYPE, type);
    }

    static NewTable definition(TableInfo info) {
        List constraints = new ArrayList();
        Constraint[] given = info.constraints();
        for (int index = 0; given != null && index < given.length; index++) {
            constraints.add(Constraints.described(given[index]));
        }
        return new NewTable(
            info.schema(), info.columns(), info.partitions(), info.properties(), constraints);
    }

    public Table createTable(Identifier table, TableInfo info) {
        return create(table, definition(info));
    }

    public StagedTable stageCreate(Identifier table, TableInfo info) {
        return stage(table, definition(info), "create");
    }

    public StagedTable stageReplace(Identifier table, TableInfo info) {
        return stage(table, definition(info), "replace");
    }

    public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
        return stage(table, definition(info), "create or replace");
    }
}
