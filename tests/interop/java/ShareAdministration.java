import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Groups, their offsets and their configs by Admin. */
final class ShareAdministration {

    static void add(Map<String, ShareCases.Case> cases) {
        cases.put("offsets-are-listed", ShareAdministration::listed);
        cases.put("offsets-of-single-partitions", world -> {
            consumed(world);
            TopicPartition none = new TopicPartition("none", 0);
            TopicPartition beyond = new TopicPartition(world.topic, 7);
            List<String> told = new ArrayList<>();
            for (TopicPartition one : List.of(world.partition, none, beyond)) {
                ListShareGroupOffsetsSpec spec = new ListShareGroupOffsetsSpec().topicPartitions(List.of(one));
                KafkaFuture<Map<TopicPartition, SharePartitionOffsetInfo>> found =
                    world.admin.listShareGroupOffsets(Map.of(world.group, spec)).partitionsToOffsetInfo(world.group);
                String error = ShareWorld.told(found);
                told.add(error.equals("ok") ? String.valueOf(found.get().get(one)) : error);
            }
            return told;
        });
        cases.put("offsets-of-an-unknown-group", world ->
            ShareWorld.told(world.admin.listShareGroupOffsets(Map.of("none", new ListShareGroupOffsetsSpec())).all()));
        cases.put("alter-offsets", world -> {
            consumed(world);
            String told = ShareWorld.told(world.admin.alterShareGroupOffsets(world.group,
                Map.of(world.partition, 2L)).all());
            return told + " " + offset(world, world.group) + " " + ShareWorld.read(world.member(), 3);
        });
        cases.put("alter-offsets-of-a-group-in-use", world -> {
            world.produce("a");
            ShareWorld.read(world.member(), 1);
            return ShareWorld.told(world.admin.alterShareGroupOffsets(world.group,
                Map.of(world.partition, 0L)).all());
        });
        cases.put("alter-offsets-of-what-is-not", world -> {
            consumed(world);
            List<String> told = new ArrayList<>();
            for (TopicPartition one : List.of(new TopicPartition("none", 0), new TopicPartition(world.topic, 7))) {
                told.add(ShareWorld.told(world.admin.alterShareGroupOffsets(world.group, Map.of(one, 0L))
                    .partitionResult(one)));
            }
            told.add(ShareWorld.told(world.admin.alterShareGroupOffsets("g-none-" + world.group,
                Map.of(world.partition, 0L)).all()));
            return told;
        });
        cases.put("delete-offsets", world -> {
            consumed(world);
            String told = ShareWorld.told(world.admin.deleteShareGroupOffsets(world.group, Set.of(world.topic)).all());
            String again = ShareWorld.told(world.admin.deleteShareGroupOffsets(world.group, Set.of("none"))
                .topicResult("none"));
            return told + " " + again + " " + offset(world, world.group) + " " + ShareWorld.read(world.member(), 5);
        });
        cases.put("delete-offsets-of-a-group-in-use", world -> {
            world.produce("a");
            ShareWorld.read(world.member(), 1);
            return ShareWorld.told(world.admin.deleteShareGroupOffsets(world.group, Set.of(world.topic)).all());
        });
        cases.put("delete-groups", world -> {
            world.produce("a");
            ShareConsumer<String, String> member = world.member();
            ShareWorld.read(member, 1);
            String used = ShareWorld.told(world.admin.deleteShareGroups(List.of(world.group)).all());
            member.close();
            String empty = ShareWorld.told(world.admin.deleteShareGroups(List.of(world.group)).all());
            String gone = ShareWorld.told(world.admin.deleteShareGroups(List.of(world.group)).all());
            String told = ShareWorld.told(world.admin.describeShareGroups(List.of(world.group)).all());
            return List.of(used, empty, gone, told) + " " + ShareWorld.read(world.member(), 1);
        });
        cases.put("described-groups", ShareAdministration::described);
        cases.put("listed-groups", world -> {
            consumed(world);
            List<String> told = new ArrayList<>();
            for (GroupListing one : world.admin.listGroups(ListGroupsOptions.forShareGroups()).all().get()) {
                if (one.groupId().equals(world.group)) {
                    told.add(one.type() + " " + one.protocol() + " " + one.groupState());
                }
            }
            return told;
        });
        cases.put("other-kinds-do-not-know-it", world -> {
            consumed(world);
            List<String> told = new ArrayList<>();
            told.add(ShareWorld.told(world.admin.describeConsumerGroups(List.of(world.group)).all()));
            told.add(ShareWorld.told(world.admin.describeStreamsGroups(List.of(world.group)).all()));
            told.add(ShareWorld.told(world.admin.describeClassicGroups(List.of(world.group)).all()));
            told.add(ShareWorld.told(world.admin.listConsumerGroupOffsets(world.group).all()));
            told.add(ShareWorld.told(world.admin.deleteConsumerGroups(List.of(world.group)).all()));
            return told;
        });
        cases.put("configs-of-a-group", world -> {
            world.configure(world.group, "share.session.timeout.ms", "50000");
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, world.group);
            Set<String> told = new TreeSet<>();
            world.admin.describeConfigs(List.of(group)).all().get().get(group).entries().stream()
                .filter(entry -> entry.name().startsWith("share.") || entry.name().startsWith("errors."))
                .forEach(entry -> told.add(entry.name() + "=" + entry.value() + " " + entry.source()));
            return told;
        });
        cases.put("refused-configs-of-a-group", world -> {
            List<String> told = new ArrayList<>();
            for (String pair : List.of("share.record.lock.duration.ms=1", "share.delivery.count.limit=1",
                "share.delivery.count.limit=11", "share.isolation.level=none", "share.heartbeat.interval.ms=1",
                "share.partition.max.record.locks=1", "share.renew.acknowledge.enable=maybe",
                "errors.deadletterqueue.topic.name=__x", "share.unknown=1")) {
                told.add(ShareWorld.error(() -> {
                    world.configure(world.group, pair.split("="));
                    return null;
                }));
            }
            return told;
        });
    }

    /** A group without members that has read and acknowledged five records. */
    private static void consumed(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(5));
        ShareConsumer<String, String> member = world.member();
        ShareWorld.read(member, 5);
        member.commitSync();
        member.close();
    }

    private static SharePartitionOffsetInfo info(ShareWorld world, String group) throws Exception {
        return world.admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(group).get().get(world.partition);
    }

    private static String offset(ShareWorld world, String group) throws Exception {
        SharePartitionOffsetInfo found = info(world, group);
        return found == null ? "none" : found.startOffset() + " lag " + found.lag() + " epoch " + found.leaderEpoch();
    }

    private static String listed(ShareWorld world) throws Exception {
        world.produce(ShareWorld.numbered(5));
        ShareConsumer<String, String> member = world.member(ShareWorld.EXPLICIT);
        List<ConsumerRecord<String, String>> records = ShareWorld.poll(member);
        List<String> told = new ArrayList<>(List.of(offset(world, world.group)));
        for (ConsumerRecord<String, String> record : records) {
            member.acknowledge(record, ShareAcknowledgements.kind(record.offset() % 2 == 0));
        }
        member.commitSync();
        told.add(offset(world, world.group));
        ShareWorld.poll(member).forEach(member::acknowledge);
        member.commitSync();
        told.add(offset(world, world.group));
        world.produce("later");
        told.add(offset(world, world.group));
        return told.toString();
    }

    private static String described(ShareWorld world) throws Exception {
        ShareConsumer<String, String> member = world.member("client.id", "described");
        world.produce("a");
        ShareWorld.read(member, 1);
        ShareGroupDescription group = description(world);
        List<String> told = new ArrayList<>();
        group.members().forEach(one -> told.add(one.clientId() + " " + one.host() + " " + one.rackId() + " "
            + one.assignment().topicPartitions().equals(Set.of(world.partition))
            + (one.memberEpoch() == group.groupEpoch())));
        told.add(group.groupState() + " " + group.groupEpoch() + " " + group.targetAssignmentEpoch() + " "
            + group.authorizedOperations());
        member.close();
        ShareGroupDescription empty = description(world);
        told.add(empty.groupState() + " " + empty.members().size());
        told.add(ShareWorld.told(world.admin.describeShareGroups(List.of("none")).all()));
        return told.toString();
    }

    private static ShareGroupDescription description(ShareWorld world) throws Exception {
        return world.admin.describeShareGroups(List.of(world.group)).all().get().get(world.group);
    }
}
