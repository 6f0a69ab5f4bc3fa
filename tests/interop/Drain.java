import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints the records that Kafka's own consumer gets from all topics that are not internal, up to the end for the
 * isolation level: `Drain BOOTSTRAP LEVEL`. Each line is a record, with fields separated by tabs: topic, partition, offset,
 * timestamp, its type, key, value, headers. Bytes are in base64, `-` is null; a header is `key=value`.
 */
public final class Drain {
    private static final Duration WAIT = Duration.ofMillis(200);

    public static void main(String[] words) {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", words[0], "isolation.level", words[1], "enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            List<TopicPartition> all = new ArrayList<>();
            for (List<PartitionInfo> topic : consumer.listTopics().values())
                for (PartitionInfo one : topic)
                    if (!one.topic().startsWith("__")) all.add(new TopicPartition(one.topic(), one.partition()));
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Set<TopicPartition> open = new HashSet<>(all);
            while (!open.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(WAIT)) System.out.println(line(record));
                open.removeIf(one -> consumer.position(one) >= ends.get(one));
            }
        }
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) headers.add(header.key() + "=" + text(header.value()));
        return String.join("\t", record.topic(), Integer.toString(record.partition()), Long.toString(record.offset()),
            Long.toString(record.timestamp()), Integer.toString(record.timestampType().id),
            text(record.key()), text(record.value()), String.join(",", headers));
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
