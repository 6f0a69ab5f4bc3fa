import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Kafka's own Admin client as a filter: an action a line on stdin (JSON, as `actions.py` makes them), an answer a line
 * on stdout: {} or {"error": name of the exception}. The argument names the brokers.
 */
public class Admin {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int POLL_MS = 50;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> settings = Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        try (AdminClient admin = AdminClient.create(settings)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                ObjectNode answer = JSON.createObjectNode();
                try {
                    act(admin, JSON.readTree(line));
                } catch (ExecutionException e) {
                    answer.put("error", e.getCause().getClass().getSimpleName());
                    answer.put("message", e.getCause().getMessage());
                } catch (RuntimeException e) {
                    answer.put("error", e.getClass().getSimpleName());
                    answer.put("message", e.getMessage());
                }
                out.println(JSON.writeValueAsString(answer));
                out.flush();
            }
        }
    }

    private static void act(AdminClient admin, JsonNode action) throws Exception {
        switch (action.get("op").asText()) {
            case "create_topic": createTopic(admin, action); break;
            case "delete_topic": admin.deleteTopics(List.of(text(action, "topic"))).all().get(); break;
            case "add_partitions": addPartitions(admin, action); break;
            case "configs": configs(admin, action); break;
            case "quotas": quotas(admin, action); break;
            case "add_scram": addScram(admin, action); break;
            case "remove_scram": removeScram(admin, action); break;
            case "add_acl": admin.createAcls(List.of(acl(action))).all().get(); break;
            case "remove_acl": admin.deleteAcls(List.of(acl(action).toFilter())).all().get(); break;
            case "reassign": reassign(admin, action); break;
            case "elect": elect(admin, action); break;
            case "delete_records": deleteRecords(admin, action); break;
            case "settled": settled(admin); break;
            default: throw new IllegalArgumentException("unknown action " + action);
        }
    }

    private static void createTopic(AdminClient admin, JsonNode action) throws Exception {
        NewTopic topic;
        if (action.has("assignment")) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            for (JsonNode replicas : action.get("assignment")) assignment.put(assignment.size(), numbers(replicas));
            topic = new NewTopic(text(action, "topic"), assignment);
        } else {
            short replication = (short) action.get("replication").asInt();
            topic = new NewTopic(text(action, "topic"), action.get("partitions").asInt(), replication);
        }
        Map<String, String> configs = new HashMap<>();
        action.get("configs").fields().forEachRemaining(one -> configs.put(one.getKey(), one.getValue().asText()));
        admin.createTopics(List.of(topic.configs(configs))).all().get();
    }

    private static void addPartitions(AdminClient admin, JsonNode action) throws Exception {
        List<List<Integer>> added = new ArrayList<>();
        for (JsonNode replicas : action.get("assignment")) added.add(numbers(replicas));
        NewPartitions partitions = NewPartitions.increaseTo(action.get("total").asInt(), added);
        admin.createPartitions(Map.of(text(action, "topic"), partitions)).all().get();
    }

    private static void configs(AdminClient admin, JsonNode action) throws Exception {
        ConfigResource.Type type = ConfigResource.Type.valueOf(text(action, "type"));
        List<AlterConfigOp> changes = new ArrayList<>();
        action.get("set").fields().forEachRemaining(one -> changes.add(new AlterConfigOp(
            new ConfigEntry(one.getKey(), one.getValue().asText()), AlterConfigOp.OpType.SET)));
        action.get("delete").forEach(key -> changes.add(new AlterConfigOp(
            new ConfigEntry(key.asText(), ""), AlterConfigOp.OpType.DELETE)));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, text(action, "name")), changes)).all().get();
    }

    private static void quotas(AdminClient admin, JsonNode action) throws Exception {
        Map<String, String> entity = new HashMap<>();
        action.get("entity").fields().forEachRemaining(one ->
            entity.put(one.getKey(), one.getValue().isNull() ? null : one.getValue().asText()));
        List<ClientQuotaAlteration.Op> changes = new ArrayList<>();
        action.get("set").fields().forEachRemaining(one ->
            changes.add(new ClientQuotaAlteration.Op(one.getKey(), one.getValue().asDouble())));
        action.get("delete").forEach(key -> changes.add(new ClientQuotaAlteration.Op(key.asText(), null)));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), changes))).all().get();
    }

    private static void addScram(AdminClient admin, JsonNode action) throws Exception {
        ScramCredentialInfo info =
            new ScramCredentialInfo(ScramMechanism.fromMechanismName(text(action, "mechanism")), action.get("iterations").asInt());
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
            text(action, "user"), info, bytes(action, "password"), bytes(action, "salt")))).all().get();
    }

    private static void removeScram(AdminClient admin, JsonNode action) throws Exception {
        ScramMechanism mechanism = ScramMechanism.fromMechanismName(text(action, "mechanism"));
        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(text(action, "user"), mechanism))).all().get();
    }

    private static AclBinding acl(JsonNode action) {
        ResourcePattern resource = new ResourcePattern(ResourceType.valueOf(text(action, "type")), text(action, "name"),
            PatternType.valueOf(text(action, "pattern")));
        return new AclBinding(resource, new AccessControlEntry(text(action, "principal"), text(action, "host"),
            AclOperation.valueOf(text(action, "operation")), AclPermissionType.valueOf(text(action, "permission"))));
    }

    private static void reassign(AdminClient admin, JsonNode action) throws Exception {
        TopicPartition partition = new TopicPartition(text(action, "topic"), action.get("partition").asInt());
        Optional<NewPartitionReassignment> target = action.get("replicas").isNull()
            ? Optional.empty() : Optional.of(new NewPartitionReassignment(numbers(action.get("replicas"))));
        admin.alterPartitionReassignments(Map.of(partition, target)).all().get();
        while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) Thread.sleep(POLL_MS);
    }

    private static void elect(AdminClient admin, JsonNode action) throws Exception {
        Set<TopicPartition> chosen = new HashSet<>();
        for (JsonNode one : action.get("partitions")) chosen.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt()));
        Map<TopicPartition, Optional<Throwable>> outcomes =
            admin.electLeaders(ElectionType.PREFERRED, chosen).partitions().get();
        for (Optional<Throwable> outcome : outcomes.values()) {
            if (outcome.isPresent()) throw new ExecutionException(outcome.get());
        }
    }

    private static void deleteRecords(AdminClient admin, JsonNode action) throws Exception {
        TopicPartition partition = new TopicPartition(text(action, "topic"), action.get("partition").asInt());
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(action.get("offset").asLong()))).all().get();
    }

    /** Until all replicas of all partitions are in sync. */
    private static void settled(AdminClient admin) throws Exception {
        boolean all = false;
        while (!all) {
            Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            all = true;
            for (TopicDescription topic : admin.describeTopics(names).all().get().values()) {
                for (TopicPartitionInfo one : topic.partitions()) {
                    all &= one.leader() != null && one.isr().size() == one.replicas().size();
                }
            }
            if (!all) Thread.sleep(POLL_MS);
        }
    }

    private static String text(JsonNode action, String name) {
        return action.get(name).asText();
    }

    private static byte[] bytes(JsonNode action, String name) {
        return text(action, name).getBytes(StandardCharsets.UTF_8);
    }

    private static List<Integer> numbers(JsonNode array) {
        List<Integer> found = new ArrayList<>();
        array.forEach(one -> found.add(one.asInt()));
        return found;
    }
}
