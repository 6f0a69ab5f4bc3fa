import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.errors.RecordDeserializationException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/** Accepted, released and rejected records, how often they come again, and where they end. */
final class ShareAcknowledgements {

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("explicit-accept-by-poll", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            ShareWorld.poll(member).forEach(member::acknowledge);
            world.produce("b");
            return ShareWorld.values(ShareWorld.poll(member));
        });
        cases.put("explicit-accept-by-commit", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            ShareWorld.poll(member).forEach(member::acknowledge);
            String told = ShareWorld.results(member.commitSync()) + ShareWorld.results(member.commitSync());
            return told + " " + ShareWorld.further(member);
        });
        cases.put("implicit-accept-by-commit", world -> {
            ShareConsumer<String, String> member = world.member();
            world.produce("a");
            ShareWorld.poll(member);
            String told = ShareWorld.results(member.commitSync()) + ShareWorld.results(member.commitSync());
            return told + " " + ShareWorld.further(member);
        });
        cases.put("release-then-accept-by-poll", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a", "b");
            String first = released(member);
            List<ConsumerRecord<String, String>> again = ShareWorld.poll(member);
            again.forEach(member::acknowledge);
            return first + ", " + ShareWorld.counted(again) + " " + ShareWorld.further(member);
        });
        cases.put("last-acknowledgement-counts", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.RELEASE));
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.ACCEPT));
            return ShareWorld.further(member);
        });
        cases.put("release-by-close", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a", "b");
            String first = released(member);
            member.close();
            return first + ", " + ShareWorld.counted(ShareWorld.poll(world.member()));
        });
        cases.put("acknowledged-before", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            ConsumerRecord<String, String> record = ShareWorld.poll(member).get(0);
            member.acknowledge(record);
            return ShareWorld.further(member) + " " + ShareWorld.error(() -> member.acknowledge(record));
        });
        cases.put("explicit-in-implicit-mode", world -> {
            ShareConsumer<String, String> member = world.member("share.acknowledgement.mode", "implicit");
            world.produce("a");
            ConsumerRecord<String, String> record = ShareWorld.poll(member).get(0);
            return ShareWorld.error(() -> member.acknowledge(record));
        });
        cases.put("poll-before-all-are-acknowledged", ShareAcknowledgements::partial);
        cases.put("reject", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a", "b");
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            member.acknowledge(records.get(0), AcknowledgeType.REJECT);
            member.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            String told = ShareWorld.results(member.commitSync());
            return told + " " + ShareWorld.counted(ShareWorld.poll(member));
        });
        cases.put("released-to-another-member", ShareAcknowledgements::toAnother);
        cases.put("close-counts-as-a-delivery", world -> {
            world.produce("a", "b");
            List<String> told = new ArrayList<>();
            for (int number = 0; number < 7; number++) {
                ShareConsumer<String, String> member = world.member();
                told.add(ShareWorld.counted(ShareWorld.poll(member)));
                member.close();
            }
            return told;
        });
        cases.put("close-after-one-release", world -> {
            world.produce("a", "b");
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            member.acknowledge(ShareWorld.poll(member).get(0), AcknowledgeType.RELEASE);
            String told = ShareWorld.results(member.commitSync());
            member.close();
            return told + " " + ShareWorld.counted(ShareWorld.poll(world.member()));
        });
        cases.put("two-deliveries-at-most", world -> {
            world.configure(world.group, "share.delivery.count.limit", "2");
            world.produce("a");
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            String told = released(member) + ", " + ShareWorld.counted(ShareWorld.poll(member));
            member.close();
            ShareConsumer<String, String> other = world.member(ShareWorld.EXPLICIT);
            return told + ", " + ShareWorld.further(other);
        });
        cases.put("five-deliveries-at-most", ShareAcknowledgements::often);
        cases.put("dead-letters", ShareAcknowledgements::deadLetters);
        cases.put("value-that-is-not-readable", ShareAcknowledgements::unreadable);
    }

    static AcknowledgeType kind(boolean isAccepted) {
        return isAccepted ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE;
    }

    /** Polls and releases; returns the records. */
    private static String released(ShareConsumer<String, String> member) {
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        records.forEach(record -> member.acknowledge(record, AcknowledgeType.RELEASE));
        return ShareWorld.counted(records);
    }

    private static String partial(ShareWorld world) throws Exception {
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        world.produce("a", "b", "c");
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        member.acknowledge(records.get(0));
        member.acknowledge(records.get(1));
        member.commitAsync();
        String error = ShareWorld.error(() -> member.poll(ShareWorld.SHORT));
        member.acknowledge(records.get(2));
        member.commitAsync();
        world.produce("d");
        return error + " " + ShareWorld.values(ShareWorld.poll(member));
    }

    private static String toAnother(ShareWorld world) throws Exception {
        ShareConsumer<String, String> first = world.member(ShareWorld.EXPLICIT);
        world.produce("a", "b", "c");
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(first);
        ShareConsumer<String, String> second = world.member();
        int before = ShareWorld.further(second);
        for (ConsumerRecord<String, String> record : records) {
            first.acknowledge(record, kind(!record.value().equals("c")));
        }
        first.commitAsync();
        return before + " " + ShareWorld.counted(ShareWorld.poll(second));
    }

    /** Accepts each record at the delivery that its offset tells, rejects every seventh, and never accepts some. */
    private static String often(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(70));
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        int deliveries = 0;
        int most = 0;
        for (int polls = 0; polls < 20; polls++) {
            for (ConsumerRecord<String, String> record : member.poll(ShareWorld.SHORT)) {
                long wanted = (record.offset() + record.offset() / 7) % 7;
                short count = record.deliveryCount().get();
                member.acknowledge(record, wanted == 0 ? AcknowledgeType.REJECT : kind(count == wanted));
                deliveries++;
                most = Math.max(most, count);
            }
        }
        return deliveries + " deliveries, at most " + most;
    }

    private static String deadLetters(ShareWorld world) throws Exception {
        String queue = "dlq." + world.topic;
        world.create(queue, 1, 1, "errors.deadletterqueue.group.enable", "true");
        world.configure(world.group, "errors.deadletterqueue.topic.name", queue,
            "errors.deadletterqueue.copy.record.enable", "true", "share.delivery.count.limit", "2");
        world.produce("rejected", "often", "good");
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        for (int polls = 0; polls < 2; polls++) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                member.acknowledge(record, record.value().equals("rejected") ? AcknowledgeType.REJECT
                    : kind(record.value().equals("good")));
            }
            member.commitSync();
        }
        ShareConsumer<String, String> undertaker = world.memberOf(world.group + "-dead");
        world.configure(world.group + "-dead", "share.auto.offset.reset", "earliest");
        undertaker.subscribe(Set.of(queue));
        Set<String> told = new TreeSet<>();
        while (told.size() < 2) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(undertaker)) {
                String headers = java.util.Arrays.stream(record.headers().toArray())
                    .map(one -> one.key() + "=" + (one.value() == null ? null : new String(one.value())))
                    .collect(Collectors.joining(" "));
                told.add(record.key() + " " + record.value() + " " + headers);
            }
        }
        return told.toString().replace(world.topic, "TOPIC").replace(world.group, "GROUP");
    }

    private static String unreadable(ShareWorld world) throws Exception {
        Deserializer<String> picky = (topic, data) -> {
            String value = new String(data);
            if (value.equals("bad")) {
                throw new SerializationException();
            }
            return value;
        };
        world.produce("a", "bad");
        ShareConsumer<String, String> member = world.memberWith(world.group, picky, ShareWorld.EXPLICIT);
        member.subscribe(Set.of(world.topic));
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        List<String> told = new ArrayList<>(List.of(ShareWorld.values(records)));
        records.forEach(member::acknowledge);
        RecordDeserializationException bad = bad(member);
        told.add("at " + bad.offset());
        member.commitSync();
        bad = bad(member);
        told.add("again at " + bad.offset());
        String topic = bad.topicPartition().topic();
        told.add(ShareWorld.error(() -> member.acknowledge("none", 0, 1, AcknowledgeType.REJECT)));
        told.add(ShareWorld.error(() -> member.acknowledge(topic, 1, 1, AcknowledgeType.REJECT)));
        told.add(ShareWorld.error(() -> member.acknowledge(topic, 0, 0, AcknowledgeType.REJECT)));
        told.add(ShareWorld.error(() -> member.acknowledge(topic, 0, 1, AcknowledgeType.REJECT)));
        told.add(ShareWorld.results(member.commitSync()));
        told.add(ShareWorld.error(() -> member.acknowledge(topic, 0, 1, AcknowledgeType.REJECT)));
        world.produce("c");
        told.add(ShareWorld.values(ShareWorld.poll(member)));
        return told.toString();
    }

    private static RecordDeserializationException bad(ShareConsumer<String, String> member) {
        for (int polls = 0; polls < 60; polls++) {
            try {
                member.poll(Duration.ofMillis(500));
            } catch (RecordDeserializationException error) {
                return error;
            }
        }
        throw new AssertionError("no error");
    }
}
