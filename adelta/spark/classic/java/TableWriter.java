package adelta.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.datasources.FileFormatWriter;
import org.apache.spark.sql.execution.datasources.FileFormatWriter$;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

/** Rows written as Parquet by Spark's own writer, to files that belong to no table yet. */
public final class TableWriter extends ParquetFileFormat {
    private final String root;
    private final String codec;
    private final long mostRows;
    private final transient WrittenFiles files;

    /** Files below `root`, compressed by `codec`, of so many rows at most; 0 is as many as come. */
    public TableWriter(String root, String codec, String mostRows) {
        this.root = root;
        this.codec = codec;
        this.mostRows = Long.parseLong(mostRows);
        this.files = new WrittenFiles(root);
    }

    /** Path below the root, size and time of modification of each file that counts; and NULs. */
    public String counted() {
        return files.counted();
    }

    /** The same of all files that tasks have told the driver of. */
    public String ended() {
        return files.ended();
    }

    /** Write the rows, which lie in folders by the last so many of their columns. */
    public void write(Dataset rows, int keys) {
        QueryExecution query = rows.queryExecution();
        Option name = Option.apply("adelta");
        SQLExecution$.MODULE$.withNewExecutionId(query, name, new Work(this, rows, keys));
    }

    void writeNow(Dataset rows, int keys) {
        QueryExecution query = rows.queryExecution();
        scala.collection.immutable.Seq output = query.analyzed().output();
        List partitions = new ArrayList();
        for (int at = output.size() - keys; at < output.size(); at++) {
            partitions.add((Attribute) output.apply(at));
        }
        Map options = (Map) Map$.MODULE$.empty();
        options = (Map) options.$plus(new scala.Tuple2("compression", codec));
        options = (Map) options.$plus(
            new scala.Tuple2("maxRecordsPerFile", Long.toString(mostRows)));
        Map nowhereElse = (Map) Map$.MODULE$.empty();
        scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) Nil$.MODULE$;
        Configuration hadoop =
            rows.sparkSession().sessionState().newHadoopConfWithOptions(options);
        hadoop.setClassLoader(LocalFiles.class.getClassLoader());
        hadoop.set("fs.file.impl", "adelta.spark.LocalFiles");
        hadoop.set("fs.file.impl.disable.cache", "true");
        FileFormatWriter$.MODULE$.write(
            rows.sparkSession(),
            query.executedPlan(),
            this,
            files,
            new FileFormatWriter.OutputSpec(root, nowhereElse, output),
            hadoop,
            CollectionConverters.asScala(partitions).toSeq(),
            Option.empty(),
            none,
            options,
            0,
            FileFormatWriter$.MODULE$.write$default$12());
    }

    /** As tables have their columns, whatever the session asks of other files. */
    public OutputWriterFactory prepareWrite(
            SparkSession session, Job job, Map options, StructType schema) {
        OutputWriterFactory factory = super.prepareWrite(session, job, options, schema);
        Configuration settings = job.getConfiguration();
        settings.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS");
        settings.set("spark.sql.parquet.writeLegacyFormat", "false");
        settings.set("spark.sql.parquet.fieldId.write.enabled", "false");
        settings.set("parquet.compression.codec.zstd.level", "1");
        // Longer bounds would take the whole of a column's statistics with them.
        settings.set("parquet.statistics.truncate.length", "1024");
        settings.set("parquet.column.statistics.enabled", "true");
        settings.unset("parquet.crypto.factory.class");
        return factory;
    }

    private static final class Work extends AbstractFunction0 {
        private final TableWriter writer;
        private final Dataset rows;
        private final int keys;

        Work(TableWriter writer, Dataset rows, int keys) {
            this.writer = writer;
            this.rows = rows;
            this.keys = keys;
        }

        public Object apply() {
            writer.writeNow(rows, keys);
            return BoxedUnit.UNIT;
        }
    }
}
