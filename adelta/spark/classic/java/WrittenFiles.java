package adelta.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import scala.Option;

/**
 * The files of a job's tasks, which tasks write under names that no other file ever has.
 *
 * None of them is in the table before adelta commits those of the tasks that count: Spark hands
 * over one answer of each partition, however often its task ran. What a task wrote that fails, it
 * deletes; what one left that was lost, no log names, and VACUUM deletes it.
 */
final class WrittenFiles extends FileCommitProtocol implements Serializable {
    private final String root;
    private transient List mine;
    private transient Set forced;
    private final transient StringBuffer ended;
    private transient String counted = "";

    /** Files below `root`, for the driver. */
    WrittenFiles(String root) {
        this.root = root;
        this.ended = new StringBuffer();
    }

    /** Path below the root, size and time of modification of each file that counts; and NULs. */
    String counted() {
        return counted;
    }

    /** The same of all files that tasks have told the driver of. */
    String ended() {
        return ended.toString();
    }

    public void setupJob(JobContext job) {}

    public void setupTask(TaskAttemptContext task) {
        mine = new ArrayList();
        forced = new HashSet();
    }

    public String newTaskTempFile(TaskAttemptContext task, Option folder, String suffix) {
        String name = String.format(
            "part-%05d-%s%s",
            new Object[] {
                Integer.valueOf(task.getTaskAttemptID().getTaskID().getId()),
                UUID.randomUUID().toString(),
                suffix.startsWith("-") ? "." + suffix.substring(1) : suffix,
            });
        String path = folder.isEmpty() ? name : folder.get() + "/" + name;
        mine.add(path);
        return new Path(root, path).toString();
    }

    public String newTaskTempFile(TaskAttemptContext task, Option folder, FileNameSpec name) {
        return newTaskTempFile(task, folder, name.suffix());
    }

    public String newTaskTempFileAbsPath(TaskAttemptContext task, String folder, String suffix) {
        throw new UnsupportedOperationException("a table's files lie below its root");
    }

    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext task) {
        StringBuilder told = new StringBuilder();
        try {
            for (int at = 0; at < mine.size(); at++) {
                Path path = new Path(root, (String) mine.get(at));
                FileStatus status =
                    path.getFileSystem(task.getConfiguration()).getFileStatus(path);
                settle(path);
                told.append((String) mine.get(at)).append('\0');
                told.append(status.getLen()).append('\0');
                told.append(status.getModificationTime()).append('\0');
            }
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        // A text: whatever serialises Spark's answers knows it, also Kryo of registered classes alone.
        return new FileCommitProtocol.TaskCommitMessage(told.toString());
    }

    /** See to it that a file of this machine outlives a loss of power, and so its folders. */
    private void settle(Path path) throws IOException {
        if (!"file".equals(path.toUri().getScheme())) {
            return;
        }
        java.nio.file.Path top = new java.io.File(new Path(root).toUri().getPath()).toPath();
        java.nio.file.Path each = new java.io.File(path.toUri().getPath()).toPath();
        force(each);
        while (!each.equals(top)) {
            each = each.getParent();
            if (forced.add(each)) {
                force(each);
            }
        }
    }

    private static void force(java.nio.file.Path path) throws IOException {
        FileChannel opened =
            FileChannel.open(path, new OpenOption[] {StandardOpenOption.READ});
        try {
            opened.force(true);
        } finally {
            opened.close();
        }
    }

    public void abortTask(TaskAttemptContext task) {
        for (int at = 0; at < mine.size(); at++) {
            Path path = new Path(root, (String) mine.get(at));
            try {
                FileSystem files = path.getFileSystem(task.getConfiguration());
                files.delete(path, false);
            } catch (IOException error) {
                continue; // what is left behind is VACUUM's
            }
        }
    }

    public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
        ended.append((String) message.obj());
    }

    public void commitJob(JobContext job, scala.collection.immutable.Seq messages) {
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < messages.size(); at++) {
            found.append((String) ((FileCommitProtocol.TaskCommitMessage) messages.apply(at)).obj());
        }
        counted = found.toString();
    }

    public void abortJob(JobContext job) {}
}
