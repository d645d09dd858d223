package adelta.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.SparkException;
import org.apache.spark.unsafe.Platform;
import org.roaringbitmap.RoaringBitmap;

/**
 * PROTOCOL.md, "Deletion Vector Format".
 *
 * Errors here are none that Spark takes for those of a data file: with `ignoreCorruptFiles` it
 * would leave out all rows of the file, which is sound.
 */
final class DeletionVector {
    private static final int PORTABLE = 1681511377;
    private static final int NATIVE = 1681511376;

    /** `said` is the number of rows, then where the bytes are: `path offset size`, or they. */
    static RoaringBitmap read(String said, Path file, Configuration conf) {
        RoaringBitmap found = named(said, file, conf);
        if (!found.isEmpty() && (found.last() & 0xFFFFFFFFL) >= rowsOf(file, conf)) {
            throw unreadable(file, new IOException("it names rows that the file does not have"));
        }
        return found;
    }

    private static RoaringBitmap named(String said, Path file, Configuration conf) {
        try {
            String[] parts = said.split(" ", 4);
            long rows = Long.parseLong(parts[0]);
            byte[] data = parts[1].equals("inline")
                ? bytes(parts[3])
                : stored(Long.parseLong(parts[1]), Integer.parseInt(parts[2]), parts[3], conf);
            RoaringBitmap found = bitmap(data);
            if (found.getLongCardinality() != rows) {
                throw new IOException(
                    "it names " + found.getLongCardinality() + " rows, and the log says " + rows);
            }
            return found;
        } catch (Exception error) {
            throw unreadable(file, error);
        }
    }

    private static RuntimeException unreadable(Path file, Exception error) {
        Platform.throwException(
            new SparkException(
                file + ": its deletion vector cannot be read (" + error
                    + "); restore the file that holds it, or the table to an earlier version",
                error));
        return null;
    }

    private static long rowsOf(Path file, Configuration conf) {
        try {
            ParquetFileReader footer =
                ParquetFileReader.open(HadoopInputFile.fromPath(file, conf));
            try {
                return footer.getRecordCount();
            } finally {
                footer.close();
            }
        } catch (IOException error) {  // of the data file: Spark knows what to do
            Platform.throwException(error);
            return 0L;
        }
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int index = 0; index < found.length; index++) {
            found[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return found;
    }

    private static byte[] stored(long offset, int size, String path, Configuration conf)
            throws IOException {
        Path place = new Path(path);
        byte[] frame = new byte[size + 8];
        FSDataInputStream in = place.getFileSystem(conf).open(place);
        try {
            in.readFully(offset, frame);
        } finally {
            in.close();
        }
        ByteBuffer framed = ByteBuffer.wrap(frame);
        CRC32 sum = new CRC32();
        sum.update(frame, 4, size);
        if (framed.getInt(0) != size || framed.getInt(size + 4) != (int) sum.getValue()) {
            throw new IOException(path + " is damaged");
        }
        byte[] data = new byte[size];
        System.arraycopy(frame, 4, data, 0, size);
        return data;
    }

    private static RoaringBitmap bitmap(byte[] data) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        int magic = in.getInt();
        boolean portable = magic == PORTABLE;
        if (!portable && magic != NATIVE) {
            throw new IOException("it has the unknown magic number " + magic);
        }
        long bitmaps = portable ? in.getLong() : in.getInt();
        RoaringBitmap found = new RoaringBitmap();
        for (long index = 0L; index < bitmaps; index++) {
            long high = portable ? in.getInt() : index;
            int size = portable ? -1 : in.getInt();
            int start = in.position();
            RoaringBitmap part = new RoaringBitmap();
            DataInputStream rest = new DataInputStream(
                new ByteArrayInputStream(data, start, data.length - start));
            part.deserialize(rest);
            in.position(portable ? data.length - rest.available() : start + size);
            if (high == 0L) {
                found = part;
            } else if (!part.isEmpty()) {
                throw new IOException("it names rows past 4,294,967,295");
            }
        }
        return found;
    }
}
