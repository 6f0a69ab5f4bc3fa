// Transactions of Kafka's own producer: a line "TOPIC RECORDS SECONDS" is a turn, and answered by the nanoseconds of
// each commit.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Commits {
    public static void main(String[] arguments) {
        byte[] value = new byte[Integer.parseInt(arguments[1])];
        Scanner turns = new Scanner(System.in);
        while (turns.hasNext()) {
            List<Long> took = turn(arguments[0], turns.next(), turns.nextInt(), turns.nextInt(), value);
            System.out.println(took.stream().map(String::valueOf).collect(Collectors.joining(" ")));
        }
    }

    private static List<Long> turn(String bootstrap, String topic, int records, int seconds, byte[] value) {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", bootstrap, "transactional.id", topic, "linger.ms", 0);
        ByteArraySerializer bytes = new ByteArraySerializer();
        List<Long> took = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            while (System.nanoTime() < end) {
                producer.beginTransaction();
                for (int number = 0; number < records; number++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, value));
                }
                long began = System.nanoTime();
                producer.commitTransaction();
                took.add(System.nanoTime() - began);
            }
        }
        return took;
    }
}
