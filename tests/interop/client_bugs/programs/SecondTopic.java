// A producer fails to write to one topic, and then writes to another. Prints the outcome of the second.
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class SecondTopic {
    static String write(KafkaProducer<String, String> producer, String topic) throws Exception {
        try {
            return "written at " + producer.send(new ProducerRecord<>(topic, "v")).get().offset();
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("max.block.ms", "5000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (write(producer, "secret").startsWith("written")) throw new IllegalStateException();
            System.out.println(write(producer, words[1]));
        }
    }
}
