import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Apache Kafka's own codec as a filter: a question a line on stdin, an answer a line on stdout, both JSON; bytes are
 * base64. A failure inside Kafka is an answer too: {"error": text}.
 *
 *   {"op": "list"}     every generated message of the class path with its versions, field names and api key, and
 *                      every API with its header versions
 *   {"op": "message", "class", "version", "json", "bytes", "later"?, "tags"?}
 *                      "encoded": the bytes of `json`; "json" and "again": `bytes` read, as JSON and written again;
 *                      "later_json": `later` read; with `tags`, "tagged": the bytes of `json` with a tagged field
 *                      that is unknown in every structure
 *   {"op": "build", "magic", …, "records": […]}    "bytes": the record batch (or, before magic 2, message set)
 *   {"op": "read", "bytes"}                        "batches": what Kafka's consumers read in these bytes
 *   {"op": "down_convert", "bytes", "magic", "first_offset"}    "bytes": what a broker before 4.0 sends to an old consumer
 */
public class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CONVERTER = "JsonConverter.class";
    // Greater than every tag that Kafka declares and than those of the later declarations it is sent.
    private static final int UNKNOWN_TAG = 5000;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                answer = JSON.createObjectNode().put("error", cause.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        String op = question.get("op").asText();
        switch (op) {
            case "list": return list();
            case "message": return message(question);
            case "build": return build(question);
            case "read": return read(question.get("bytes").binaryValue());
            case "down_convert": return downConvert(question);
            default: throw new IllegalArgumentException("no operation " + op);
        }
    }

    // ---- messages

    private static ObjectNode list() throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode messages = answer.putArray("messages");
        for (String name : generated()) {
            Class<?> type = Class.forName(name);
            Message message = (Message) type.getConstructor().newInstance();
            ObjectNode found = messages.addObject().put("class", name);
            found.put("low", message.lowestSupportedVersion()).put("high", message.highestSupportedVersion());
            found.put("key", message instanceof ApiMessage ? ((ApiMessage) message).apiKey() : -1);
            Set<String> fields = new TreeSet<>();
            fieldNames(type, fields);
            fields.forEach(found.putArray("fields")::add);
        }
        ArrayNode apis = answer.putArray("apis");
        for (ApiKeys key : ApiKeys.values()) {
            ObjectNode api = apis.addObject().put("key", key.id);
            short low = key.messageType.lowestSupportedVersion();
            short high = key.messageType.highestSupportedVersion(false);
            api.put("low", low).put("high", high);
            ArrayNode headers = api.putArray("headers");
            for (short version = low; version <= high; version++)
                headers.addArray().add(key.requestHeaderVersion(version)).add(key.responseHeaderVersion(version));
        }
        return answer;
    }

    /** The names of all classes on the class path that Kafka's message generator wrote. */
    private static Set<String> generated() throws Exception {
        Set<String> names = new TreeSet<>();
        for (String entry : System.getProperty("java.class.path").split(":")) {
            if (!Files.isRegularFile(Path.of(entry)) || !Path.of(entry).getFileName().toString().startsWith("kafka"))
                continue;
            try (JarFile jar = new JarFile(entry)) {
                jar.stream().map(e -> e.getName()).filter(n -> n.endsWith(CONVERTER) && !n.contains("$")).forEach(
                    n -> names.add(n.substring(0, n.length() - CONVERTER.length()).replace('/', '.')));
            }
        }
        return names;
    }

    private static void fieldNames(Class<?> type, Set<String> found) {
        for (Field field : type.getDeclaredFields())
            if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("_"))
                found.add(field.getName());
        for (Class<?> inner : type.getDeclaredClasses())
            fieldNames(inner, found);
    }

    private static final Map<String, java.lang.reflect.Method> METHODS = new HashMap<>();

    private static java.lang.reflect.Method converter(String name, String method) throws Exception {
        String key = name + "." + method;
        if (!METHODS.containsKey(key)) {
            Class<?> type = Class.forName(name + "JsonConverter");
            METHODS.put(key, method.equals("read")
                ? type.getMethod("read", JsonNode.class, short.class)
                : type.getMethod("write", Class.forName(name), short.class, boolean.class));
        }
        return METHODS.get(key);
    }

    private static ObjectNode message(JsonNode question) throws Exception {
        String name = question.get("class").asText();
        short version = (short) question.get("version").asInt();
        ObjectNode answer = JSON.createObjectNode();
        Message fromJson = (Message) converter(name, "read").invoke(null, question.get("json"), version);
        answer.put("encoded", encode(fromJson, version));
        Message fromBytes = decode(name, question.get("bytes").binaryValue(), version);
        answer.set("json", asJson(name, fromBytes, version));
        answer.put("again", encode(fromBytes, version));
        if (question.has("later"))
            answer.set("later_json", asJson(name, decode(name, question.get("later").binaryValue(), version), version));
        if (question.has("tags")) {
            addUnknownTags(fromJson);
            answer.put("tagged", encode(fromJson, version));
        }
        return answer;
    }

    private static JsonNode asJson(String name, Message message, short version) throws Exception {
        return (JsonNode) converter(name, "write").invoke(null, message, version, false);
    }

    private static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining())
            throw new IllegalStateException(buffer.remaining() + " bytes less than announced");
        return buffer.array();
    }

    private static Message decode(String name, byte[] bytes, short version) throws Exception {
        Message message = (Message) Class.forName(name).getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining())
            throw new IllegalStateException(buffer.remaining() + " bytes are left over");
        return message;
    }

    private static void addUnknownTags(Object value) throws Exception {
        if (value instanceof Collection) {
            for (Object item : (Collection<?>) value)
                addUnknownTags(item);
        } else if (value instanceof Message) {
            for (Field field : value.getClass().getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("_")) {
                    field.setAccessible(true);
                    Object inner = field.get(value);
                    // A structure that a version lacks must stay its default.
                    if (!(inner instanceof Message) || !inner.equals(inner.getClass().getConstructor().newInstance()))
                        addUnknownTags(inner);
                }
            }
            List<RawTaggedField> unknown = ((Message) value).unknownTaggedFields();
            unknown.add(new RawTaggedField(UNKNOWN_TAG, new byte[0]));
            unknown.add(new RawTaggedField(UNKNOWN_TAG + 1, new byte[200]));
        }
    }

    // ---- record batches

    private static ObjectNode build(JsonNode question) throws Exception {
        byte magic = (byte) question.get("magic").asInt();
        boolean control = question.get("is_control").asBoolean();
        ByteBufferOutputStream stream = new ByteBufferOutputStream(512);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            stream, magic,
            Compression.of(CompressionType.forName(question.get("compression").asText())).build(),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.forName(question.get("timestamp_type").asText()),
            question.get("base_offset").asLong(), question.get("log_append_time").asLong(),
            question.get("producer_id").asLong(), (short) question.get("producer_epoch").asInt(),
            question.get("base_sequence").asInt(), question.get("is_transactional").asBoolean(), control,
            question.get("leader_epoch").asInt(), Integer.MAX_VALUE, question.get("delete_horizon_ms").asLong());
        for (JsonNode record : question.get("records")) {
            SimpleRecord made = new SimpleRecord(
                record.get("timestamp_ms").asLong(), bytes(record.get("key")), bytes(record.get("value")),
                headers(record.get("headers")));
            if (control)
                builder.appendControlRecordWithOffset(record.get("offset").asLong(), made);
            else
                builder.appendWithOffset(record.get("offset").asLong(), made);
        }
        return JSON.createObjectNode().put("bytes", bytes(builder.build().buffer()));
    }

    private static Header[] headers(JsonNode pairs) throws Exception {
        List<Header> made = new ArrayList<>();
        for (JsonNode pair : pairs)
            made.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
        return made.toArray(new Header[0]);
    }

    private static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return found;
    }

    private static ObjectNode read(byte[] bytes) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode batches = answer.putArray("batches");
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            ObjectNode found = batches.addObject();
            found.put("magic", batch.magic()).put("size", batch.sizeInBytes());
            found.put("compression", batch.compressionType().name);
            found.put("timestamp_type", batch.timestampType().name);
            found.put("last_offset", batch.lastOffset()).put("next_offset", batch.nextOffset());
            found.put("max_timestamp", batch.maxTimestamp());
            if (batch.magic() == RecordBatch.MAGIC_VALUE_V2)
                found.put("base_offset", batch.baseOffset()).put("count", batch.countOrNull());
            found.put("producer_id", batch.producerId()).put("producer_epoch", batch.producerEpoch());
            found.put("base_sequence", batch.baseSequence()).put("last_sequence", batch.lastSequence());
            found.put("leader_epoch", batch.partitionLeaderEpoch());
            found.put("is_transactional", batch.isTransactional()).put("is_control", batch.isControlBatch());
            found.put("delete_horizon_ms", batch.deleteHorizonMs().orElse(RecordBatch.NO_TIMESTAMP));
            found.put("crc", batch.checksum());
            ArrayNode inside = found.putArray("records");
            try (CloseableIterator<Record> iterator = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (iterator.hasNext())
                    inside.add(asJson(iterator.next()));
            }
        }
        if (records.validBytes() != bytes.length)
            throw new IllegalStateException(bytes.length - records.validBytes() + " bytes are left over");
        return answer;
    }

    /** By reflection, as Kafka 4 cannot do it any more. */
    private static ObjectNode downConvert(JsonNode question) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(question.get("bytes").binaryValue()));
        Object converted = MemoryRecords.class.getMethod("downConvert", byte.class, long.class, Time.class).invoke(
            records, (byte) question.get("magic").asInt(), question.get("first_offset").asLong(), Time.SYSTEM);
        MemoryRecords made = (MemoryRecords) converted.getClass().getMethod("records").invoke(converted);
        return JSON.createObjectNode().put("bytes", bytes(made.buffer()));
    }

    private static ObjectNode asJson(Record record) {
        record.ensureValid();
        ObjectNode made = JSON.createObjectNode();
        made.put("offset", record.offset()).put("timestamp_ms", record.timestamp());
        made.put("key", bytes(record.key())).put("value", bytes(record.value()));
        ArrayNode headers = made.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(header.value());
        return made;
    }
}
