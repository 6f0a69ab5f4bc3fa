import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Members of groups that copy the topic `source` in transactions, two of each protocol: to `copy-classic` and to
 * `copy-consumer`. Every tenth transaction is aborted, its values marked. After a failure a member begins again with new clients.
 *
 * Argument: bootstrap servers. Ends when its standard input does, with a line of counts.
 */
public final class Copiers {
    private static final double ABORT_SHARE = 0.1;
    private final String bootstrap;
    private final AtomicInteger commits = new AtomicInteger();
    private final AtomicInteger aborts = new AtomicInteger();
    private final AtomicInteger anew = new AtomicInteger();
    private volatile boolean isStopped;

    private Copiers(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        Copiers copiers = new Copiers(args[0]);
        List<Thread> threads = new ArrayList<>();
        for (String protocol : List.of("classic", "consumer")) {
            for (int number = 0; number < 2; number++) {
                String id = protocol + "-" + number;
                Thread thread = new Thread(() -> copiers.copy(protocol, id));
                thread.start();
                threads.add(thread);
            }
        }
        while (System.in.read() >= 0) {
            continue;
        }
        copiers.isStopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(copiers.commits + " commits, " + copiers.aborts + " aborts, " + copiers.anew + " anew");
    }

    private void copy(String protocol, String id) {
        while (!isStopped) {
            try (KafkaConsumer<String, String> consumer = consumer(protocol);
                 KafkaProducer<String, String> producer = producer(id)) {
                producer.initTransactions();
                consumer.subscribe(List.of("source"));
                Random random = new Random();
                while (!isStopped) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                    if (!records.isEmpty()) {
                        transaction(consumer, producer, records, protocol, random.nextDouble() < ABORT_SHARE);
                    }
                }
            } catch (KafkaException error) {
                anew.incrementAndGet();
                System.out.println(System.currentTimeMillis() + " " + id + " anew: " + error);
            }
        }
    }

    private void transaction(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
                             ConsumerRecords<String, String> records, String protocol, boolean isAbort) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : records) {
            String value = isAbort ? "aborted:" + record.value() : record.value();
            producer.send(new ProducerRecord<>("copy-" + protocol, record.partition(), null, value));
            ends.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
        if (!isAbort) {
            producer.commitTransaction();
            commits.incrementAndGet();
            return;
        }
        producer.abortTransaction();
        aborts.incrementAndGet();
        for (TopicPartition partition : records.partitions()) {
            consumer.seek(partition, records.records(partition).get(0).offset());
        }
    }

    private KafkaConsumer<String, String> consumer(String protocol) {
        Properties settings = common("Deserializer");
        settings.put("group.id", "copiers-" + protocol);
        settings.put("group.protocol", protocol);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "10000");
        }
        return new KafkaConsumer<>(settings);
    }

    private KafkaProducer<String, String> producer(String id) {
        Properties settings = common("Serializer");
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", "15000");
        return new KafkaProducer<>(settings);
    }

    private Properties common(String kind) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (String what : List.of("key.", "value.")) {
            String name = "org.apache.kafka.common.serialization.String" + kind;
            settings.put(what + kind.toLowerCase(), name);
        }
        return settings;
    }
}
