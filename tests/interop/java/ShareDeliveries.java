import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Which records a member gets, from where on, and how many at a time. */
final class ShareDeliveries {
    private static final long NOW = System.currentTimeMillis();
    private static final long HOUR = 3_600_000;

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("records-in-turn", world -> {
            ShareConsumer<String, String> member = world.member();
            List<String> values = new ArrayList<>();
            for (String value : List.of("a", "b", "c")) {
                world.produce(value);
                values.addAll(ShareWorld.read(member, 1));
            }
            return values + " " + ShareWorld.further(member);
        });
        cases.put("fields-of-a-record", ShareDeliveries::fields);
        cases.put("two-at-a-time", ShareDeliveries::twoAtATime);
        cases.put("fetch-of-one-byte", world -> {
            world.produce("a");
            return ShareWorld.read(world.member("fetch.max.bytes", "1"), 1);
        });
        cases.put("record-larger-than-a-partition-fetch", world -> {
            world.produce("a");
            world.produce("b".repeat(10_000));
            ShareConsumer<String, String> member = world.member("max.partition.fetch.bytes", "10000");
            return ShareWorld.read(member, 2).stream().map(String::length).toList();
        });
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            cases.put("compressed-by-" + codec, world -> {
                KafkaProducer<String, String> producer = world.producer("compression.type", codec);
                world.send(producer, world.topic, ShareWorld.numbered(50));
                return ShareWorld.read(world.member(), 50).equals(List.of(ShareWorld.numbered(50)));
            });
        }
        cases.put("three-partitions", world -> {
            String wide = world.topic + "-wide";
            world.create(wide, 3, 1);
            KafkaProducer<String, String> producer = world.producer();
            for (int number = 0; number < 30; number++) {
                producer.send(new ProducerRecord<>(wide, number % 3, "k", "v" + number));
            }
            producer.flush();
            ShareConsumer<String, String> member = world.memberOf(world.group);
            member.subscribe(Set.of(wide));
            return new HashSet<>(ShareWorld.read(member, 30)).equals(Set.of(ShareWorld.numbered(30)));
        });
        cases.put("two-members-each-record-once", world -> shared(world, 2, 1, 2000));
        cases.put("four-members-four-producers", world -> shared(world, 4, 4, 1000));
        cases.put("three-groups", world -> {
            List<String> told = new ArrayList<>();
            world.produce(ShareWorld.numbered(100));
            for (String group : List.of("-1", "-2", "-3")) {
                world.configure(world.group + group, "share.auto.offset.reset", "earliest");
                ShareConsumer<String, String> member = world.memberOf(world.group + group);
                member.subscribe(Set.of(world.topic));
                told.add(ShareWorld.read(member, 100).size() + " " + ShareWorld.further(member));
            }
            return told;
        });
        cases.put("starts-at-the-end", world -> reset(world, null));
        cases.put("starts-at-the-beginning", world -> reset(world, "earliest"));
        cases.put("starts-an-hour-ago", world -> reset(world, "by_duration:PT1H"));
        cases.put("starts-three-hours-ago", world -> reset(world, "by_duration:PT3H"));
        cases.put("refused-starts", world -> {
            List<String> told = new ArrayList<>();
            for (String value : List.of("by_duration:1h", "by_duration:-PT1H", "none", "Earliest",
                "by_duration:PT0S")) {
                told.add(ShareWorld.error(() -> {
                    world.configure(world.group, "share.auto.offset.reset", value);
                    return null;
                }));
            }
            return told;
        });
        cases.put("records-deleted", world -> {
            world.produce(ShareWorld.numbered(10));
            world.admin.deleteRecords(Map.of(world.partition, RecordsToDelete.beforeOffset(5))).all().get();
            ShareConsumer<String, String> member = world.member();
            String before = String.join(" ", ShareWorld.read(member, 5));
            member.commitSync();
            world.produce("a", "b", "c", "d", "e");
            world.admin.deleteRecords(Map.of(world.partition, RecordsToDelete.beforeOffset(14))).all().get();
            return before + ", " + ShareWorld.read(member, 1) + " " + ShareWorld.further(member);
        });
        cases.put("batch-optimized", world -> {
            world.produce(ShareWorld.numbered(10));
            ShareConsumer<String, String> member = world.member("max.poll.records", "5");
            return ShareWorld.poll(member).size();
        });
        cases.put("record-limit", ShareDeliveries::limited);
        cases.put("record-limit-of-one", world -> {
            world.produce(ShareWorld.numbered(10));
            ShareConsumer<String, String> member =
                world.member(ShareWorld.and(ShareWorld.LIMITED, "max.poll.records", "1"));
            List<String> values = new ArrayList<>();
            for (int number = 0; number < 10; number++) {
                List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
                values.add(ShareWorld.values(records));
                records.forEach(member::acknowledge);
                member.commitSync();
            }
            return values;
        });
        cases.put("record-limit-every-second-released", ShareDeliveries::everySecond);
    }

    private static String fields(ShareWorld world) throws Exception {
        KafkaProducer<String, String> producer = world.producer();
        ProducerRecord<String, String> sent = new ProducerRecord<>(world.topic, 0, 1234L, null, "value");
        sent.headers().add("b", "1".getBytes()).add("a", "2".getBytes()).add("b", "3".getBytes()).add("n", null);
        producer.send(sent);
        producer.send(new ProducerRecord<String, String>(world.topic, 0, 1235L, "key", (String) null));
        producer.flush();
        List<String> told = new ArrayList<>();
        ShareConsumer<String, String> member = world.member();
        while (told.size() < 2) {
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                String headers = Arrays.stream(record.headers().toArray())
                    .map(one -> one.key() + "=" + (one.value() == null ? null : new String(one.value())))
                    .collect(Collectors.joining(" "));
                told.add(List.of(record.partition(), record.offset(), record.timestamp(), record.timestampType(),
                    record.serializedKeySize(), record.serializedValueSize(), String.valueOf(record.key()),
                    String.valueOf(record.value()), headers, record.deliveryCount()).toString());
            }
        }
        return String.join("; ", told);
    }

    private static Object twoAtATime(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(1000));
        ShareConsumer<String, String> member = world.member("max.poll.records", "2");
        List<String> values = new ArrayList<>();
        int most = 0;
        while (values.size() < 1000) {
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            most = Math.max(most, records.size());
            records.forEach(record -> values.add(record.value()));
        }
        return values.equals(List.of(ShareWorld.numbered(1000))) + " " + (most <= 1000);
    }

    /** Members in threads of their own; each record must arrive, and only once. */
    private static String shared(ShareWorld world, int members, int producers, int each) throws Exception {
        int all = producers * each;
        AtomicInteger count = new AtomicInteger();
        List<CompletableFuture<List<String>>> readers = new ArrayList<>();
        for (int number = 0; number < members; number++) {
            ShareConsumer<String, String> member = world.member("max.partition.fetch.bytes", "10000");
            readers.add(CompletableFuture.supplyAsync(() -> {
                List<String> values = new ArrayList<>();
                while (count.get() < all) {
                    ConsumerRecords<String, String> records = member.poll(Duration.ofMillis(500));
                    records.forEach(record -> values.add(record.value()));
                    count.addAndGet(records.count());
                }
                member.commitSync();
                return values;
            }, task -> new Thread(task).start()));
        }
        for (int number = 0; number < producers; number++) {
            KafkaProducer<String, String> producer = world.producer("linger.ms", "0", "batch.size", "1000");
            for (int index = 0; index < each; index++) {
                producer.send(new ProducerRecord<>(world.topic, number + "-" + index));
            }
        }
        List<String> values = new ArrayList<>();
        for (CompletableFuture<List<String>> reader : readers) {
            values.addAll(reader.get());
        }
        return values.size() + " of " + all + ", different " + new HashSet<>(values).size();
    }

    private static String reset(ShareWorld world, String value) throws Exception {
        String group = world.group + "-reset";
        if (value != null) {
            world.configure(group, "share.auto.offset.reset", value);
        }
        KafkaProducer<String, String> producer = world.producer();
        for (int hours = 4; hours >= 0; hours--) {
            producer.send(new ProducerRecord<>(world.topic, 0, NOW - hours * HOUR + HOUR / 2, "k", "h" + hours)).get();
        }
        ShareConsumer<String, String> member = world.memberOf(group);
        member.subscribe(Set.of(world.topic));
        Set<String> seen = new LinkedHashSet<>();
        ShareWorld.until("a later record", () -> {
            member.poll(Duration.ofMillis(500)).forEach(record -> seen.add(record.value()));
            world.produce("later");
            return seen.contains("later");
        });
        return String.join(" ", seen);
    }

    private static String limited(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(15));
        ShareConsumer<String, String> member =
            world.member(ShareWorld.and(ShareWorld.LIMITED, "max.poll.records", "10"));
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        records.forEach(member::acknowledge);
        String committed = ShareWorld.results(member.commitSync());
        List<ConsumerRecord<String, String>> rest = ShareWorld.poll(member);
        rest.forEach(member::acknowledge);
        return ShareWorld.values(records) + " " + committed + " " + ShareWorld.values(rest);
    }

    private static String everySecond(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(20));
        ShareConsumer<String, String> member =
            world.member(ShareWorld.and(ShareWorld.LIMITED, "max.poll.records", "10"));
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        for (ConsumerRecord<String, String> record : records) {
            member.acknowledge(record, ShareAcknowledgements.kind(record.offset() % 2 == 0));
            member.commitSync();
        }
        List<String> told = new ArrayList<>(List.of(ShareWorld.counted(records)));
        List<ConsumerRecord<String, String>> later = new ArrayList<>();
        while (later.size() < 15) {
            List<ConsumerRecord<String, String>> some = ShareWorld.poll(member);
            told.add("at most ten: " + (some.size() <= 10));
            some.forEach(member::acknowledge);
            later.addAll(some);
        }
        later.sort((one, other) -> Long.compare(one.offset(), other.offset()));
        return told.get(0) + ", " + new HashSet<>(told.subList(1, told.size())) + ", " + ShareWorld.counted(later);
    }
}
