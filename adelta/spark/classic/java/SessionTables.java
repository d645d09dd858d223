package adelta.spark;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The session's own catalog, in which tables of adelta's formats are adelta's.
 *
 * An entry of it holds a name, a format and a place; all else is in the table's log. What has a
 * slash in its name, and a format for its database, is a path: tables of a database of that name
 * are found beside.
 */
public final class SessionTables extends SessionCatalogBase {
    private final SparkSession session;
    private volatile List formats;
    private final InPython python;

    /** `function` answers for all tables of a session; `formats` are in lower case. */
    public SessionTables(SparkSession session, List formats, Function function) {
        this.session = session;
        this.formats = formats;
        this.python = new InPython(function);
    }

    /** Others from now on. */
    public void setFormats(List formats) {
        this.formats = formats;
    }

    private SessionCatalog catalog() {
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalog();
    }

    private static TableIdentifier key(Identifier table) {
        return new TableIdentifier(
            table.name(), new Some(table.namespace()[0]), new Some("spark_catalog"));
    }

    private CatalogTable entry(Identifier table) {
        if (table.namespace().length != 1 || !catalog().tableExists(key(table))) {
            return null;
        }
        try {
            return catalog().getTableMetadata(key(table));
        } catch (Exception gone) {
            return null;
        }
    }

    /** The entry of a table that is adelta's, null of any other. */
    private CatalogTable ours(Identifier table) {
        CatalogTable found = entry(table);
        boolean named = found != null && found.provider().isDefined();
        return named && isOurs((String) found.provider().get()) ? found : null;
    }

    /** The tables named by path, where an identifier is one; null elsewhere. */
    private PathCatalog paths(Identifier table) {
        String format = formatOfPath(table);
        return format == null ? null : new PathCatalog(session, format, python);
    }

    /** The format of a table that is named by its path; null of other names. */
    public String formatOfPath(Identifier table) {
        String[] above = table.namespace();
        boolean isPath = above.length == 1 && isOurs(above[0]) && table.name().indexOf('/') >= 0;
        return isPath ? above[0].toLowerCase(Locale.ROOT) : null;
    }

    /** What a table at a path is named by. */
    public Identifier pathOf(final String path) {
        final String[] format = new String[] {(String) formats.iterator().next()};
        return new Identifier() {
            public String[] namespace() {
                return format;
            }

            public String name() {
                return path;
            }
        };
    }

    private boolean isOurs(String format) {
        return formats.contains(format.toLowerCase(Locale.ROOT));
    }

    private boolean isOurs(NewTable definition) {
        String format = (String) definition.properties.get(TableCatalog.PROP_PROVIDER);
        return isOurs(format == null ? session.conf().get("spark.sql.sources.default") : format);
    }

    private static String place(CatalogTable entry) {
        return new Path(entry.location()).toString();
    }

    public Set capabilities() {
        Set found = EnumSet.allOf(TableCatalogCapability.class);
        return found;
    }

    // ------------------------------------------------------------------------------- reading

    public Table loadTable(Identifier table) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.loadTable(table);
        }
        CatalogTable entry = ours(table);
        if (entry != null) {
            return loaded(table, entry, null, null);
        }
        try {
            return super.loadTable(table);
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    public Table loadTable(Identifier table, String version) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.loadTable(table, version);
        }
        CatalogTable entry = ours(table);
        if (entry != null) {
            return loaded(table, entry, version, null);
        }
        try {
            return super.loadTable(table, version);
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    public Table loadTable(Identifier table, long microseconds) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.loadTable(table, microseconds);
        }
        CatalogTable entry = ours(table);
        if (entry != null) {
            return loaded(table, entry, null, Long.valueOf(microseconds));
        }
        try {
            return super.loadTable(table, microseconds);
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    private Table loaded(Identifier table, CatalogTable entry, String version, Long moment) {
        Object found = python.ask(
            null, new Object[] {"open", session, place(entry), version, moment});
        Map said = new HashMap();
        said.put(TableCatalog.PROP_PROVIDER, entry.provider().get());
        said.put(TableCatalog.PROP_LOCATION, place(entry));
        boolean managed = entry.tableType().equals(CatalogTableType.MANAGED());
        CatalogBase.putTableType(said, managed ? "MANAGED" : "EXTERNAL");
        if (managed) {
            said.put(TableCatalog.PROP_IS_MANAGED_LOCATION, "true");
        } else {
            said.put(TableCatalog.PROP_EXTERNAL, "true");
        }
        if (!entry.owner().isEmpty()) {
            said.put(TableCatalog.PROP_OWNER, entry.owner());
        }
        InPython its = new InPython((Function) found);
        return new NamedTable(
            session, table, shown(table), its, said, version != null || moment != null);
    }

    private static String shown(Identifier table) {
        return "spark_catalog." + table.namespace()[0] + "." + table.name();
    }

    // ---------------------------------------------------------------------------- definition

    Table create(Identifier table, NewTable definition) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.create(table, definition);
        }
        if (!isOurs(definition)) {
            return createBySpark(table, definition);
        }
        Map said = said(table, definition, "create", null);
        python.ask(table, new Object[] {"create", session, InPython.write(said)});
        enter(table, said, definition);
        return loadTable(table);
    }

    /** What is to be, where the `old` entry is, if there is one that is adelta's. */
    private Map said(
            Identifier table, NewTable definition, String mode, CatalogTable old) {
        checkName(table);
        Map said = Definition.of(definition);
        String given = (String) definition.properties.get(TableCatalog.PROP_LOCATION);
        boolean managed = given == null;
        String path = given;
        if (given == null && old != null) {
            path = place(old);
        } else if (given == null) {
            path = defaultPlace(table);
        }
        said.put("path", path);
        said.put("managed", Boolean.valueOf(managed));
        said.put("mode", mode);
        return said;
    }

    private void enter(Identifier table, Map said, NewTable definition) {
        String format = (String) definition.properties.get(TableCatalog.PROP_PROVIDER);
        enter(
            table,
            (String) said.get("path"),
            Boolean.TRUE.equals(said.get("managed")),
            format == null ? session.conf().get("spark.sql.sources.default") : format,
            (String) definition.properties.get(TableCatalog.PROP_COMMENT));
    }

    /** Where a new table of a name is to be, unless it is told. */
    public String defaultPlace(Identifier table) {
        checkName(table);
        return new Path(catalog().defaultTablePath(key(table))).toString();
    }

    /** Refuse a name that the catalog would refuse when the table is there already. */
    private static void checkName(Identifier table) {
        if (!table.name().matches("\\w+")) {
            Map said = new HashMap();
            said.put("name", "`" + table.name().replace("`", "``") + "`");
            Platform.throwException(
                new AnalysisException(
                    "INVALID_SCHEMA_OR_RELATION_NAME",
                    scala.collection.immutable.Map$.MODULE$.from(
                        CollectionConverters.asScala(said)),
                    Option.empty()));
        }
    }

    /** Note a table that is there, in the catalog's own folder where it is `managed`. */
    public void enter(
            Identifier table, String path, boolean managed, String format, String comment) {
        CatalogTable entry = Entries.of(
            key(table), managed ? CatalogTableType.MANAGED() : CatalogTableType.EXTERNAL(),
            new Path(path).toUri(), format, comment);
        catalog().createTable(entry, false, false);
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.alterTable(table, changes);
        }
        CatalogTable entry = ours(table);
        if (entry == null) {
            try {
                return super.alterTable(table, changes);
            } catch (Exception error) {
                Platform.throwException(error);
            }
        }
        String moved = null;
        for (int index = 0; index < changes.length; index++) {
            if (changes[index] instanceof TableChange.SetProperty
                    && TableCatalog.PROP_LOCATION.equals(
                        ((TableChange.SetProperty) changes[index]).property())) {
                moved = ((TableChange.SetProperty) changes[index]).value();
            }
        }
        if (moved != null && changes.length == 1) {
            move(table, entry, moved);
        } else {
            python.ask(
                table, new Object[] {"alter", session, place(entry), Definition.of(changes)});
        }
        return loadTable(table);
    }

    /** Let the entry of a table be one for another place, where a table like it is. */
    private void move(Identifier table, CatalogTable entry, String path) {
        if (entry.tableType().equals(CatalogTableType.MANAGED())) {
            Platform.throwException(
                new InPython.Refused(
                    shown(table) + " is in a folder of the catalog's, which goes with its entry:"
                        + " drop it, and create it with LOCATION, or give the table at " + path
                        + " another name"));
        }
        python.ask(null, new Object[] {"move", session, place(entry), path});
        catalog().alterTable(Entries.moved(entry, new Path(path).toUri()));
    }

    public boolean tableExists(Identifier table) {
        PathCatalog paths = paths(table);
        return paths == null ? super.tableExists(table) : paths.tableExists(table);
    }

    public boolean dropTable(Identifier table) {
        PathCatalog paths = paths(table);
        return paths == null ? super.dropTable(table) : paths.dropTable(table);
    }

    public void renameTable(Identifier table, Identifier other) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            paths.renameTable(table, other);
            return;
        }
        try {
            super.renameTable(table, other);
        } catch (Exception error) {
            Platform.throwException(error);
        }
    }

    // ------------------------------------------------------------------------------- staging

    StagedTable stage(final Identifier table, final NewTable definition, String mode) {
        PathCatalog paths = paths(table);
        if (paths != null) {
            return paths.stage(table, definition, mode);
        }
        final CatalogTable before = "create".equals(mode) ? null : entry(table);
        if (!isOurs(definition)) {
            if (before != null) {
                dropTable(table);
            }
            return new Plain(this, table, createBySpark(table, definition));
        }
        final CatalogTable old = before == null ? null : ours(table);
        String how = mode;
        if (before == null) {
            how = "create";
        } else if (old == null) {
            how = "create or replace";
        }
        final Map said = said(table, definition, how, old);
        final boolean stays = old != null && place(old).equals(said.get("path"));
        if (before != null && !stays) {
            checkApart(table, before, (String) said.get("path"));
        }
        Object found = python.ask(table, new Object[] {"stage", session, InPython.write(said)});
        InPython its = new InPython((Function) found);
        final SessionTables catalog = this;
        return new NamedTable.Staged(
            session, table, shown(table), its,
            new Runnable() {
                public void run() {
                    if (stays) {
                        return;
                    }
                    if (before != null) {
                        catalog.dropTable(table);
                    }
                    catalog.enter(table, said, definition);
                }
            });
    }

    /** Refuse a new table in the folder of an old one, which goes with that. */
    private void checkApart(Identifier table, CatalogTable old, String path) {
        if (!old.tableType().equals(CatalogTableType.MANAGED())) {
            return;
        }
        String folder = qualified(place(old)) + "/";
        String next = qualified(path) + "/";
        if (next.startsWith(folder) || folder.startsWith(next)) {
            String format = old.provider().isDefined() ? (String) old.provider().get() : "hive";
            Platform.throwException(
                new InPython.Refused(
                    shown(table) + " is a table of " + format + " that would be removed with its"
                        + " folder, where the new table is to be: drop it first (DROP TABLE), or"
                        + " give the new one another name or location"));
        }
    }

    private String qualified(String path) {
        Path given = new Path(path);
        try {
            return given.getFileSystem(
                ((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                    .newHadoopConf()).makeQualified(given).toString();
        } catch (java.io.IOException error) {
            Platform.throwException(error);
            return null;
        }
    }

    /** A table of another format: it is there at once, and goes where its rows do not come. */
    public static final class Plain implements StagedTable, SupportsWrite {
        private final SessionTables catalog;
        private final Identifier identifier;
        private final Table table;

        Plain(SessionTables catalog, Identifier identifier, Table table) {
            this.catalog = catalog;
            this.identifier = identifier;
            this.table = table;
        }

        public String name() {
            return table.name();
        }

        public StructType schema() {
            return table.schema();
        }

        public org.apache.spark.sql.connector.catalog.Column[] columns() {
            return table.columns();
        }

        public org.apache.spark.sql.connector.expressions.Transform[] partitioning() {
            return table.partitioning();
        }

        public Map properties() {
            return table.properties();
        }

        public Set capabilities() {
            return table.capabilities();
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return ((SupportsWrite) table).newWriteBuilder(info);
        }

        public void commitStagedChanges() {}

        public void abortStagedChanges() {
            catalog.dropTable(identifier);
        }
    }
}
