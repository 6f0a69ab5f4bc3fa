// Share groups of Kafka's own client. Each line is a turn:
//   "records GROUP TOPIC MEMBERS RECORDS": answered by the nanoseconds from the first record to the last
//   "commits GROUP TOPIC SECONDS": one member with explicit acknowledgement, answered by the nanoseconds of each commit

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Shares {
    private static final Duration POLL = Duration.ofMillis(100);

    public static void main(String[] arguments) throws Exception {
        Scanner turns = new Scanner(System.in);
        while (turns.hasNext()) {
            String kind = turns.next();
            String group = turns.next();
            fromTheBeginning(arguments[0], group);
            List<Long> took = kind.equals("records")
                ? records(arguments[0], group, turns.next(), turns.nextInt(), turns.nextLong())
                : commits(arguments[0], group, turns.next(), turns.nextInt());
            System.out.println(took.stream().map(String::valueOf).collect(Collectors.joining(" ")));
        }
    }

    private static void fromTheBeginning(String bootstrap, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            AlterConfigOp set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> member(String bootstrap, String group, String mode) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "share.acknowledgement.mode", mode);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaShareConsumer<>(settings, bytes, bytes);
    }

    private static List<Long> records(String bootstrap, String group, String topic, int members, long records)
            throws InterruptedException {
        AtomicLong left = new AtomicLong(records);
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < members; number++) {
            threads.add(new Thread(() -> {
                try (KafkaShareConsumer<byte[], byte[]> consumer = member(bootstrap, group, "implicit")) {
                    consumer.subscribe(List.of(topic));
                    while (left.get() > 0) {
                        int count = consumer.poll(POLL).count();
                        if (count > 0) {
                            first.compareAndSet(0, System.nanoTime());
                            if (left.addAndGet(-count) <= 0) {
                                last.compareAndSet(0, System.nanoTime());
                            }
                        }
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return List.of(last.get() - first.get());
    }

    private static List<Long> commits(String bootstrap, String group, String topic, int seconds) {
        List<Long> took = new ArrayList<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(bootstrap, group, "explicit")) {
            consumer.subscribe(List.of(topic));
            long end = Long.MAX_VALUE;
            while (System.nanoTime() < end) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                if (polled.isEmpty()) {
                    continue;
                }
                end = Math.min(end, System.nanoTime() + seconds * 1_000_000_000L);
                polled.forEach(consumer::acknowledge);
                long began = System.nanoTime();
                consumer.commitSync().values().forEach(failure -> failure.ifPresent(each -> {
                    throw each;
                }));
                took.add(System.nanoTime() - began);
            }
        }
        return took;
    }
}
