import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;

/** Callbacks that tell a member the results of its acknowledgements. */
final class ShareCallbacks {

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("callback-after-poll", world -> {
            Told told = new Told(world.member());
            world.produce("a", "b");
            ShareWorld.poll(told.member);
            return told.await(2);
        });
        cases.put("callback-after-commit-async", world -> {
            Told told = new Told(world.member());
            world.produce("a", "b", "c");
            ShareWorld.poll(told.member);
            told.member.commitAsync();
            return told.await(3);
        });
        cases.put("callback-of-single-commits", world -> {
            Told told = new Told(world.member(ShareWorld.EXPLICIT));
            world.produce("a", "b", "c");
            for (ConsumerRecord<String, String> record : ShareWorld.poll(told.member)) {
                told.member.acknowledge(record, ShareAcknowledgements.kind(record.offset() < 2));
                told.member.commitAsync();
            }
            told.member.poll(Duration.ofSeconds(5)).forEach(told.member::acknowledge);
            return told.await(3);
        });
        cases.put("callback-in-close", world -> {
            Told told = new Told(world.member());
            world.produce("a");
            ShareWorld.poll(told.member);
            told.member.poll(ShareWorld.SHORT);
            told.member.close();
            return told.offsets + " " + told.errors;
        });
        cases.put("callback-after-commit-sync", world -> {
            Told told = new Told(world.member());
            world.produce("a");
            ShareWorld.poll(told.member);
            told.member.commitSync();
            return told.await(1);
        });
        cases.put("callback-of-a-lost-lock", world -> {
            world.configure(world.group, "share.record.lock.duration.ms", "2000");
            Told told = new Told(world.member());
            world.produce("a");
            ShareWorld.poll(told.member);
            Thread.sleep(4000);
            return told.await(1);
        });
        cases.put("callback-uses-the-consumer", ShareCallbacks::uses);
        cases.put("callback-wakes-up", world -> {
            ShareConsumer<String, String> member = world.member();
            member.setAcknowledgementCommitCallback((offsets, error) -> member.wakeup());
            world.produce("a");
            ShareWorld.poll(member);
            return thrown(() -> member.poll(Duration.ofMillis(300)));
        });
        cases.put("callback-throws", world -> {
            ShareConsumer<String, String> member = world.member();
            member.setAcknowledgementCommitCallback((offsets, error) -> {
                throw new OutOfOrderSequenceException("of the callback");
            });
            world.produce("a");
            ShareWorld.poll(member);
            return thrown(() -> member.poll(Duration.ofMillis(300)));
        });
        cases.put("callback-is-removed", world -> {
            Told told = new Told(world.member());
            world.produce("a");
            ShareWorld.poll(told.member);
            String first = told.await(1);
            told.member.setAcknowledgementCommitCallback(null);
            world.produce("b");
            ShareWorld.poll(told.member);
            return first + " " + ShareWorld.results(told.member.commitSync()) + " " + told.offsets;
        });
    }

    /** A member with what its callback was told. */
    private static final class Told {
        final ShareConsumer<String, String> member;
        final Set<Long> offsets = new TreeSet<>();
        final Set<String> errors = new TreeSet<>();

        Told(ShareConsumer<String, String> member) {
            this.member = member;
            member.setAcknowledgementCommitCallback((found, error) -> {
                found.values().forEach(offsets::addAll);
                errors.add(error == null ? "ok" : ShareWorld.name(error));
            });
        }

        String await(int count) throws Exception {
            ShareWorld.until("callbacks", () -> {
                member.poll(Duration.ofMillis(200));
                return offsets.size() >= count;
            });
            return offsets + " " + errors;
        }
    }

    private static String uses(ShareWorld world) throws Exception {
        ShareConsumer<String, String> member = world.member();
        List<String> told = new ArrayList<>();
        member.setAcknowledgementCommitCallback((offsets, error) -> {
            told.add(ShareWorld.error(() -> member.close()));
            told.add(ShareWorld.error(() -> member.subscribe(Set.of(world.topic))));
            told.add(ShareWorld.error(() -> member.poll(Duration.ofSeconds(1))));
        });
        world.produce("a");
        ShareWorld.poll(member);
        ShareWorld.until("a callback", () -> {
            member.poll(Duration.ofMillis(200));
            return told.size() >= 3;
        });
        return told.toString();
    }

    private static String thrown(Callable<?> poll) throws Exception {
        for (int polls = 0; polls < 60; polls++) {
            String error = ShareWorld.error(poll);
            if (!error.equals("ok")) {
                return error;
            }
        }
        return "nothing";
    }
}
