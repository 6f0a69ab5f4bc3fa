// An application of Kafka Streams whose group has the protocol of KIP-1071. A line "APPLICATION TOPIC THREADS TASKS" is
// one measurement: the response is the time in nanoseconds from its start until that many tasks are active.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

public class Tasks {
    public static void main(String[] arguments) throws Exception {
        Scanner turns = new Scanner(System.in);
        while (turns.hasNext()) {
            System.out.println(turn(arguments[0], turns.next(), turns.next(), turns.nextInt(), turns.nextInt()));
        }
    }

    private static long turn(String bootstrap, String application, String topic, int threads, int tasks)
            throws Exception {
        Path state = Files.createTempDirectory("tasks");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", application);
        settings.put("group.protocol", "streams");
        settings.put("num.stream.threads", threads);
        settings.put("state.dir", state.toString());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).foreach((key, value) -> { });
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            long began = System.nanoTime();
            streams.start();
            while (active(streams) < tasks || streams.state() != KafkaStreams.State.RUNNING) {
                Thread.sleep(5);
            }
            return System.nanoTime() - began;
        }
    }

    private static int active(KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }
}
