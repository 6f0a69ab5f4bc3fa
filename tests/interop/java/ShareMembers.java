import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Two members of the share group `sharers` that read the topic `source` from its start: nine of ten records are
 * accepted, the others released. After a failure a new member continues. Each event of a record is a line of
 * output, with the record's value: `delivered`, then `accepted` or `released` with the result that the broker gave,
 * `ok` or the name of an exception.
 *
 * Argument: bootstrap servers. Ends when its standard input does.
 */
public final class ShareMembers {
    private static final double RELEASED_SHARE = 0.1;
    private static final String GROUP = "sharers";
    private final String bootstrap;
    private volatile boolean isStopped;

    private ShareMembers(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        ShareMembers all = new ShareMembers(args[0]);
        all.startEarliest();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            Thread thread = new Thread(all::consume);
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) {
            continue;
        }
        all.isStopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("end");
    }

    private void startEarliest() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(settings)) {
            ConfigEntry entry = new ConfigEntry("share.auto.offset.reset", "earliest");
            admin.incrementalAlterConfigs(Map.of(
                new ConfigResource(ConfigResource.Type.GROUP, GROUP),
                List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private void consume() {
        Random random = new Random();
        while (!isStopped) {
            Map<String, String[]> open = new HashMap<>();
            try (KafkaShareConsumer<String, String> consumer = consumer()) {
                consumer.setAcknowledgementCommitCallback((offsets, error) -> told(open, offsets, error));
                consumer.subscribe(List.of("source"));
                while (!isStopped) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        boolean isReleased = random.nextDouble() < RELEASED_SHARE;
                        tell("delivered", record.value(), "" + record.deliveryCount().orElse((short) 0));
                        open.put(place(record.topic(), record.partition(), record.offset()),
                            new String[] {isReleased ? "released" : "accepted", record.value()});
                        consumer.acknowledge(record, isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    }
                }
            } catch (KafkaException | IllegalStateException error) {
                System.out.println("anew " + error);
            }
        }
    }

    private static void told(Map<String, String[]> open, Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        String result = error == null ? "ok" : error.getClass().getSimpleName();
        offsets.forEach((partition, all) -> {
            for (long offset : all) {
                String[] event = open.remove(place(partition.topic(), partition.partition(), offset));
                tell(event[0], event[1], result);
            }
        });
    }

    private static String place(String topic, int partition, long offset) {
        return topic + " " + partition + " " + offset;
    }

    private static void tell(String event, String value, String more) {
        System.out.println(event + " " + value + " " + more);
    }

    private KafkaShareConsumer<String, String> consumer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", GROUP);
        settings.put("share.acknowledgement.mode", "explicit");
        for (String what : List.of("key.", "value.")) {
            settings.put(what + "deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        return new KafkaShareConsumer<>(settings);
    }
}
