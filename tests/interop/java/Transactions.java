import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Transactions of the producer and consumer of any Kafka since 0.11, compiled against its libraries: a step a line of
 * output, and exit code 1 with what was wrong.
 *
 * Arguments: bootstrap servers, a topic of one partition for the output, one for the input, a prefix for ids. Both
 * topics are empty.
 */
public final class Transactions {
    private static final int SECONDS = 60;
    private final String bootstrap;
    private final TopicPartition output;
    private final TopicPartition input;
    private final String prefix;

    private Transactions(String[] args) {
        bootstrap = args[0];
        output = new TopicPartition(args[1], 0);
        input = new TopicPartition(args[2], 0);
        prefix = args[3];
    }

    public static void main(String[] args) throws Exception {
        Transactions all = new Transactions(args);
        all.commitAndAbort();
        all.fencing();
        all.openIsNotRead();
        all.offsets();
        System.out.println("done");
    }

    private void commitAndAbort() throws Exception {
        try (KafkaProducer<String, String> producer = producer("ends")) {
            producer.initTransactions();
            for (String value : Arrays.asList("one", "never", "two")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(output.topic(), 0, "k", value)).get();
                if (value.equals("never")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        check("commit and abort", Arrays.asList("one", "two"), read("read_committed", output, 2));
        check("uncommitted", Arrays.asList("one", "never", "two"), read("read_uncommitted", output, 3));
    }

    private void fencing() throws Exception {
        try (KafkaProducer<String, String> first = producer("fenced");
             KafkaProducer<String, String> second = producer("fenced")) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(output.topic(), 0, "k", "of the fenced")).get();
            second.initTransactions();
            String error = "none";
            try {
                first.send(new ProducerRecord<>(output.topic(), 0, "k", "late"));
                first.commitTransaction();
            } catch (KafkaException fenced) {
                error = fenced.getClass().getSimpleName();
            }
            boolean isFenced = error.equals("ProducerFencedException") || error.equals("InvalidProducerEpochException");
            check("fenced by " + error, true, isFenced);
            second.beginTransaction();
            second.send(new ProducerRecord<>(output.topic(), 0, "k", "three")).get();
            second.commitTransaction();
        }
        check("after fencing", Arrays.asList("one", "two", "three"), read("read_committed", output, 3));
    }

    private void openIsNotRead() throws Exception {
        try (KafkaProducer<String, String> producer = producer("open");
             KafkaProducer<String, String> plain = producer(null)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(output.topic(), 0, "k", "four")).get();
            plain.send(new ProducerRecord<>(output.topic(), 0, "k", "five")).get();
            check("an open transaction", Arrays.asList("one", "two", "three"), read("read_committed", output, 3));
            producer.commitTransaction();
        }
        List<String> all = Arrays.asList("one", "two", "three", "four", "five");
        check("after its end", all, read("read_committed", output, 5));
    }

    private void offsets() throws Exception {
        try (KafkaProducer<String, String> plain = producer(null)) {
            for (int i = 0; i < 6; i++) {
                plain.send(new ProducerRecord<>(input.topic(), 0, "k", "input " + i)).get();
            }
        }
        try (KafkaProducer<String, String> producer = producer("copier");
             KafkaConsumer<String, String> consumer = consumer("read_committed")) {
            consumer.subscribe(Collections.singletonList(input.topic()));
            List<String> values = new ArrayList<>();
            long end = poll(consumer, values, 6);
            producer.initTransactions();
            copy(producer, consumer, 3, false);
            check("offsets of an abort", null, committed(consumer));
            copy(producer, consumer, end, true);
            OffsetAndMetadata found = committed(consumer);
            // Before KIP-447 (2.5) a consumer is not told to wait until the markers of the commit are written.
            boolean isTold = method(KafkaConsumer.class, "groupMetadata") != null;
            for (int i = 0; !isTold && i < SECONDS * 10 && (found == null || found.offset() != end); i++) {
                Thread.sleep(100);
                found = committed(consumer);
            }
            check("offsets of a commit", new OffsetAndMetadata(end), found);
        }
        List<String> all = Arrays.asList("one", "two", "three", "four", "five", "copied up to 6");
        check("what was copied", all, read("read_committed", output, 6));
    }

    private void copy(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, long end,
                      boolean isCommit) throws Exception {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(output.topic(), 0, "k", "copied up to " + end)).get();
        sendOffsets(producer, consumer, Collections.singletonMap(input, new OffsetAndMetadata(end)));
        if (isCommit) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    /** By the consumer's metadata (KIP-447, since 2.5), or by the group's name. */
    private void sendOffsets(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer,
                             Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        Method metadata = method(KafkaConsumer.class, "groupMetadata");
        for (Method method : KafkaProducer.class.getMethods()) {
            if (method.getName().equals("sendOffsetsToTransaction")) {
                boolean isByName = method.getParameterTypes()[1] == String.class;
                if (isByName && metadata == null) {
                    method.invoke(producer, offsets, prefix + "-group");
                    return;
                }
                if (!isByName && metadata != null) {
                    method.invoke(producer, offsets, metadata.invoke(consumer));
                    return;
                }
            }
        }
        throw new IllegalStateException("no sendOffsetsToTransaction");
    }

    /** One partition's by `committed(Set)`, which is all there is since 4.0, or by `committed(TopicPartition)`. */
    private OffsetAndMetadata committed(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            Object found = KafkaConsumer.class.getMethod("committed", Set.class)
                .invoke(consumer, Collections.singleton(input));
            return (OffsetAndMetadata) ((Map<?, ?>) found).get(input);
        } catch (NoSuchMethodException old) {
            return (OffsetAndMetadata) KafkaConsumer.class.getMethod("committed", TopicPartition.class)
                .invoke(consumer, input);
        }
    }

    private static Method method(Class<?> type, String name) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name)) {
                return method;
            }
        }
        return null;
    }

    /** The first `count` values, and whatever comes within a second after them. */
    private List<String> read(String isolation, TopicPartition from, int count) throws Exception {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(isolation)) {
            consumer.assign(Collections.singletonList(from));
            consumer.seekToBeginning(Collections.singletonList(from));
            poll(consumer, values, count);
            long end = System.currentTimeMillis() + 1000;
            while (System.currentTimeMillis() < end) {
                poll(consumer, values, 0);
            }
        }
        return values;
    }

    /** Until there are `count` values; returns the offset after the last. Once at least. */
    private static long poll(KafkaConsumer<String, String> consumer, List<String> values, int count) throws Exception {
        long end = 0;
        long deadline = System.currentTimeMillis() + SECONDS * 1000L;
        do {
            for (ConsumerRecord<String, String> record : pollOnce(consumer)) {
                values.add(record.value());
                end = record.offset() + 1;
            }
        } while (values.size() < count && System.currentTimeMillis() < deadline);
        return end;
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> pollOnce(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            Class<?> duration = Class.forName("java.time.Duration");
            Method method = KafkaConsumer.class.getMethod("poll", duration);
            Object wait = duration.getMethod("ofMillis", long.class).invoke(null, 200L);
            return (ConsumerRecords<String, String>) method.invoke(consumer, wait);
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class)
                .invoke(consumer, 200L);
        }
    }

    private KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = common("Serializer");
        settings.put("acks", "all");
        settings.put("retries", "100");
        settings.put("linger.ms", "0");
        if (transactionalId != null) {
            settings.put("transactional.id", prefix + "-" + transactionalId);
        }
        return new KafkaProducer<>(settings);
    }

    private KafkaConsumer<String, String> consumer(String isolation) {
        Properties settings = common("Deserializer");
        settings.put("group.id", prefix + "-group");
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings);
    }

    private Properties common(String kind) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (String what : Arrays.asList("key.", "value.")) {
            String name = "org.apache.kafka.common.serialization.String" + kind;
            settings.put(what + kind.toLowerCase(), name);
        }
        return settings;
    }

    private static void check(String step, Object wanted, Object found) {
        if (wanted == null ? found != null : !wanted.equals(found)) {
            System.out.println(step + ": wanted " + wanted + ", found " + found);
            System.exit(1);
        }
        System.out.println(step + ": ok");
    }
}
