// Apache Kafka's log under the work of `bench.log_path`: a command a line (see `kafkas.py`), a line of figures for each.

import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import org.apache.kafka.common.network.TransferableChannel;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class LogPath {
    static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);
    static final RequestLocal LOCAL = new RequestLocal(BufferSupplier.create());
    static final int READ_BYTES = 1 << 20;
    static final int APPENDS_AT_ONCE = 16; // between two looks at the clock, as in `peers.py`
    static final int READS_AT_ONCE = 64;
    static final int MAP_BYTES = 128 << 20; // log.cleaner.dedupe.buffer.size
    static final int IO_BYTES = 256 << 10; // log.cleaner.io.buffer.size, for reading and writing half each

    static UnifiedLog log;
    static ByteBuffer batch;

    public static void main(String[] arguments) {
        try {
            serve();
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
    }

    static void serve() throws Exception {
        SCHEDULER.startup();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println("= " + obey(words));
            System.out.flush();
        }
        SCHEDULER.shutdown();
    }

    static String obey(String[] words) throws Exception {
        return switch (words[0]) {
            case "begin" -> begin(words[1], Path.of(words[2]));
            case "append" -> append(Double.parseDouble(words[1]), Long.parseLong(words[2]));
            case "look_up" -> lookUp(Double.parseDouble(words[1]), Long.parseLong(words[2]));
            case "send" -> send(Double.parseDouble(words[1]), Integer.parseInt(words[2]));
            case "end" -> end();
            case "recover" -> recover(words[1]);
            case "compact" -> compact(words[1]);
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    static UnifiedLog open(String directory, boolean clean, Map<String, ?> more) throws Exception {
        Map<String, Object> settings = new java.util.HashMap<>(Map.of(
            "segment.bytes", 1 << 30, "message.timestamp.after.max.ms", Long.MAX_VALUE, "retention.ms", -1));
        settings.putAll(more);
        return UnifiedLog.create(new File(directory), new LogConfig(settings), 0L, 0L, SCHEDULER, new BrokerTopicStats(),
            Time.SYSTEM, 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            clean, Optional.empty());
    }

    static String begin(String directory, Path file) throws Exception {
        log = open(directory, true, Map.of());
        batch = ByteBuffer.wrap(Files.readAllBytes(file));
        return "";
    }

    static String end() throws Exception {
        log.close();
        return "";
    }

    /** Empties the log and appends for so many CPU seconds: seconds, CPU seconds (of all threads), bytes. */
    static String append(double cpuSeconds, long bytesMax) throws Exception {
        log.truncateFullyAndStartAt(0, Optional.empty());
        Usage usage = new Usage();
        long total = 0;
        while (usage.cpuSeconds() < cpuSeconds && total < bytesMax) {
            for (int i = 0; i < APPENDS_AT_ONCE; i++) {
                batch.putLong(0, 0L);
                log.appendAsLeader(MemoryRecords.readableRecords(batch.duplicate()), 0, AppendOrigin.CLIENT, LOCAL,
                    VerificationGuard.SENTINEL, (short) 0);
                total += batch.limit();
            }
        }
        return usage + " " + total;
    }

    /** Finds the slice of a read all over the log: seconds, CPU seconds, reads. */
    static String lookUp(double cpuSeconds, long step) throws Exception {
        long offsets = log.logEndOffset();
        Usage usage = new Usage();
        long count = 0;
        for (long at = 0; usage.cpuSeconds() < cpuSeconds;) {
            for (int i = 0; i < READS_AT_ONCE; i++, count++) {
                log.read(at, READ_BYTES, FetchIsolation.LOG_END, true);
                at = (at + step) % offsets;
            }
        }
        return usage + " " + count;
    }

    /** Reads the log from its start, again and again, into a socket: seconds, CPU seconds, bytes. */
    static String send(double cpuSeconds, int port) throws Exception {
        try (Connection connection = new Connection(port)) {
            long records = batch.getInt(23) + 1;
            Usage usage = new Usage();
            long total = 0;
            for (long at = 0; usage.cpuSeconds() < cpuSeconds;) {
                FileRecords slice = (FileRecords) log.read(at, READ_BYTES, FetchIsolation.LOG_END, true).records;
                int size = slice.sizeInBytes();
                for (int sent = 0; sent < size;) {
                    sent += slice.writeTo(connection, sent, size - sent);
                }
                total += size;
                at += records * (size / batch.limit()); // a consumer goes on behind the last whole batch
                at = at < log.logEndOffset() ? at : 0;
            }
            return usage + " " + total;
        }
    }

    /** Opens a log as after a crash: seconds, CPU seconds, bytes. */
    static String recover(String directory) throws Exception {
        Usage usage = new Usage();
        UnifiedLog opened = open(directory, false, Map.of());
        String line = usage + " " + opened.size();
        opened.close();
        return line;
    }

    /** One round of the cleaner over all sealed segments: seconds, CPU seconds, bytes, MiB of its map and buffers, bytes left. */
    static String compact(String directory) throws Exception {
        UnifiedLog opened = open(directory, true, Map.of("cleanup.policy", "compact", "segment.bytes", 64 << 20));
        opened.updateHighWatermark(opened.logEndOffset());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(MAP_BYTES), IO_BYTES, 2 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        long size = opened.size();
        Usage usage = new Usage();
        cleaner.clean(new LogToClean(opened, 0, opened.activeSegment().baseOffset(), false));
        String line = usage + " " + size + " " + (MAP_BYTES + 2 * IO_BYTES) / 1048576.0 + " " + opened.size();
        opened.close();
        return line;
    }

    /** What was used since it was made. */
    static class Usage {
        final long cpu = PROCESS.getProcessCpuTime();
        final long begin = System.nanoTime();

        double cpuSeconds() {
            return (PROCESS.getProcessCpuTime() - cpu) / 1e9;
        }

        @Override
        public String toString() {
            return (System.nanoTime() - begin) / 1e9 + " " + cpuSeconds();
        }
    }

    /** A socket as Kafka's network layer has it, without TLS. */
    static class Connection implements TransferableChannel {
        final SocketChannel socket;

        Connection(int port) throws IOException {
            socket = SocketChannel.open(new InetSocketAddress("127.0.0.1", port));
        }

        public boolean hasPendingWrites() {
            return false;
        }

        public long transferFrom(FileChannel file, long position, long count) throws IOException {
            return file.transferTo(position, count, socket);
        }

        public int write(ByteBuffer data) throws IOException {
            return socket.write(data);
        }

        public long write(ByteBuffer[] data) throws IOException {
            return socket.write(data);
        }

        public long write(ByteBuffer[] data, int offset, int length) throws IOException {
            return socket.write(data, offset, length);
        }

        public boolean isOpen() {
            return socket.isOpen();
        }

        public void close() throws IOException {
            socket.close();
        }
    }
}
