package trimaran;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Gives each scan of kafka_log in a plan its own reader, which gets the conditions above the scan and makes only the
 * columns that are needed.
 *
 * Spark applies all conditions again. They are passed as JSON in the metadata of the first field of the schema, the
 * only thing that Spark passes to a reader; see conditions.py beside this file. Janino compiles this source, without
 * generic types and lambdas.
 */
public class ScanRule extends Rule {
    static final String FORMAT = "kafka_log";
    static final String CONDITIONS = "trimaran.conditions";
    static final String AMOUNT = "<kafka_log reads "; // marks the text in what Python serialized
    static final List USED = Arrays.asList(new Object[] {
        "topic", "partition", "offset", "timestamp", "base_offset", "last_offset", "max_timestamp"});

    public TreeNode apply(TreeNode plan) {
        return rewritten((LogicalPlan) plan, null, new ArrayList());
    }

    /** `needed` has sets of the attributes that operators above use; null means all. */
    static LogicalPlan rewritten(LogicalPlan plan, List needed, List conditions) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
            return isOurs(scan) ? own(scan, needed, conditions) : plan;
        }
        List below = null;
        List found = new ArrayList();
        if (plan instanceof Project) {
            below = new ArrayList();
            below.add(plan.references());
        } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter) {
            if (needed != null) {
                below = new ArrayList(needed);
                below.add(plan.references());
            }
            found = new ArrayList(conditions);
            found.add(((org.apache.spark.sql.catalyst.plans.logical.Filter) plan).condition());
        }
        return (LogicalPlan) plan.mapChildren(new Descent(below, found));
    }

    static class Descent extends AbstractFunction1 {
        private final List needed;
        private final List conditions;

        Descent(List needed, List conditions) {
            this.needed = needed;
            this.conditions = conditions;
        }

        public Object apply(Object child) {
            return rewritten((LogicalPlan) child, needed, conditions);
        }
    }

    static boolean isOurs(DataSourceV2ScanRelation relation) {
        return relation.scan().getClass() == PythonScan.class
            && FORMAT.equalsIgnoreCase((String) field(relation.scan(), "shortName"));
    }

    static Object field(Object scan, String name) {
        try {
            Field found = PythonScan.class.getDeclaredField(name);
            found.setAccessible(true);
            return found.get(scan);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static LogicalPlan own(DataSourceV2ScanRelation relation, List needed, List conditions) {
        PythonScan scan = (PythonScan) relation.scan();
        List output = new ArrayList();
        List fields = new ArrayList();
        StructField[] all = ((StructType) field(scan, "outputSchema")).fields();
        for (int i = 0; i < all.length; i++) {
            if (isNeeded((Attribute) relation.output().apply(i), needed)) {
                output.add(relation.output().apply(i));
                fields.add(all[i]);
            }
        }
        if (fields.isEmpty()) { // a count needs rows, and rows need a column
            int cheapest = cheapest(all);
            output.add(relation.output().apply(cheapest));
            fields.add(all[cheapest]);
        }
        List split = conjuncts(conditions);
        List written = new ArrayList();
        List shown = new ArrayList();
        for (int i = 0; i < split.size(); i++) {
            written.add(json((Expression) split.get(i)));
            Option whole = DataSourceStrategy$.MODULE$.translateFilter((Expression) split.get(i), true);
            if (whole.isDefined() && isUsed((Filter) whole.get())) {
                shown.add(whole.get());
            }
        }
        StructField first = (StructField) fields.get(0);
        MetadataBuilder metadata = new MetadataBuilder();
        for (int i = 0; i < all.length; i++) { // catalog_tables.py keeps options in a field that may not be needed
            metadata.withMetadata(all[i].metadata());
        }
        metadata.putString(CONDITIONS, text(written));
        fields.set(0, first.copy(first.name(), first.dataType(), first.nullable(), metadata.build()));
        StructType schema = new StructType((StructField[]) fields.toArray(new StructField[0]));
        String name = (String) field(scan, "shortName");
        PythonScan own = new OwnScan(
            new OwnSource((PythonDataSourceV2) field(scan, "ds"), name), name, schema,
            (CaseInsensitiveStringMap) field(scan, "options"), (Filter[]) shown.toArray(new Filter[0]));
        return relation.copy(
            relation.relation(), own, CollectionConverters.asScala(output).toSeq(), relation.keyGroupedPartitioning(),
            relation.ordering(), relation.pushedFilters(), relation.mergeableScan());
    }

    /** Whether the reader omits rows by the condition: conditions.py has the columns. */
    static boolean isUsed(Filter condition) {
        String[] columns = condition.references();
        for (int i = 0; i < columns.length; i++) {
            if (!USED.contains(columns[i].toLowerCase())) {
                return false;
            }
        }
        return !(condition instanceof IsNotNull);
    }

    static boolean isNeeded(Attribute attribute, List needed) {
        if (needed == null) {
            return true;
        }
        for (int i = 0; i < needed.size(); i++) {
            if (((AttributeSet) needed.get(i)).contains(attribute)) {
                return true;
            }
        }
        return false;
    }

    static int cheapest(StructField[] fields) {
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].dataType() instanceof IntegerType) {
                return i;
            }
        }
        return 0;
    }

    static List conjuncts(List conditions) {
        List found = new ArrayList();
        for (int i = 0; i < conditions.size(); i++) {
            Expression one = (Expression) conditions.get(i);
            if (one instanceof And) {
                found.addAll(conjuncts(Arrays.asList(new Object[] {((And) one).left(), ((And) one).right()})));
            } else {
                found.add(one);
            }
        }
        return found;
    }

    /** Returns nested lists: an operator's name and its operands; null for what only Spark evaluates. */
    static Object json(Expression one) {
        if (one instanceof And) {
            return list("And", json(((And) one).left()), json(((And) one).right()));
        }
        if (one instanceof Or) {
            return list("Or", json(((Or) one).left()), json(((Or) one).right()));
        }
        if (one instanceof Not) {
            return list("Not", json(((Not) one).child()), null);
        }
        Option leaf = DataSourceStrategy$.MODULE$.translateFilter(one, true);
        if (leaf.isDefined()) {
            return leafJson((Product) leaf.get());
        }
        return null;
    }

    static Object leafJson(Product leaf) {
        List found = new ArrayList();
        found.add(leaf.productPrefix());
        Iterator operands = leaf.productIterator();
        while (operands.hasNext()) {
            found.add(value(operands.next()));
        }
        return found;
    }

    static Object list(String name, Object left, Object right) {
        List found = new ArrayList();
        found.add(name);
        found.add(left);
        found.add(right);
        return found;
    }

    /** Returns text, integers and null as they are, times as {"us": microseconds}, and any other value as {}. */
    static Object value(Object one) {
        if (one == null || one instanceof String || one instanceof Integer || one instanceof Long
            || one instanceof Short || one instanceof Byte) {
            return one;
        }
        if (one instanceof Object[]) {
            List found = new ArrayList();
            Object[] elements = (Object[]) one;
            for (int i = 0; i < elements.length; i++) {
                found.add(value(elements[i]));
            }
            return found;
        }
        java.util.Map special = new java.util.HashMap();
        if (one instanceof java.sql.Timestamp) {
            special.put("us", Long.valueOf(DateTimeUtils.fromJavaTimestamp((java.sql.Timestamp) one)));
        } else if (one instanceof java.time.Instant) {
            special.put("us", Long.valueOf(DateTimeUtils.instantToMicros((java.time.Instant) one)));
        }
        return special;
    }

    static String text(List conditions) {
        try {
            return new ObjectMapper().writeValueAsString(conditions);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns the own scan that the plan consists of, also if it selects all columns of the scan; else null. */
    static DataSourceV2ScanRelation scanOf(LogicalPlan plan) {
        LogicalPlan below = plan;
        if (plan instanceof Project) {
            below = ((Project) plan).child();
            Iterator selected = ((Project) plan).projectList().iterator();
            while (selected.hasNext()) {
                if (!(selected.next() instanceof AttributeReference)) {
                    return null;
                }
            }
        }
        boolean isOwn = below instanceof DataSourceV2ScanRelation
            && ((DataSourceV2ScanRelation) below).scan() instanceof OwnScan;
        return isOwn && plan.sameOutput(below) ? (DataSourceV2ScanRelation) below : null;
    }

    /** Plans a scan without the projection with which Spark copies each row: rows from Python are in Spark's format. */
    public static class Planning extends SparkStrategy {
        public Seq apply(LogicalPlan plan) {
            List found = new ArrayList();
            DataSourceV2ScanRelation scan = scanOf(plan);
            if (scan != null) {
                Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
                found.add(new BatchScanExec(
                    scan.output(), scan.scan(), none, scan.ordering(), scan.relation().table(),
                    scan.keyGroupedPartitioning()));
            }
            return CollectionConverters.asScala(found).toSeq();
        }
    }

    /** Plans a scan by itself: Spark's own object would pass the plan of one scan to all scans of a DataFrame. */
    static class OwnSource extends PythonDataSourceV2 {
        private final PythonDataSourceV2 shared;

        OwnSource(PythonDataSourceV2 shared, String name) {
            this.shared = shared;
            setShortName(name);
        }

        public UserDefinedPythonDataSource source() {
            return shared.source();
        }

        public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
            String name, CaseInsensitiveStringMap options, Option schema) {
            return shared.getOrCreateDataSourceInPython(name, options, schema);
        }
    }

    /** Shows in plans how much is read. */
    static class OwnScan extends PythonScan {
        private final PythonDataSourceV2 source;
        private final String name;
        private final StructType schema;
        private final CaseInsensitiveStringMap options;

        OwnScan(PythonDataSourceV2 source, String name, StructType schema, CaseInsensitiveStringMap options,
            Filter[] conditions) {
            super(source, name, schema, options, conditions);
            this.source = source;
            this.name = name;
            this.schema = schema;
            this.options = options;
        }

        public String description() {
            String amount = amount();
            return amount.isEmpty() ? super.description() : amount;
        }

        public scala.collection.immutable.Map getMetaData() {
            return (scala.collection.immutable.Map) super.getMetaData().updated("Reads", amount());
        }

        /** Returns how much is read, as the reader has planned it; empty if it cannot plan. */
        private String amount() {
            try {
                Iterator partitions = source.getOrCreateReadInfo(name, options, schema, false).partitions().iterator();
                String first = new String((byte[]) partitions.next(), StandardCharsets.ISO_8859_1);
                int start = first.indexOf(AMOUNT) + AMOUNT.length();
                return first.substring(start, first.indexOf(">", start));
            } catch (Exception error) { // the query shows the error when it runs
                return "";
            }
        }
    }
}
