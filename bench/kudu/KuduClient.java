// The client of real Kudu in `nyala bench kudu`: steps of the benchmark, each measured here, in Java.
//
//     java -cp kudu-client.jar:async.jar:slf4j-api.jar:slf4j-nop.jar KuduClient.java MASTERS
//
// It reads one command per line from standard input and answers each with one line: fields are separated by tabs, and
// an answer begins with "ok" or "error". It ends at the end of its input. `kudu_client.py` is the other end.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.KuduException;
import org.apache.kudu.client.KuduPredicate;
import org.apache.kudu.client.KuduPredicate.ComparisonOp;
import org.apache.kudu.client.KuduScanToken;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.Operation;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RowResult;
import org.apache.kudu.client.RowResultIterator;
import org.apache.kudu.client.SessionConfiguration.FlushMode;

public class KuduClient {
    private static final int FIELDS = 10;
    private static final int FIELD_BYTES = 100;

    private final org.apache.kudu.client.KuduClient client;
    private final Map<String, KuduTable> tables = new ConcurrentHashMap<>();
    /** Keys of YCSB: the loaded ones, then those of acknowledged inserts in their order. */
    private volatile AcknowledgedKeys acknowledged;

    KuduClient(String masters) {
        client = new org.apache.kudu.client.KuduClient.KuduClientBuilder(masters)
            .defaultOperationTimeoutMs(120_000)
            .build();
    }

    public static void main(String[] arguments) throws Exception {
        KuduClient all = new KuduClient(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ok");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = all.execute(line.split("\t"));
                answer = answer.isEmpty() ? "ok" : "ok\t" + answer;
            } catch (Throwable error) {
                answer = "error\t" + String.valueOf(error).replaceAll("\\s+", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }

    private String execute(String[] words) throws Exception {
        switch (words[0]) {
            case "create": return create(words[1], integer(words[2]), integer(words[3]));
            case "ingest": return ingest(integer(words[1]), integer(words[2]), integer(words[3]), integer(words[4]));
            case "single":
                return single(words[1], integer(words[2]), integer(words[3]), integer(words[4]), integer(words[5]));
            case "load": return load(Path.of(words[1]), integer(words[2]), integer(words[3]));
            case "operate": return operate(Path.of(words[1]), integer(words[2]), Double.parseDouble(words[3]));
            case "lineitem": return lineitem(Path.of(words[1]), integer(words[2]), integer(words[3]));
            case "scan": return scan(words[1], integer(words[2]));
            case "beside":
                return beside(integer(words[1]), integer(words[2]), integer(words[3]), integer(words[4]),
                    Double.parseDouble(words[5]));
            case "beat": return beat(integer(words[1]));
            case "leader": return leader(words[1]);
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    // ---- tables ----------------------------------------------------------------------------------------------------

    private String create(String name, int replicas, int buckets) throws KuduException {
        List<ColumnSchema> columns = new ArrayList<>();
        List<String> hashed;
        switch (name) {
            case "t":
                columns.add(column("k", Type.INT64, true));
                columns.add(column("a", Type.INT32, false));
                columns.add(column("b", Type.DOUBLE, false));
                columns.add(column("c", Type.STRING, false));
                columns.add(new ColumnSchema.ColumnSchemaBuilder("d", Type.INT64).nullable(true).build());
                hashed = List.of("k");
                break;
            case "usertable":
                columns.add(column("ycsb_key", Type.STRING, true));
                for (int field = 0; field < FIELDS; field++) {
                    columns.add(column("field" + field, Type.STRING, false));
                }
                hashed = List.of("ycsb_key");
                break;
            case "lineitem":
                for (String text : LINEITEM) {
                    String[] parts = text.split(" ");
                    columns.add(column(parts[0], Type.valueOf(parts[1]), parts.length > 2));
                }
                hashed = List.of("l_orderkey");
                break;
            case "beat":
            case "idle":
                columns.add(column("k", Type.INT64, true));
                hashed = List.of("k");
                break;
            default:
                throw new IllegalArgumentException("unknown table " + name);
        }
        CreateTableOptions options = new CreateTableOptions().setNumReplicas(replicas);
        if (buckets > 1) {
            options.addHashPartitions(hashed, buckets);
        } else {
            options.setRangePartitionColumns(hashed);
        }
        tables.put(name, client.createTable(name, new Schema(columns), options));
        return "";
    }

    private static ColumnSchema column(String name, Type type, boolean isKey) {
        return new ColumnSchema.ColumnSchemaBuilder(name, type).key(isKey).build();
    }

    private KuduTable table(String name) throws KuduException {
        KuduTable known = tables.get(name);
        if (known == null) {
            known = client.openTable(name);
            tables.put(name, known);
        }
        return known;
    }

    /** The host and port of the leader of a table's only tablet. */
    private String leader(String name) throws Exception {
        return table(name).getTabletsLocations(60_000).get(0).getLeaderReplica().getRpcHost() + ":"
            + table(name).getTabletsLocations(60_000).get(0).getLeaderReplica().getRpcPort();
    }

    // ---- narrow rows -----------------------------------------------------------------------------------------------

    private String ingest(int first, int count, int batch, int threads) throws Exception {
        AtomicInteger next = new AtomicInteger(first);
        return seconds(inThreads(threads, number -> {
            KuduSession session = manual(batch);
            for (int start = next.getAndAdd(batch); start < first + count; start = next.getAndAdd(batch)) {
                for (int key = start; key < Math.min(start + batch, first + count); key++) {
                    session.apply(narrow(key, 5));
                }
                check(session.flush());
            }
            session.close();
        }));
    }

    private Operation narrow(int key, int value) throws KuduException {
        Operation insert = table("t").newInsert();
        PartialRow row = insert.getRow();
        row.addLong("k", key);
        row.addInt("a", value);
        row.addDouble("b", 0.5);
        row.addString("c", Integer.toString(key));
        row.addLong("d", key);
        return insert;
    }

    /** `count` operations of one row: insert from `first` on; update or look up among `rows` rows from `first` on. */
    private String single(String step, int first, int count, int rows, int threads) throws Exception {
        AtomicInteger next = new AtomicInteger();
        return seconds(inThreads(threads, number -> {
            KuduSession session = client.newSession();
            session.setFlushMode(FlushMode.AUTO_FLUSH_SYNC);
            for (int index = next.getAndIncrement(); index < count; index = next.getAndIncrement()) {
                long key = first + (long) index * 61 % rows;
                if (step.equals("insert")) {
                    check(session.apply(narrow(first + index, 1)));
                } else if (step.equals("update")) {
                    Operation update = table("t").newUpdate();
                    update.getRow().addLong("k", key);
                    update.getRow().addInt("a", 7);
                    check(session.apply(update));
                } else {
                    lookUp(key);
                }
            }
            session.close();
        }));
    }

    private void lookUp(long key) throws KuduException {
        KuduTable t = table("t");
        KuduScanner scanner = client.newScannerBuilder(t)
            .setProjectedColumnNames(List.of("a", "b", "c"))
            .addPredicate(KuduPredicate.newComparisonPredicate(t.getSchema().getColumn("k"), ComparisonOp.EQUAL, key))
            .build();
        int rows = 0;
        for (RowResult row : scanner) {
            if (!row.getString("c").equals(Long.toString(key))) {
                throw new IllegalStateException("another row than that of key " + key);
            }
            rows++;
        }
        if (rows != 1) {
            throw new IllegalStateException(rows + " rows of key " + key);
        }
    }

    /** Look-ups among `rows` loaded rows by `readers` threads while `writers` threads ingest, for some seconds. */
    private String beside(int rows, int first, int readers, int writers, double limit) throws Exception {
        AtomicInteger next = new AtomicInteger(first);
        AtomicLong lookedUp = new AtomicLong();
        AtomicLong written = new AtomicLong();
        long deadline = System.nanoTime() + (long) (limit * 1e9);
        double taken = inThreads(readers + writers, number -> {
            if (number < readers) {
                for (long index = number; System.nanoTime() < deadline; index += readers) {
                    lookUp(index * 61 % rows);
                    lookedUp.incrementAndGet();
                }
                return;
            }
            KuduSession session = manual(10_000);
            while (System.nanoTime() < deadline) {
                int start = next.getAndAdd(10_000);
                for (int key = start; key < start + 10_000; key++) {
                    session.apply(narrow(key, 5));
                }
                check(session.flush());
                written.addAndGet(10_000);
            }
            session.close();
        });
        return seconds(taken) + "\tlooked_up=" + lookedUp + "\twritten=" + written;
    }

    /** Inserts one row, again and again until it is acknowledged; the time that took. */
    private String beat(int key) throws Exception {
        long began = System.nanoTime();
        KuduSession session = client.newSession();
        session.setFlushMode(FlushMode.AUTO_FLUSH_SYNC);
        while (true) {
            Operation upsert = table("beat").newUpsert();
            upsert.getRow().addLong("k", key);
            OperationResponse response = session.apply(upsert);
            if (!response.hasRowError()) {
                session.close();
                return seconds((System.nanoTime() - began) / 1e9);
            }
            if (System.nanoTime() - began > 120e9) {
                throw new IllegalStateException(response.getRowError().toString());
            }
        }
    }

    // ---- YCSB ------------------------------------------------------------------------------------------------------

    /** Loads rows with the keys of a file, one per line, in batches. */
    private String load(Path file, int batch, int threads) throws Exception {
        List<String> keys = Files.readAllLines(file);
        acknowledged = new AcknowledgedKeys(keys);
        AtomicInteger next = new AtomicInteger();
        return seconds(inThreads(threads, number -> {
            KuduSession session = manual(batch);
            for (int start = next.getAndAdd(batch); start < keys.size(); start = next.getAndAdd(batch)) {
                for (String key : keys.subList(start, Math.min(start + batch, keys.size()))) {
                    session.apply(wide(key));
                }
                check(session.flush());
            }
            session.close();
        }));
    }

    private Operation wide(String key) throws KuduException {
        Operation insert = table("usertable").newInsert();
        PartialRow row = insert.getRow();
        row.addString(0, key);
        for (int field = 0; field < FIELDS; field++) {
            row.addString(1 + field, value(key.hashCode() * 31 + field));
        }
        return insert;
    }

    /** A value of printable ASCII, of a cheap generator: YCSB's are random, too. */
    private static String value(int seed) {
        byte[] bytes = new byte[FIELD_BYTES];
        long state = seed * 0x9E3779B97F4A7C15L + 1;
        for (int place = 0; place < FIELD_BYTES; place++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            bytes[place] = (byte) (' ' + (state >>> 58));
        }
        return new String(bytes, StandardCharsets.US_ASCII);
    }

    /** One file of operations per thread, `client-N`: lines of kind, key or distance from the newest, and field. */
    private String operate(Path directory, int threads, double limit) throws Exception {
        List<List<String[]>> all = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            List<String[]> operations = new ArrayList<>();
            for (String line : Files.readAllLines(directory.resolve("client-" + number))) {
                operations.add(line.split("\t"));
            }
            all.add(operations);
        }
        long[][] durations = new long[threads][];
        AtomicLong failed = new AtomicLong();
        String[] error = new String[1];
        long[] deadline = new long[] {Long.MAX_VALUE};
        double taken = inThreads(threads, () -> deadline[0] = System.nanoTime() + (long) (limit * 1e9), number -> {
            KuduSession session = client.newSession();
            session.setFlushMode(FlushMode.AUTO_FLUSH_SYNC);
            long[] own = new long[all.get(number).size()];
            int done = 0;
            for (String[] operation : all.get(number)) {
                long began = System.nanoTime();
                if (began > deadline[0]) {
                    break;
                }
                try {
                    one(session, operation);
                    own[done++] = System.nanoTime() - began;
                } catch (Exception problem) {
                    failed.incrementAndGet();
                    error[0] = problem.toString().replaceAll("\\s+", " ");
                }
            }
            durations[number] = Arrays.copyOf(own, done);
            session.close();
        });
        long[] sorted = Arrays.stream(durations).flatMapToLong(Arrays::stream).sorted().toArray();
        String answer = seconds(taken) + "\tdone=" + sorted.length + "\tfailed=" + failed;
        for (double share : new double[] {0.5, 0.95, 0.99}) {
            double milliseconds = sorted.length == 0 ? 0 : sorted[(int) (share * (sorted.length - 1))] / 1e6;
            answer += "\tp" + (int) (100 * share) + "=" + milliseconds;
        }
        return error[0] == null ? answer : answer + "\terror=" + error[0];
    }

    private void one(KuduSession session, String[] operation) throws KuduException {
        String key = operation[1];
        if (key.startsWith("-")) {
            key = acknowledged.fromTheEnd(Integer.parseInt(key.substring(1)));
        }
        switch (operation[0]) {
            case "insert":
                check(session.apply(wide(key)));
                acknowledged.add(key);
                break;
            case "update":
                update(session, key, operation[2]);
                break;
            case "read":
                read(key);
                break;
            case "read-modify-write":
                read(key);
                update(session, key, operation[2]);
                break;
            default:
                throw new IllegalArgumentException(operation[0]);
        }
    }

    private void update(KuduSession session, String key, String field) throws KuduException {
        Operation update = table("usertable").newUpdate();
        update.getRow().addString(0, key);
        update.getRow().addString(1 + Integer.parseInt(field), value((int) System.nanoTime()));
        check(session.apply(update));
    }

    private void read(String key) throws KuduException {
        KuduTable usertable = table("usertable");
        ColumnSchema column = usertable.getSchema().getColumnByIndex(0);
        KuduScanner scanner = client.newScannerBuilder(usertable)
            .addPredicate(KuduPredicate.newComparisonPredicate(column, ComparisonOp.EQUAL, key))
            .build();
        int rows = 0;
        for (RowResult row : scanner) {
            for (int field = 0; field < FIELDS; field++) {
                if (row.getString(1 + field).length() != FIELD_BYTES) {
                    throw new IllegalStateException("a field of another length");
                }
            }
            rows++;
        }
        if (rows != 1) {
            throw new IllegalStateException(rows + " rows of key " + key);
        }
    }

    // ---- lineitem --------------------------------------------------------------------------------------------------

    /** Names and types; decimals are hundredths, and dates days since 1970, which this client reads fastest. */
    private static final String[] LINEITEM = {
        "l_orderkey INT64 key", "l_linenumber INT32 key", "l_partkey INT64", "l_suppkey INT64", "l_quantity INT64",
        "l_extendedprice INT64", "l_discount INT64", "l_tax INT64", "l_returnflag STRING", "l_linestatus STRING",
        "l_shipdate INT32", "l_commitdate INT32", "l_receiptdate INT32", "l_shipinstruct STRING", "l_shipmode STRING",
        "l_comment STRING",
    };

    /** Loads the lines of a file, in the order of the columns, separated by tabs. */
    private String lineitem(Path file, int batch, int threads) throws Exception {
        try (BufferedReader lines = Files.newBufferedReader(file)) {
            return seconds(inThreads(threads, number -> {
                KuduSession session = manual(batch);
                while (true) {
                    List<String> some = new ArrayList<>(batch);
                    synchronized (lines) {
                        for (String line = null; some.size() < batch && (line = lines.readLine()) != null; ) {
                            some.add(line);
                        }
                    }
                    if (some.isEmpty()) {
                        break;
                    }
                    for (String line : some) {
                        session.apply(item(line.split("\t", -1)));
                    }
                    check(session.flush());
                }
                session.close();
            }));
        }
    }

    private Operation item(String[] values) throws KuduException {
        Operation insert = table("lineitem").newInsert();
        PartialRow row = insert.getRow();
        Schema schema = table("lineitem").getSchema();
        for (int place = 0; place < values.length; place++) {
            switch (schema.getColumnByIndex(place).getType()) {
                case INT64: row.addLong(place, Long.parseLong(values[place])); break;
                case INT32: row.addInt(place, Integer.parseInt(values[place])); break;
                default: row.addString(place, values[place]);
            }
        }
        return insert;
    }

    /** A scan of lineitem by threads over its tablets; the sums that show that the rows were right. */
    private String scan(String query, int threads) throws Exception {
        KuduTable table = table("lineitem");
        Schema schema = table.getSchema();
        KuduScanToken.KuduScanTokenBuilder builder = client.newScanTokenBuilder(table);
        switch (query) {
            case "count":
                builder.setProjectedColumnNames(List.of());
                break;
            case "all":
                break;
            case "Q1":
                builder.setProjectedColumnNames(List.of("l_returnflag", "l_linestatus", "l_quantity",
                    "l_extendedprice", "l_discount", "l_tax"));
                builder.addPredicate(compare(schema, "l_shipdate", ComparisonOp.LESS_EQUAL, 10471));  // 1998-09-02
                break;
            case "Q6":
                builder.setProjectedColumnNames(List.of("l_extendedprice", "l_discount"));
                builder.addPredicate(compare(schema, "l_shipdate", ComparisonOp.GREATER_EQUAL, 8766));  // 1994-01-01
                builder.addPredicate(compare(schema, "l_shipdate", ComparisonOp.LESS, 9131));  // 1995-01-01
                builder.addPredicate(compare(schema, "l_discount", ComparisonOp.GREATER_EQUAL, 5));
                builder.addPredicate(compare(schema, "l_discount", ComparisonOp.LESS_EQUAL, 7));
                builder.addPredicate(compare(schema, "l_quantity", ComparisonOp.LESS, 2400));
                break;
            default:
                throw new IllegalArgumentException(query);
        }
        AtomicLong rows = new AtomicLong();
        AtomicLong sum = new AtomicLong();
        long began = System.nanoTime();
        List<KuduScanToken> tokens = builder.build();
        AtomicInteger next = new AtomicInteger();
        inThreads(threads, number -> {
            for (int place = next.getAndIncrement(); place < tokens.size(); place = next.getAndIncrement()) {
                KuduScanner scanner = tokens.get(place).intoScanner(client);
                Map<String, long[]> groups = new TreeMap<>();
                while (scanner.hasMoreRows()) {
                    RowResultIterator batch = scanner.nextRows();
                    rows.addAndGet(batch.getNumRows());
                    for (RowResult row : batch) {
                        read(query, row, groups);
                    }
                }
                groups.values().forEach(group -> sum.addAndGet(group[0]));
            }
        });
        return seconds((System.nanoTime() - began) / 1e9) + "\trows=" + rows + "\tsum=" + sum;
    }

    private static void read(String query, RowResult row, Map<String, long[]> groups) {
        switch (query) {
            case "Q1": {
                String key = row.getString(0) + row.getString(1);
                long[] group = groups.computeIfAbsent(key, missing -> new long[6]);
                long price = row.getLong(3);
                long discounted = price * (100 - row.getLong(4));
                group[0] += discounted;
                group[1] += row.getLong(2);
                group[2] += price;
                group[3] += discounted * (100 + row.getLong(5));
                group[4] += row.getLong(4);
                group[5]++;
                break;
            }
            case "Q6":
                groups.computeIfAbsent("", missing -> new long[1])[0] += row.getLong(0) * row.getLong(1);
                break;
            case "all":
                groups.computeIfAbsent("", missing -> new long[1])[0] += row.getLong(5);
                row.getString(15);
                break;
            default:
        }
    }

    private static KuduPredicate compare(Schema schema, String column, ComparisonOp comparison, long value) {
        return KuduPredicate.newComparisonPredicate(schema.getColumn(column), comparison, value);
    }

    // ---- threads and sessions --------------------------------------------------------------------------------------

    private interface Work {
        void run(int number) throws Exception;
    }

    private static double inThreads(int count, Work work) throws Exception {
        return inThreads(count, () -> { }, work);
    }

    /** Runs work in threads that start together, after `before`; the seconds until the last has ended. */
    private static double inThreads(int count, Runnable before, Work work) throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        List<Throwable> errors = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int own = number;
            threads.add(new Thread(() -> {
                try {
                    go.await();
                    work.run(own);
                } catch (Throwable error) {
                    synchronized (errors) {
                        errors.add(error);
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        before.run();
        long began = System.nanoTime();
        go.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        if (!errors.isEmpty()) {
            throw new IllegalStateException(errors.get(0));
        }
        return seconds;
    }

    private KuduSession manual(int batch) {
        KuduSession session = client.newSession();
        session.setFlushMode(FlushMode.MANUAL_FLUSH);
        session.setMutationBufferSpace(batch);
        return session;
    }

    private static void check(List<OperationResponse> responses) {
        responses.forEach(KuduClient::check);
    }

    private static void check(OperationResponse response) {
        if (response != null && response.hasRowError()) {
            throw new IllegalStateException(response.getRowError().toString());
        }
    }

    private static String seconds(double seconds) {
        return "seconds=" + seconds;
    }

    private static int integer(String text) {
        return Integer.parseInt(text);
    }

    /** The loaded keys, and those of acknowledged inserts in their order. */
    private static final class AcknowledgedKeys {
        private final List<String> keys;

        AcknowledgedKeys(List<String> loaded) {
            keys = new ArrayList<>(loaded);
        }

        synchronized void add(String key) {
            keys.add(key);
        }

        synchronized String fromTheEnd(int distance) {
            return keys.get(keys.size() - distance);
        }
    }
}
