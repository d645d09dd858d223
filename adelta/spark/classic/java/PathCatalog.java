package adelta.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Tables that are named by where they are: SELECT * FROM adelta.`/data/orders`. */
public final class PathCatalog {
    private final SparkSession session;
    private final String name;
    private final InPython python;

    /** `name` is their format; `python` answers for all tables of a session. */
    PathCatalog(SparkSession session, String name, InPython python) {
        this.session = session;
        this.name = name;
        this.python = python;
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
        String path = path(table);
        Object found = null;
        try {
            found = python.ask(table, new Object[] {"open", session, path, version, moment});
        } catch (Exception error) {
            Platform.throwException(error instanceof NoSuchTableException ? missing(table) : error);
        }
        InPython its = new InPython((Function) found);
        return new NamedTable(
            session, table, shown(table), its, properties(), version != null || moment != null);
    }

    /** As Spark says it itself, which takes the other exception for a reason to look elsewhere. */
    private Exception missing(Identifier table) {
        Map said = new HashMap();
        said.put("relationName", shown(table));
        said.put("searchPath", name);
        return new AnalysisException(
            "TABLE_OR_VIEW_NOT_FOUND",
            scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(said)),
            Option.empty());
    }

    public boolean tableExists(Identifier table) {
        return Boolean.TRUE.equals(
            python.ask(table, new Object[] {"exists", session, path(table)}));
    }

    private Map properties() {
        Map said = new HashMap();
        said.put(TableCatalog.PROP_PROVIDER, name);
        CatalogBase.putTableType(said, "EXTERNAL");
        said.put(TableCatalog.PROP_EXTERNAL, "true");
        return said;
    }

    private String shown(Identifier table) {
        return name + ".`" + table.name() + "`";
    }

    private static String path(Identifier table) {
        return table.name();
    }

    Table create(Identifier table, NewTable definition) {
        Map said = Definition.of(definition);
        said.put("path", path(table));
        said.put("mode", "create");
        python.ask(table, new Object[] {"create", session, InPython.write(said)});
        return loadTable(table);
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        python.ask(
            table, new Object[] {"alter", session, path(table), Definition.of(changes)});
        return loadTable(table);
    }

    public boolean dropTable(Identifier table) {
        python.ask(table, new Object[] {"drop", session, path(table)});
        return true;
    }

    public void renameTable(Identifier table, Identifier other) {
        python.ask(table, new Object[] {"rename", session, path(table)});
    }

    StagedTable stage(Identifier table, NewTable definition, String mode) {
        Map said = Definition.of(definition);
        said.put("path", path(table));
        said.put("mode", mode);
        Object found = python.ask(table, new Object[] {"stage", session, InPython.write(said)});
        InPython its = new InPython((Function) found);
        return new NamedTable.Staged(
            session, table, shown(table), its,
            new Runnable() {
                public void run() {}
            });
    }
}
