package adelta.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** The tables of a Unity Catalog: Python asks the catalog where each of them is. */
public final class UnityTables extends CatalogBase {
    private final SparkSession session;
    private final String name;
    private final InPython python;

    /** `name` is that of the catalog; `function` answers for all tables of a session. */
    public UnityTables(SparkSession session, String name, Function function) {
        this.session = session;
        this.name = name;
        this.python = new InPython(function);
    }

    public void initialize(String given, CaseInsensitiveStringMap options) {}

    public String name() {
        return name;
    }

    public Set capabilities() {
        return EnumSet.allOf(TableCatalogCapability.class);
    }

    public Identifier[] listTables(String[] namespace) {
        throw refused("listed");
    }

    public Table loadTable(Identifier table) {
        return loaded(table, null, null);
    }

    public Table loadTable(Identifier table, String version) {
        return loaded(table, version, null);
    }

    public Table loadTable(Identifier table, long microseconds) {
        return loaded(table, null, Long.valueOf(microseconds));
    }

    private Table loaded(Identifier table, String version, Long moment) {
        checkName(table);
        String schema = table.namespace()[0];
        Object found = python.ask(
            table,
            new Object[] {"open_in_catalog", session, name, schema, table.name(), version, moment});
        Map said = new HashMap();
        said.put(TableCatalog.PROP_PROVIDER, "delta");
        return new NamedTable(
            session, table, shown(table), new InPython((Function) found), said,
            version != null || moment != null);
    }

    private static void checkName(Identifier table) {
        if (table.namespace().length != 1) {
            Platform.throwException(new NoSuchTableException(table));
        }
    }

    private String shown(Identifier table) {
        return name + "." + table.namespace()[0] + "." + table.name();
    }

    Table create(Identifier table, NewTable definition) {
        stage(table, definition, "create").commitStagedChanges();
        return loadTable(table);
    }

    StagedTable stage(Identifier table, NewTable definition, String mode) {
        checkName(table);
        if (mode.equals("replace") || !mode.equals("create") && tableExists(table)) {
            throw refused("replaced");
        }
        String question = InPython.write(Definition.of(definition));
        Object found = python.ask(
            table,
            new Object[] {
                "stage_in_catalog", session, name, table.namespace()[0], table.name(), question});
        return new NamedTable.Staged(
            session, table, shown(table), new InPython((Function) found),
            new Runnable() {
                public void run() {}
            });
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        ((NamedTable) loadTable(table)).ask(
            new Object[] {"alter", session, Definition.of(changes)});
        return loadTable(table);
    }

    public boolean dropTable(Identifier table) {
        throw refused("dropped");
    }

    public void renameTable(Identifier table, Identifier other) {
        throw refused("renamed");
    }

    private RuntimeException refused(String what) {
        Platform.throwException(
            new InPython.Refused(
                "tables of the Unity Catalog " + name + " are not " + what
                    + " here: have the catalog itself do it"));
        return null;
    }
}
