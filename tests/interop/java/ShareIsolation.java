import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Records of transactions in groups that read uncommitted records, or only committed ones. */
final class ShareIsolation {

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("control-records-are-passed-over", world -> {
            KafkaProducer<String, String> producer = transactional(world);
            producer.beginTransaction();
            world.send(producer, world.topic, "committed");
            world.produce("plain");
            producer.commitTransaction();
            end(producer, world, "aborted", false);
            world.produce("last");
            ShareConsumer<String, String> member = world.member();
            List<String> found = new ArrayList<>();
            while (found.size() < 4) {
                ShareWorld.poll(member).forEach(record -> found.add(record.value() + "@" + record.offset()));
            }
            return found + " " + ShareWorld.further(member);
        });
        for (String level : List.of("read_committed", "read_uncommitted")) {
            cases.put("level-" + level.replace('_', '-'), world -> {
                world.configure(world.group, "share.isolation.level", level);
                KafkaProducer<String, String> producer = transactional(world);
                for (int number = 1; number <= 10; number++) {
                    end(producer, world, "v" + number, number % 5 != 0);
                }
                ShareConsumer<String, String> member = world.member();
                List<String> values = ShareWorld.read(member, level.equals("read_committed") ? 8 : 10);
                return String.join(" ", values) + ", " + ShareWorld.further(member);
            });
        }
        cases.put("open-transaction-holds-back", world -> {
            world.configure(world.group, "share.isolation.level", "read_committed");
            KafkaProducer<String, String> producer = transactional(world);
            ShareConsumer<String, String> member = world.member();
            world.produce("before");
            List<String> before = ShareWorld.read(member, 1);
            producer.beginTransaction();
            world.send(producer, world.topic, "open");
            world.produce("after");
            int during = ShareWorld.further(member);
            producer.commitTransaction();
            return before + " " + during + " " + ShareWorld.read(member, 2);
        });
        cases.put("level-becomes-committed", ShareIsolation::becomesCommitted);
        cases.put("level-becomes-uncommitted", ShareIsolation::becomesUncommitted);
    }

    private static KafkaProducer<String, String> transactional(ShareWorld world) {
        KafkaProducer<String, String> producer = world.producer("transactional.id", world.topic);
        producer.initTransactions();
        return producer;
    }

    private static void end(KafkaProducer<String, String> producer, ShareWorld world, String value,
                            boolean isCommitted) throws Exception {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(world.topic, 0, "k", value)).get();
        if (isCommitted) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    /** A released record of an aborted transaction does not come again. */
    private static String becomesCommitted(ShareWorld world) throws Exception {
        KafkaProducer<String, String> producer = transactional(world);
        end(producer, world, "committed", true);
        end(producer, world, "aborted", false);
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        List<String> before = new ArrayList<>();
        while (before.size() < 2) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                before.add(record.value());
                member.acknowledge(record, ShareAcknowledgements.kind(false));
            }
            if (before.size() < 2) {
                before.clear();
            }
        }
        member.commitSync();
        world.configure(world.group, "share.isolation.level", "read_committed");
        Thread.sleep(1000);
        end(producer, world, "third", true);
        end(producer, world, "fourth", false);
        end(producer, world, "fifth", true);
        return before + " " + accepted(member, 3);
    }

    /** What was passed over stays so; what comes later is read. */
    private static String becomesUncommitted(ShareWorld world) throws Exception {
        world.configure(world.group, "share.isolation.level", "read_committed");
        KafkaProducer<String, String> producer = transactional(world);
        end(producer, world, "committed", true);
        end(producer, world, "aborted", false);
        end(producer, world, "third", true);
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        List<String> before = accepted(member, 2);
        world.configure(world.group, "share.isolation.level", "read_uncommitted");
        Thread.sleep(1000);
        end(producer, world, "fourth", false);
        end(producer, world, "fifth", true);
        return before + " " + accepted(member, 2);
    }

    private static List<String> accepted(ShareConsumer<String, String> member, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                values.add(record.value());
                member.acknowledge(record);
            }
            member.commitSync();
        }
        member.poll(Duration.ofMillis(1000)).forEach(record -> {
            values.add(record.value());
            member.acknowledge(record);
        });
        return values;
    }
}
