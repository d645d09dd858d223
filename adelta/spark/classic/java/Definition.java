package adelta.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Definitions of tables, and changes of them, in words for Python. */
public final class Definition {
    private Definition() {}

    /** What CREATE TABLE says. */
    static Map of(NewTable definition) {
        Map said = new HashMap();
        said.put("schema", definition.schema.json());
        List partitions = new ArrayList();
        for (int index = 0; index < definition.partitions.length; index++) {
            Transform transform = definition.partitions[index];
            Map one = new HashMap();
            one.put("name", transform.name());
            one.put("columns", columns(transform.references()));
            partitions.add(one);
        }
        said.put("partitions", partitions);
        said.put("properties", definition.properties);
        said.put("constraints", definition.constraints);
        said.put("identities", identities(definition.columns));
        return said;
    }

    private static Map identities(Column[] columns) {
        Map found = new HashMap();
        for (int index = 0; index < columns.length; index++) {
            IdentityColumnSpec spec = columns[index].identityColumnSpec();
            if (spec != null) {
                Map one = new HashMap();
                one.put("start", Long.valueOf(spec.getStart()));
                one.put("step", Long.valueOf(spec.getStep()));
                one.put("explicit", Boolean.valueOf(spec.isAllowExplicitInsert()));
                found.put(columns[index].name(), one);
            }
        }
        return found;
    }

    private static List columns(NamedReference[] references) {
        List found = new ArrayList();
        for (int index = 0; index < references.length; index++) {
            found.add(Arrays.asList(references[index].fieldNames()));
        }
        return found;
    }

    /** What ALTER TABLE says, in order. */
    public static String of(TableChange[] changes) {
        List said = new ArrayList();
        for (int index = 0; index < changes.length; index++) {
            said.add(change(changes[index]));
        }
        return InPython.write(said);
    }

    private static Map change(TableChange change) {
        Map said = new HashMap();
        if (change instanceof TableChange.ColumnChange) {
            said.put("column", Arrays.asList(((TableChange.ColumnChange) change).fieldNames()));
            columnChange(change, said);
        } else if (change instanceof TableChange.SetProperty) {
            said.put("kind", "set property");
            said.put("name", ((TableChange.SetProperty) change).property());
            said.put("value", ((TableChange.SetProperty) change).value());
        } else if (change instanceof TableChange.RemoveProperty) {
            said.put("kind", "remove property");
            said.put("name", ((TableChange.RemoveProperty) change).property());
        } else if (change instanceof TableChange.ClusterBy) {
            said.put("kind", "cluster by");
            said.put("columns", columns(((TableChange.ClusterBy) change).clusteringColumns()));
        } else if (!Constraints.describe(change, said)) {
            said.put("kind", change.toString());
        }
        return said;
    }

    /** A column's type in a schema: alone it does not say how its texts are compared. */
    private static String described(String[] column, DataType type) {
        return new StructType().add(column[column.length - 1], type).json();
    }

    private static void columnChange(TableChange change, Map said) {
        if (change instanceof TableChange.AddColumn) {
            TableChange.AddColumn added = (TableChange.AddColumn) change;
            said.put("kind", "add column");
            said.put("type", described(added.fieldNames(), added.dataType()));
            said.put("nullable", Boolean.valueOf(added.isNullable()));
            said.put("comment", added.comment());
            said.put("default", added.defaultValue() == null ? null : sql(added.defaultValue()));
            place(added.position(), said);
        } else if (change instanceof TableChange.RenameColumn) {
            said.put("kind", "rename column");
            said.put("name", ((TableChange.RenameColumn) change).newName());
        } else if (change instanceof TableChange.DeleteColumn) {
            said.put("kind", "drop column");
            said.put("if_exists", ((TableChange.DeleteColumn) change).ifExists());
        } else if (change instanceof TableChange.UpdateColumnType) {
            said.put("kind", "change type");
            TableChange.UpdateColumnType changed = (TableChange.UpdateColumnType) change;
            said.put("type", described(changed.fieldNames(), changed.newDataType()));
        } else if (change instanceof TableChange.UpdateColumnNullability) {
            boolean nullable = ((TableChange.UpdateColumnNullability) change).nullable();
            said.put("kind", "change nullability");
            said.put("nullable", Boolean.valueOf(nullable));
        } else if (change instanceof TableChange.UpdateColumnComment) {
            said.put("kind", "change comment");
            said.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
        } else if (change instanceof TableChange.UpdateColumnPosition) {
            said.put("kind", "move column");
            place(((TableChange.UpdateColumnPosition) change).position(), said);
        } else if (change instanceof TableChange.UpdateColumnDefaultValue) {
            said.put("kind", "change default");
            TableChange.UpdateColumnDefaultValue changed =
                (TableChange.UpdateColumnDefaultValue) change;
            said.put("default", changed.newDefaultValue());
        } else {
            said.put("kind", change.toString());
        }
    }

    /** The text of a default, whose method Spark's own classes alone can see. */
    private static String sql(ColumnDefaultValue value) {
        try {
            java.lang.reflect.Method method =
                ColumnDefaultValue.class.getMethod("getSql", new Class[0]);
            method.setAccessible(true);
            return (String) method.invoke(value, new Object[0]);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("Spark has no text of a default", error);
        }
    }

    private static void place(TableChange.ColumnPosition position, Map said) {
        if (position instanceof TableChange.After) {
            said.put("after", ((TableChange.After) position).column());
        } else if (position instanceof TableChange.First) {
            said.put("first", Boolean.TRUE);
        }
    }
}
