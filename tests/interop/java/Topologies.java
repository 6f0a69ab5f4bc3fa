import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application with exactly-once v2 on the topic `lines`: a count of words (repartitioned, to `counts`),
 * and a running number of words of each key (a state store of its own, to `sums`).
 *
 * Arguments: bootstrap servers, application id, state directory, group protocol, and perhaps an instance id (static
 * members) and the number of copies of internal topics. Each change of state is a line of output. Ends by SIGTERM, or
 * with exit code 1 by the first error that Streams does not get over.
 */
public final class Topologies {

    public static void main(String[] args) throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(build().build(), settings(args));
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("error " + error);
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                System.out.println("cause " + cause);
            }
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.currentThread().join();
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, args[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, args.length > 5 ? Integer.parseInt(args[5]) : 3);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 300);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // Streams takes ten seconds, and ends for good when a transaction has timed out: a busy machine needs longer.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 30_000);
        if (args[3].equals("classic")) {
            settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 10_000);
        }
        if (args.length > 4) {
            settings.put(StreamsConfig.CLIENT_ID_CONFIG, args[4]);
            settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), args[4]);
        }
        return settings;
    }

    private static StreamsBuilder build() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("words"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("running"), Serdes.String(), Serdes.String()));
        lines.process(Running::new, "running").to("sums", Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    /** For each line "LINES WORDS": how many of its key there were so far. */
    private static final class Running implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            this.store = context.getStateStore("running");
        }

        @Override
        public void process(Record<String, String> line) {
            String known = store.get(line.key());
            String[] before = (known == null ? "0 0" : known).split(" ");
            long lines = Long.parseLong(before[0]) + 1;
            long words = Long.parseLong(before[1]) + line.value().split(" ").length;
            String now = lines + " " + words;
            store.put(line.key(), now);
            context.forward(line.withValue(now));
        }
    }
}
