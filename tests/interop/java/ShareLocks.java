import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;

/** Locks of records that time out, or are renewed (KIP-1222). */
final class ShareLocks {
    private static final String[] QUICK = {"share.record.lock.duration.ms", "3000"};

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("lock-times-out", world -> {
            world.configure(world.group, QUICK);
            world.produce("a");
            ShareConsumer<String, String> first = world.member(ShareWorld.EXPLICIT);
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(first);
            ShareConsumer<String, String> second = world.member();
            String told = ShareWorld.counted(records) + ", " + ShareWorld.counted(ShareWorld.poll(second));
            first.acknowledge(records.get(0));
            return told + ", " + ShareWorld.results(first.commitSync()) + ", "
                + ShareWorld.results(second.commitSync());
        });
        cases.put("lock-times-out-for-itself", world -> {
            world.configure(world.group, QUICK);
            ShareConsumer<String, String> member = world.member();
            world.produce("a");
            ShareWorld.poll(member);
            int before = ShareWorld.further(member);
            world.produce("b");
            String told = ShareWorld.counted(ShareWorld.poll(member));
            Thread.sleep(5000);
            told += ", " + ShareWorld.counted(ShareWorld.poll(member));
            return before + ", " + told + ", " + ShareWorld.further(member);
        });
        cases.put("lock-is-told", world -> {
            world.configure(world.group, QUICK);
            ShareConsumer<String, String> member = world.member();
            String before = String.valueOf(member.acquisitionLockTimeoutMs());
            world.produce("a");
            ShareWorld.poll(member);
            return before + " " + member.acquisitionLockTimeoutMs();
        });
        cases.put("renewed-for-long", ShareLocks::renewed);
        cases.put("renewed-then-released", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.RENEW));
            String told = ShareWorld.results(member.commitSync());
            List<ConsumerRecord<String, String>> again = ShareWorld.poll(member);
            told += " " + ShareWorld.counted(again);
            again.forEach(record -> member.acknowledge(record, AcknowledgeType.RELEASE));
            told += " " + ShareWorld.results(member.commitSync());
            List<ConsumerRecord<String, String>> last = ShareWorld.poll(member);
            last.forEach(member::acknowledge);
            return told + " " + ShareWorld.counted(last);
        });
        cases.put("renewed-in-part", world -> {
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a", "b", "c");
            for (ConsumerRecord<String, String> record : ShareWorld.poll(member)) {
                boolean isRenewed = record.value().equals("b");
                member.acknowledge(record, isRenewed ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
            }
            List<ConsumerRecord<String, String>> again = ShareWorld.poll(member);
            again.forEach(member::acknowledge);
            world.produce("d");
            return ShareWorld.counted(again) + " " + ShareWorld.counted(ShareWorld.poll(member));
        });
        cases.put("renewed-after-time-out", world -> {
            world.configure(world.group, QUICK);
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            Thread.sleep(5000);
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.RENEW));
            String told = ShareWorld.results(member.commitSync());
            return told + " " + ShareWorld.counted(ShareWorld.poll(member));
        });
        cases.put("renewal-is-off", world -> {
            world.configure(world.group, "share.renew.acknowledge.enable", "false");
            ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
            world.produce("a");
            List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.RENEW));
            return ShareWorld.results(member.commitSync());
        });
        cases.put("renewal-in-implicit-mode", world -> {
            ShareConsumer<String, String> member = world.member();
            world.produce("a");
            ConsumerRecord<String, String> record = ShareWorld.poll(member).get(0);
            return ShareWorld.error(() -> member.acknowledge(record, AcknowledgeType.RENEW));
        });
    }

    private static String renewed(ShareWorld world) throws Exception {
        world.configure(world.group, QUICK);
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        world.produce("a");
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        ShareConsumer<String, String> other = world.member();
        List<String> told = new ArrayList<>(List.of(ShareWorld.counted(records)));
        int taken = 0;
        for (int times = 0; times < 4; times++) {
            records.forEach(record -> member.acknowledge(record, AcknowledgeType.RENEW));
            told.add(ShareWorld.results(member.commitSync()));
            records = ShareWorld.poll(member);
            told.add(ShareWorld.counted(records));
            taken += other.poll(Duration.ofMillis(1500)).count();
        }
        records.forEach(member::acknowledge);
        told.add(ShareWorld.results(member.commitSync()));
        return told + ", " + taken + " " + ShareWorld.further(other);
    }
}
