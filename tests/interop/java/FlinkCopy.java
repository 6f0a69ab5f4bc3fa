import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetIdentifier;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacetProvider;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A Flink job that copies the topic `flink-in` to `flink-out`, each partition to the same one, with two-phase commits:
 * a checkpoint a second prepares transactions, and its completion commits them. After a failure Flink starts the job again.
 *
 * Arguments: bootstrap servers, how transactional ids are named (INCREMENTING or POOLING), a URI for checkpoints, the
 * checkpoint to begin with or "-". Runs until it is killed.
 */
public final class FlinkCopy {
    private static final String OUTPUT = "flink-out";
    private static final int PARALLELISM = 2;
    // Longer than the job is ever away: an open transaction of a checkpoint must outlive it.
    private static final String TRANSACTION_TIMEOUT_MS = "300000";

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment job =
            StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, settings(args[2], args[3]));
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics("flink-in")
            .setGroupId("flink")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setProperty("isolation.level", "read_committed")
            .setDeserializer(new Read())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(args[1]))
            .setTransactionalIdPrefix("flink-copy")
            .setProperty("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            .setRecordSerializer(new Write())
            .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "read").uid("read").sinkTo(sink).uid("write");
        job.execute("copy");
    }

    private static Configuration settings(String checkpoints, String begin) {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("execution.checkpointing.dir", checkpoints);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.timeout", "60s");
        settings.setString("execution.checkpointing.tolerable-failed-checkpoints", "1000");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "1000");
        settings.setString("restart-strategy.fixed-delay.delay", "1s");
        if (!begin.equals("-")) {
            settings.setString("execution.state-recovery.path", begin);
        }
        return settings;
    }

    /** "PARTITION VALUE" of a record. */
    private static final class Read implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            out.collect(record.partition() + " " + new String(record.value(), StandardCharsets.UTF_8));
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }

    /** The record of "PARTITION VALUE"; POOLING asks for the topic to find open transactions in. */
    private static final class Write implements KafkaRecordSerializationSchema<String>, KafkaDatasetFacetProvider {
        @Override
        public Optional<KafkaDatasetFacet> getKafkaDatasetFacet() {
            return Optional.of(new DefaultKafkaDatasetFacet(DefaultKafkaDatasetIdentifier.ofTopics(List.of(OUTPUT))));
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(String line, KafkaSinkContext context, Long timestamp) {
            String[] parts = line.split(" ", 2);
            byte[] value = parts[1].getBytes(StandardCharsets.UTF_8);
            return new ProducerRecord<>(OUTPUT, Integer.valueOf(parts[0]), null, value);
        }
    }
}
