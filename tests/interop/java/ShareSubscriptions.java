import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What members subscribe to, and how a poll ends without records. */
final class ShareSubscriptions {

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("poll-without-subscription", world ->
            ShareWorld.error(() -> world.memberOf(world.group).poll(ShareWorld.SHORT)));
        cases.put("poll-an-empty-topic", world -> {
            ShareConsumer<String, String> member = world.member();
            return member.subscription().equals(Set.of(world.topic)) + " " + ShareWorld.further(member);
        });
        cases.put("poll-after-unsubscribe", world -> emptied(world, ShareConsumer::unsubscribe));
        cases.put("poll-after-empty-subscription", world -> emptied(world, member -> member.subscribe(Set.of())));
        cases.put("subscribe-twice", world -> {
            ShareConsumer<String, String> member = world.member();
            int before = ShareWorld.further(member);
            member.subscribe(Set.of(world.topic));
            world.produce("a");
            return before + " " + ShareWorld.read(member, 1);
        });
        cases.put("subscription-changes", ShareSubscriptions::changes);
        cases.put("subscribe-to-an-invalid-topic", world -> {
            ShareConsumer<String, String> member = world.memberOf(world.group);
            member.subscribe(Set.of("topic abc"));
            return ShareWorld.error(() -> member.poll(Duration.ofSeconds(20)));
        });
        cases.put("topic-created-later", world -> {
            ShareConsumer<String, String> member = world.memberOf(world.group);
            String later = world.topic + "-later";
            member.subscribe(Set.of(later));
            int before = ShareWorld.further(member);
            world.create(later, 1, 1);
            world.send(world.producer(), later, "a");
            return before + " " + ShareWorld.read(member, 1);
        });
        cases.put("topic-deleted", ShareSubscriptions::deleted);
        cases.put("partitions-added", world -> {
            ShareConsumer<String, String> member = world.member();
            world.produce("a");
            List<String> before = ShareWorld.read(member, 1);
            world.admin.createPartitions(Map.of(world.topic, NewPartitions.increaseTo(3))).all().get();
            KafkaProducer<String, String> producer = world.producer();
            for (int index = 0; index < 3; index++) {
                producer.send(new ProducerRecord<>(world.topic, index, "k", "in " + index));
            }
            producer.flush();
            List<String> after = ShareWorld.read(member, 3);
            return before + " " + after.stream().sorted().toList();
        });
        cases.put("interrupted-poll", world -> {
            ShareConsumer<String, String> member = world.member();
            Thread.currentThread().interrupt();
            String error = ShareWorld.error(() -> member.poll(Duration.ZERO));
            Thread.interrupted();
            return error + " " + ShareWorld.further(member);
        });
        cases.put("wakeup-before-poll", world -> {
            world.produce("a");
            ShareConsumer<String, String> member = world.member();
            member.wakeup();
            return ShareWorld.error(() -> member.poll(Duration.ZERO)) + " " + ShareWorld.read(member, 1);
        });
        cases.put("group-is-full", world -> {
            for (int number = 0; number < 4; number++) {
                world.member().poll(ShareWorld.SHORT);
            }
            ShareConsumer<String, String> fifth = world.member();
            return ShareWorld.error(() -> fifth.poll(Duration.ofSeconds(30)));
        });
        cases.put("states-are-stored", world -> {
            world.produce("a");
            ShareWorld.read(world.member(), 1);
            return world.admin.describeTopics(List.of("__share_group_state")).allTopicNames().get()
                .get("__share_group_state").isInternal();
        });
    }

    private interface Change {
        void of(ShareConsumer<String, String> member);
    }

    private static String emptied(ShareWorld world, Change change) {
        ShareConsumer<String, String> member = world.member();
        int before = ShareWorld.further(member);
        change.of(member);
        String error = ShareWorld.error(() -> member.poll(ShareWorld.SHORT));
        return before + " " + member.subscription() + " " + error;
    }

    /** Records of the topic before are acknowledged. */
    private static String changes(ShareWorld world) throws Exception {
        String second = world.topic + "-second";
        world.create(second, 1, 1);
        world.produce("first");
        world.send(world.producer(), second, "second");
        ShareConsumer<String, String> member = world.member();
        List<String> told = new ArrayList<>();
        member.setAcknowledgementCommitCallback((offsets, error) ->
            offsets.forEach((where, which) -> told.add(where.topic().endsWith("second") + " " + which + " " + error)));
        List<String> values = new ArrayList<>(ShareWorld.read(member, 1));
        member.subscribe(Set.of(second));
        values.addAll(ShareWorld.read(member, 1));
        ShareWorld.until("both acknowledged", () -> {
            member.poll(Duration.ofMillis(200));
            return told.size() >= 2;
        });
        return values + " " + told;
    }

    private static String deleted(ShareWorld world) throws Exception {
        String second = world.topic + "-second";
        world.create(second, 1, 1);
        KafkaProducer<String, String> producer = world.producer();
        ShareConsumer<String, String> member = world.memberOf(world.group);
        member.subscribe(Set.of(world.topic, second));
        List<String> values = new ArrayList<>();
        world.send(producer, world.topic, "first");
        values.addAll(ShareWorld.read(member, 1));
        world.send(producer, second, "second");
        values.addAll(ShareWorld.read(member, 1));
        world.admin.deleteTopics(Set.of(world.topic)).all().get();
        int after = ShareWorld.further(member);
        for (String value : List.of("third", "fourth")) {
            world.send(producer, second, value);
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                values.add(record.value());
            }
        }
        return values + " " + after;
    }
}
