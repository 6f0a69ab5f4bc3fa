import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * A small HDFS of Hadoop's own: `Hdfs FOLDER DIRECTORY TARGET` puts the directory there at the target, prints the
 * address, and runs until its input ends.
 */
public final class Hdfs {
    private static final int BLOCK_BYTES = 4096; // files have many blocks, so reads go over their borders

    public static void main(String[] words) throws Exception {
        var settings = new Configuration();
        settings.setLong("dfs.blocksize", BLOCK_BYTES);
        settings.setLong("dfs.namenode.fs-limits.min-block-size", BLOCK_BYTES);
        settings.setLong("dfs.bytes-per-checksum", 512);
        try (var cluster = new MiniDFSCluster.Builder(settings, new File(words[0])).numDataNodes(2).build()) {
            cluster.waitActive();
            FileSystem files = cluster.getFileSystem();
            files.copyFromLocalFile(new Path(words[1]), new Path(words[2]));
            System.out.println(cluster.getURI());
            while (System.in.read() >= 0) continue;
        }
    }
}
