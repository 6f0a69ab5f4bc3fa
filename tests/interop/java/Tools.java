import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, which loads their classes once.
 *
 * Each line of the input is the main class and the arguments of a tool, separated by tabs. The line of output for it is
 * the exit code, and the standard output and the standard error in Base64, separated by tabs. The shutdown hooks of a
 * tool run when its main method ends.
 */
public final class Tools {

    private static final PrintStream ANSWERS = System.out;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream error = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(error, true, "UTF-8"));
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            ANSWERS.println(code + "\t" + encoded(out) + "\t" + encoded(error));
            ANSWERS.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Runs a tool in a thread, which never returns from a call that would end the JVM. */
    private static int run(String tool, String[] arguments) throws Exception {
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        CompletableFuture<Integer> code = new CompletableFuture<>();
        Exit.Procedure exit = (status, message) -> {
            code.complete(status);
            while (true) {
                LockSupport.park();
            }
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                code.complete(0);
            } catch (InvocationTargetException wrapped) {
                wrapped.getCause().printStackTrace();
                code.complete(1);
            } catch (ReflectiveOperationException error) {
                code.completeExceptionally(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        int status = code.get();
        hooks.forEach(Runnable::run);
        return status;
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
