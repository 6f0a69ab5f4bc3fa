import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Brokers that are killed while a group reads: each record arrives, and none again once its acceptance was told. */
final class ShareFaults {
    private static final int RECORDS = 200;

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("leader-is-killed", ShareFaults::leader);
        cases.put("brokers-are-killed", ShareFaults::all);
    }

    /** Half of the records are accepted, the other half are in flight when the leader is killed. */
    private static String leader(ShareWorld world) throws Exception {
        String topic = world.topic + "-copied";
        world.create(topic, 1, 2, "min.insync.replicas", "1");
        KafkaProducer<String, String> producer = world.producer("acks", "all");
        world.send(producer, topic, ShareWorld.numbered(10));
        ShareConsumer<String, String> member = world.memberOf(world.group, ShareWorld.EXPLICIT);
        member.subscribe(Set.of(topic));
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        for (ConsumerRecord<String, String> record : records) {
            if (record.offset() % 2 == 0) {
                member.acknowledge(record);
            }
        }
        String accepted = ShareWorld.results(member.commitSync());
        int killed = leaderOf(world, topic);
        command("kill " + killed);
        ShareWorld.until("another leader", () -> leaderOf(world, topic) != killed);
        for (ConsumerRecord<String, String> record : records) {
            if (record.offset() % 2 == 1) {
                member.acknowledge(record);
            }
        }
        boolean isRefused = !ShareWorld.results(member.commitSync()).equals("{0=ok}");
        world.send(producer, topic, "later");
        Set<String> again = new TreeSet<>();
        while (!again.contains("later*1")) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                again.add(record.value() + "*" + record.deliveryCount().get());
                member.acknowledge(record);
            }
        }
        String told = ShareWorld.results(member.commitSync());
        command("start " + killed);
        return accepted + " " + isRefused + " " + again + " " + told;
    }

    /** Each broker is killed in turn while records are written, and read by two members. */
    private static String all(ShareWorld world) throws Exception {
        String topic = world.topic + "-copied";
        world.create(topic, 2, 2, "min.insync.replicas", "1");
        KafkaProducer<String, String> producer = world.producer("acks", "all", "linger.ms", "0");
        List<ShareConsumer<String, String>> members = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            ShareConsumer<String, String> member = world.memberOf(world.group, ShareWorld.EXPLICIT);
            member.subscribe(Set.of(topic));
            members.add(member);
        }
        Set<String> accepted = new TreeSet<>();
        List<String> twice = new ArrayList<>();
        for (int number = 0; number < RECORDS; number++) {
            if (number % 50 == 25) {
                int killed = leaderOf(world, topic);
                command("kill " + killed);
                read(members, accepted, twice);
                command("start " + killed);
            }
            producer.send(new ProducerRecord<>(topic, number % 2, "k", "v" + number));
            if (number % 5 == 0) {
                read(members, accepted, twice);
            }
        }
        producer.flush();
        ShareWorld.until("all records", () -> {
            read(members, accepted, twice);
            return accepted.size() == RECORDS;
        });
        return accepted.size() + " accepted, " + twice.size() + " of them delivered again";
    }

    private static void read(List<ShareConsumer<String, String>> members, Set<String> accepted, List<String> twice) {
        for (ShareConsumer<String, String> member : members) {
            Map<Integer, List<String>> values = new HashMap<>();
            for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
                member.acknowledge(record);
                values.computeIfAbsent(record.partition(), partition -> new ArrayList<>()).add(record.value());
            }
            values.values().forEach(of -> of.stream().filter(accepted::contains).forEach(twice::add));
            member.commitSync().forEach((where, error) -> {
                if (error.isEmpty()) {
                    accepted.addAll(values.getOrDefault(where.partition(), List.of()));
                }
            });
        }
    }

    private static int leaderOf(ShareWorld world, String topic) throws Exception {
        return world.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
            .partitions().get(0).leader().id();
    }

    private static void command(String words) throws Exception {
        ShareCases.say("do " + words);
        while (System.in.read() != '\n') {
            continue;
        }
    }
}
