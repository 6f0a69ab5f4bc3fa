// An idempotent producer writes a record. Prints where, or that it has failed.
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

public class Idempotent {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("enable.idempotence", "true");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            var record = new ProducerRecord<String, String>(words[1], "v");
            System.out.println("written at " + producer.send(record).get().offset());
        } catch (KafkaException | ExecutionException error) {
            System.out.println("failed");
        }
    }
}
