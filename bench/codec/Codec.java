// Measures Apache Kafka's generated codec: a line "kind key version base64" in, a line "decode-µs encode-µs" out.

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Scanner;
import java.util.function.Supplier;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Codec {
    static final int ROUNDS = 7;
    static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
    static Object kept;

    public static void main(String[] arguments) {
        double seconds = Double.parseDouble(arguments[0]);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ");
            short key = Short.parseShort(parts[1]);
            short version = Short.parseShort(parts[2]);
            byte[] data = Base64.getDecoder().decode(parts[3]);
            Supplier<ApiMessage> decode = () -> decode(parts[0], key, version, data);
            ApiMessage message = decode.get();
            if (!ByteBuffer.wrap(data).equals(encode(message, version))) {
                throw new IllegalStateException(message + " is written differently");
            }
            double decodeUs = bestUs(decode, seconds);
            double encodeUs = bestUs(() -> encode(message, version), seconds);
            System.out.println(decodeUs + " " + encodeUs);
        }
    }

    static ApiMessage decode(String kind, short key, short version, byte[] data) {
        ApiMessage message = switch (kind) {
            case "request" -> ApiMessageType.fromApiKey(key).newRequest();
            case "response" -> ApiMessageType.fromApiKey(key).newResponse();
            default -> MetadataRecordType.fromId(key).newMetadataRecord();
        };
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
        return message;
    }

    static ByteBuffer encode(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor out = new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
        message.write(out, cache, version);
        out.flip();
        return out.buffer();
    }

    /** The least mean CPU time over the rounds, after twice as long of warming up. */
    static double bestUs(Supplier<?> action, double seconds) {
        long count = 0;
        long end = System.nanoTime() + (long) (2e9 * seconds);
        for (; System.nanoTime() < end; count++) {
            kept = action.get();
        }
        int repeats = (int) Math.max(1, count / 2 / ROUNDS);
        double best = Double.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            long began = CLOCK.getCurrentThreadCpuTime();
            for (int i = 0; i < repeats; i++) {
                kept = action.get();
            }
            best = Math.min(best, (CLOCK.getCurrentThreadCpuTime() - began) / 1e3 / repeats);
        }
        return best;
    }
}
