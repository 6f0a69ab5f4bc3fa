import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Cases of share groups (KIP-932) as a client sees them, each with topics and groups of its own. Most of them are those
 * of Apache Kafka's ShareConsumerTest, rewritten. Prints "NAME, tab, outcome" once a case has ended.
 *
 * Arguments: bootstrap servers, number of cases at a time, names of cases (all but those of faults if there are none).
 * A case that needs a fault prints "do WORDS" and reads a line of standard input once it was done.
 */
public final class ShareCases {
    private static final int MINUTES_MAX = 20;

    /** What a case does; its value is what it saw, as text. */
    interface Case {
        Object run(ShareWorld world) throws Exception;
    }

    public static void main(String[] args) throws InterruptedException {
        Map<String, Case> cases = new LinkedHashMap<>();
        ShareSubscriptions.add(cases);
        ShareDeliveries.add(cases);
        ShareAcknowledgements.add(cases);
        ShareCallbacks.add(cases);
        ShareLocks.add(cases);
        ShareIsolation.add(cases);
        ShareAdministration.add(cases);
        Map<String, Case> faults = new LinkedHashMap<>();
        ShareFaults.add(faults);
        List<String> names = List.of(args).subList(2, args.length);
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[1]));
        for (String name : names.isEmpty() ? cases.keySet() : names) {
            Case found = cases.containsKey(name) ? cases.get(name) : faults.get(name);
            pool.execute(() -> say(name + "\t" + outcome(args[0], name, found)));
        }
        pool.shutdown();
        System.exit(pool.awaitTermination(MINUTES_MAX, TimeUnit.MINUTES) ? 0 : 1);
    }

    private static String outcome(String bootstrap, String name, Case found) {
        try (ShareWorld world = new ShareWorld(bootstrap, name)) {
            return String.valueOf(found.run(world));
        } catch (Exception | AssertionError error) {
            StringBuilder text = new StringBuilder("ended by " + error);
            for (StackTraceElement at : error.getStackTrace()) {
                if (at.getClassName().startsWith("Share")) {
                    text.append(" ").append(at.getFileName()).append(":").append(at.getLineNumber());
                }
            }
            return text.toString().replace('\n', ' ');
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
