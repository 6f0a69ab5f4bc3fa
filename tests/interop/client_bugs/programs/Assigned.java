// A consumer with an assigned partition commits twelve times. Prints the outcome of the last commit.
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Assigned {
    static String outcome;

    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        settings.put("enable.auto.commit", "false");
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            var partition = new TopicPartition(words[1], 0);
            consumer.assign(List.of(partition));
            for (int i = 1; i <= 12; i++) {
                outcome = null;
                consumer.commitAsync(Map.of(partition, new OffsetAndMetadata(i)),
                        (offsets, error) -> outcome = error == null ? "committed" : "failed");
                while (outcome == null) consumer.poll(Duration.ofMillis(100));
            }
            System.out.println(outcome);
        }
    }
}
