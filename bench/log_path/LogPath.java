// Apache Kafka's log under the work of `bench.log_path`: appends a batch again and again, reads slices, recovers. Prints a line a command.

import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class LogPath {
    static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);

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
            switch (words[0]) {
                case "append" -> append(words[1], Path.of(words[2]), Double.parseDouble(words[3]));
                case "recover" -> recover(words[1]);
                default -> throw new IllegalArgumentException(words[0]);
            }
            System.out.flush();
        }
        SCHEDULER.shutdown();
    }

    static UnifiedLog open(String directory, boolean clean) throws Exception {
        LogConfig config = new LogConfig(Map.of(
            "segment.bytes", 1 << 30, "message.timestamp.after.max.ms", Long.MAX_VALUE, "retention.ms", -1));
        return UnifiedLog.create(new File(directory), config, 0L, 0L, SCHEDULER, new BrokerTopicStats(), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), clean,
            Optional.empty());
    }

    /** Appends for twice the time to warm up, then measures: seconds, CPU seconds (of the process), bytes; then µs a read. */
    static void append(String directory, Path batch, double seconds) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(batch));
        UnifiedLog log = open(directory, true);
        RequestLocal local = new RequestLocal(BufferSupplier.create());
        run(log, data, local, 2 * seconds);
        log.truncateFullyAndStartAt(0, Optional.empty());
        long cpu = PROCESS.getProcessCpuTime();
        long begin = System.nanoTime();
        long appended = run(log, data, local, seconds);
        double took = (System.nanoTime() - begin) / 1e9;
        double used = (PROCESS.getProcessCpuTime() - cpu) / 1e9;
        double readUs = read(log, seconds / 2);
        log.close();
        System.out.println(took + " " + used + " " + appended * data.limit() + " " + readUs);
    }

    static long run(UnifiedLog log, ByteBuffer data, RequestLocal local, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (1e9 * seconds);
        long count = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 50; i++, count++) {
                data.putLong(0, 0L);
                log.appendAsLeader(MemoryRecords.readableRecords(data.duplicate()), 0, AppendOrigin.CLIENT, local,
                    VerificationGuard.SENTINEL, (short) 0);
            }
        }
        return count;
    }

    static double read(UnifiedLog log, double seconds) throws Exception {
        long offsets = log.logEndOffset();
        long count = 0;
        long cpu = PROCESS.getProcessCpuTime();
        long end = System.nanoTime() + (long) (1e9 * seconds);
        for (long at = 0; System.nanoTime() < end; count++) {
            log.read(at, 1 << 20, FetchIsolation.LOG_END, true);
            at = (at + 104_729) % offsets;
        }
        return (PROCESS.getProcessCpuTime() - cpu) / 1e3 / count;
    }

    static void recover(String directory) throws Exception {
        long cpu = PROCESS.getProcessCpuTime();
        long begin = System.nanoTime();
        UnifiedLog log = open(directory, false);
        double took = (System.nanoTime() - begin) / 1e9;
        double used = (PROCESS.getProcessCpuTime() - cpu) / 1e9;
        long size = log.size();
        log.close();
        System.out.println(took + " " + used + " " + size);
    }
}
