package adelta.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Files of this machine, without another one with its checksums beside each, which nobody deletes.
 *
 * Hadoop starts a process, `chmod`, for each file that it makes; here the JVM sets permissions.
 */
public final class LocalFiles extends RawLocalFileSystem {
    public LocalFiles() {}

    public void setPermission(Path path, FsPermission permission) throws IOException {
        Files.setPosixFilePermissions(
            pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
}
