import java.lang.reflect.Field;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the names of all properties of clients, and with the argument "connector" those of Spark's options. */
public class ConnectorOptions {
    public static void main(String[] words) throws Exception {
        print("consumer", ConsumerConfig.configNames());
        print("producer", ProducerConfig.configNames());
        if (words.length == 1) {
            print(words[0], optionsOfConnector());
        }
    }

    private static Set<String> optionsOfConnector() throws Exception {
        Class<?> provider = Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider$");
        Set<String> names = new TreeSet<>();
        for (Field field : provider.getDeclaredFields()) {
            if (field.getType() == String.class) {
                field.setAccessible(true);
                String value = (String) field.get(null);
                // The other constants are texts, a duration and names of classes.
                if (value != null && value.matches("[_a-zA-Z.]+") && !value.startsWith("org.")) {
                    names.add(value.toLowerCase());
                }
            }
        }
        return names;
    }

    private static void print(String kind, Set<String> names) {
        for (String name : new TreeSet<>(names)) {
            System.out.println(kind + " " + name);
        }
    }
}
