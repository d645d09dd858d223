package adelta.spark;

import java.net.URI;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Some;

/** Entries of the session's own catalog, which have other parameters by version of Spark. */
final class Entries {
    private Entries() {}

    static CatalogTable of(
            TableIdentifier name, CatalogTableType type, URI place, String format,
            String comment) {
        CatalogStorageFormat empty = CatalogStorageFormat.empty();
        CatalogStorageFormat storage = new CatalogStorageFormat(
            new Some(place), empty.inputFormat(), empty.outputFormat(), empty.serde(),
            empty.compressed(), empty.properties(), empty.serdeName());
        return new CatalogTable(
            name,
            type,
            storage,
            new StructType(),
            new Some(format),
            CatalogTable.apply$default$6(),
            CatalogTable.apply$default$7(),
            CatalogTable.apply$default$8(),
            System.currentTimeMillis(),
            CatalogTable.apply$default$10(),
            CatalogTable.apply$default$11(),
            CatalogTable.apply$default$12(),
            CatalogTable.apply$default$13(),
            CatalogTable.apply$default$14(),
            Option.apply(comment),
            CatalogTable.apply$default$16(),
            CatalogTable.apply$default$17(),
            CatalogTable.apply$default$18(),
            CatalogTable.apply$default$19(),
            CatalogTable.apply$default$20(),
            CatalogTable.apply$default$21(),
            CatalogTable.apply$default$22());
    }

    static CatalogTable moved(CatalogTable entry, URI place) {
        CatalogStorageFormat storage = entry.storage();
        return entry.withNewStorage(
            new Some(place), storage.inputFormat(), storage.outputFormat(),
            storage.compressed(), storage.serde(), storage.properties(),
            storage.serdeName());
    }
}
