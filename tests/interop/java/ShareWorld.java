import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The topic, the group and the clients of one case; all clients are closed at its end. */
final class ShareWorld implements AutoCloseable {
    static final int SECONDS = 90;
    static final Duration SHORT = Duration.ofMillis(1500);
    static final String[] EXPLICIT = {"share.acknowledgement.mode", "explicit"};
    static final String[] LIMITED = {"share.acquire.mode", "record_limit", "share.acknowledgement.mode", "explicit"};
    final String bootstrap;
    final String topic;
    final String group;
    final TopicPartition partition;
    final Admin admin;
    private final List<AutoCloseable> open = new ArrayList<>();

    ShareWorld(String bootstrap, String name) throws Exception {
        this.bootstrap = bootstrap;
        String unique = name + "-" + Long.toHexString(System.nanoTime());
        topic = "t-" + unique;
        group = "g-" + unique;
        partition = new TopicPartition(topic, 0);
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        create(topic, 1, 1);
        configure(group, "share.auto.offset.reset", "earliest");
    }

    Uuid create(String name, int partitions, int copies, String... configs) throws Exception {
        NewTopic created = new NewTopic(name, partitions, (short) copies).configs(map(configs));
        return admin.createTopics(List.of(created)).topicId(name).get();
    }

    void configure(String group, String... configs) throws Exception {
        alter(ConfigResource.Type.GROUP, group, configs);
    }

    void alter(ConfigResource.Type kind, String name, String... configs) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        map(configs).forEach((key, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(kind, name), changes)).all().get();
    }

    KafkaProducer<String, String> producer(String... configs) {
        Map<String, Object> settings = new HashMap<>(map(configs));
        settings.put("bootstrap.servers", bootstrap);
        settings.putIfAbsent("linger.ms", "500"); // What is sent together is one batch.
        settings.putIfAbsent("key.serializer", StringSerializer.class);
        settings.putIfAbsent("value.serializer", StringSerializer.class);
        KafkaProducer<String, String> made = new KafkaProducer<>(settings);
        open.add(() -> made.close(Duration.ofSeconds(5)));
        return made;
    }

    /** Sends these values to partition 0 in one batch; returns their offsets. */
    List<Long> produce(String... values) throws Exception {
        try (KafkaProducer<String, String> sender = producer()) {
            return send(sender, topic, values);
        }
    }

    List<Long> send(KafkaProducer<String, String> sender, String to, String... values) throws Exception {
        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(sender.send(new ProducerRecord<>(to, 0, "k-" + value, value)));
        }
        sender.flush();
        List<Long> offsets = new ArrayList<>();
        for (java.util.concurrent.Future<RecordMetadata> one : sent) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    static String[] numbered(int count) {
        String[] values = new String[count];
        Arrays.setAll(values, number -> "v" + number);
        return values;
    }

    /** A member of the case's group, which has subscribed to its topic. */
    ShareConsumer<String, String> member(String... configs) {
        ShareConsumer<String, String> made = memberOf(group, configs);
        made.subscribe(Set.of(topic));
        return made;
    }

    ShareConsumer<String, String> memberOf(String group, String... configs) {
        return memberWith(group, new StringDeserializer(), configs);
    }

    <V> ShareConsumer<String, V> memberWith(String group, Deserializer<V> values, String... configs) {
        Map<String, Object> settings = new HashMap<>(map(configs));
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        ShareConsumer<String, V> made = new KafkaShareConsumer<>(settings, new StringDeserializer(), values);
        open.add(() -> close(made));
        return made;
    }

    private static void close(ShareConsumer<?, ?> consumer) {
        try {
            consumer.close(Duration.ofSeconds(5));
        } catch (KafkaException | IllegalStateException error) {
            // An error on closing is not the outcome of the case.
        }
    }

    /** Polls until there are records; returns those of that poll. */
    static <V> List<ConsumerRecord<String, V>> poll(ShareConsumer<String, V> consumer) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (System.nanoTime() < deadline) {
            ConsumerRecords<String, V> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                List<ConsumerRecord<String, V>> found = new ArrayList<>();
                records.forEach(found::add);
                return found;
            }
        }
        throw new AssertionError("no records");
    }

    /** Polls until there were this many records in all, each poll acknowledging those before; returns the values. */
    static List<String> read(ShareConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            poll(consumer).forEach(record -> values.add(record.value()));
        }
        return values;
    }

    /** How many records one short poll finds, which should be none. */
    static int further(ShareConsumer<String, String> consumer) {
        return consumer.poll(SHORT).count();
    }

    static String values(Collection<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).collect(Collectors.joining(" "));
    }

    /** Returns "VALUE*DELIVERIES" of each record. */
    static String counted(Collection<ConsumerRecord<String, String>> records) {
        return records.stream().map(record -> record.value() + "*" + record.deliveryCount().get())
            .collect(Collectors.joining(" "));
    }

    /** Returns the results of a commit by topic and partition: ok, or the name of an error. */
    static String results(Map<TopicIdPartition, Optional<KafkaException>> found) {
        Map<Integer, String> told = new TreeMap<>();
        found.forEach((where, error) -> told.put(where.partition(), error.map(ShareWorld::name).orElse("ok")));
        return told.toString();
    }

    static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    /** Returns the name of the error that this ends with, without wrappers; "ok" if with none. */
    static String error(Callable<?> action) {
        try {
            action.call();
            return "ok";
        } catch (ExecutionException wrapped) {
            return name(wrapped.getCause());
        } catch (Exception error) {
            return name(error);
        }
    }

    static String error(Runnable action) {
        return error(() -> {
            action.run();
            return null;
        });
    }

    static String told(KafkaFuture<?> future) {
        return error(() -> future.get());
    }

    static void until(String what, Callable<Boolean> isDone) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (!isDone.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("never: " + what);
            }
            Thread.sleep(50);
        }
    }

    static Map<String, String> map(String... pairs) {
        Map<String, String> found = new HashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            found.put(pairs[index], pairs[index + 1]);
        }
        return found;
    }

    static String[] and(String[] first, String... second) {
        String[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable one : open) {
            one.close();
        }
        admin.close(Duration.ofSeconds(5));
    }
}
