import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;

/**
 * Kafka Streams' side of the benchmarks in bench/: the same rows and operations as its worker command, measured in the
 * same form, on the store of a running application whose only input are the commands of this program. Arguments are
 * pairs; see {@code bench/kafka.go}, which gives them.
 */
public final class Bench {
    private static final Map<String, String> ARGS = new HashMap<>();
    private static final long START = 1_700_000_000_000L;
    private static final int ROUND = 10_000;
    private static final int TIMES = 10;      // windows, sessions and versions of a key
    private static final long APART = 20_000; // ms between them
    private static byte[][] values;

    private Bench() { }

    public static void main(final String[] argv) throws Exception {
        for (int i = 0; i + 1 < argv.length; i += 2) {
            ARGS.put(argv[i].substring(2), argv[i + 1]);
        }
        final SplittableRandom random = new SplittableRandom(1);
        values = new byte[1024][100];
        for (final byte[] v : values) {
            random.nextBytes(v);
        }
        if (ARGS.get("phase").equals("restore")) {
            restore();
        } else {
            operations();
        }
        System.exit(0);
    }

    private static byte[] key(final long i) {
        return ByteBuffer.allocate(16).putLong(i * 0x9E3779B97F4A7C15L).putLong(i).array();
    }

    private static byte[] value(final int i) {
        return values[i & 1023];
    }

    private static Headers headers() {
        return new RecordHeaders()
            .add("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".getBytes(StandardCharsets.UTF_8))
            .add("tenant", "acme-eu1".getBytes(StandardCharsets.UTF_8));
    }

    private static int arg(final String name) {
        return Integer.parseInt(ARGS.get(name));
    }

    /** Gives the block cache its size, if one is asked for. */
    public static final class BlockCache implements RocksDBConfigSetter {
        private LRUCache cache;

        @Override
        public void setConfig(final String store, final Options options, final Map<String, Object> configs) {
            cache = new LRUCache(Long.parseLong((String) configs.get("bench.block.cache")));
            final BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
            table.setBlockCache(cache);
            options.setTableFormatConfig(table);
            options.setAllowMmapReads(Boolean.parseBoolean((String) configs.get("bench.mapped")));
        }

        @Override
        public void close(final String store, final Options options) {
            cache.close();
        }
    }

    private static Properties config(final String app) {
        final Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, app);
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, ARGS.get("bootstrap"));
        c.put(StreamsConfig.STATE_DIR_CONFIG, ARGS.get("state"));
        c.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, ARGS.get("record-cache"));
        c.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, BlockCache.class);
        c.put("bench.block.cache", ARGS.get("block-cache"));
        c.put("bench.mapped", ARGS.getOrDefault("mapped", "false"));
        c.put("auto.offset.reset", "earliest");
        c.put("max.poll.interval.ms", "3600000");
        // Else the next process of the same application waits for the session of this one to end.
        c.put("internal.leave.group.on.close", true);
        c.put("session.timeout.ms", "6000");
        c.put("heartbeat.interval.ms", "1000");
        return c;
    }

    private static StoreBuilder<? extends StateStore> builder(final String name) {
        final Serde<byte[]> bytes = Serdes.ByteArray();
        final Duration day = Duration.ofDays(1);
        final StoreBuilder<? extends StateStore> b = switch (ARGS.get("family")) {
            case "kv" -> Stores.timestampedKeyValueStoreWithHeadersBuilder(
                Stores.persistentTimestampedKeyValueStoreWithHeaders(name), bytes, bytes);
            case "windowed" -> Stores.timestampedWindowStoreWithHeadersBuilder(
                Stores.persistentTimestampedWindowStoreWithHeaders(name, day, Duration.ofMillis(APART), false), bytes, bytes);
            case "session" -> Stores.sessionStoreWithHeadersBuilder(Stores.persistentSessionStoreWithHeaders(name, day), bytes, bytes);
            case "versioned" -> Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore(name, day), bytes, bytes);
            default -> throw new IllegalArgumentException(ARGS.get("family"));
        };
        return ARGS.get("record-cache").equals("0") ? b : b.withCachingEnabled();
    }

    /** The operations of a family, on the i-th row. */
    private interface Subject {
        void put(int i);

        boolean get(int i);

        /** Reads the rows from the i-th on, up to 100, or those of the i-th row's key. */
        int range(int i);

        /** Reads all rows; 0 if the family has no such scan. */
        int scan();
    }

    @SuppressWarnings("unchecked")
    private static Subject subject(final StateStore store) {
        return switch (ARGS.get("family")) {
            case "kv" -> new KeyValue((KeyValueStore<byte[], ValueTimestampHeaders<byte[]>>) store);
            case "windowed" -> new Window((WindowStore<byte[], ValueTimestampHeaders<byte[]>>) store);
            case "session" -> new Session((SessionStore<byte[], AggregationWithHeaders<byte[]>>) store);
            default -> new Versioned((VersionedKeyValueStore<byte[], byte[]>) store);
        };
    }

    private record KeyValue(KeyValueStore<byte[], ValueTimestampHeaders<byte[]>> store) implements Subject {
        @Override
        public void put(final int i) {
            store.put(key(i), ValueTimestampHeaders.make(value(i), START + i, headers()));
        }

        @Override
        public boolean get(final int i) {
            return store.get(key(i)) != null;
        }

        @Override
        public int range(final int i) {
            try (KeyValueIterator<byte[], ValueTimestampHeaders<byte[]>> it = store.range(key(i), null)) {
                return count(it, 100);
            }
        }

        @Override
        public int scan() {
            try (KeyValueIterator<byte[], ValueTimestampHeaders<byte[]>> it = store.all()) {
                return count(it, Integer.MAX_VALUE);
            }
        }
    }

    private record Window(WindowStore<byte[], ValueTimestampHeaders<byte[]>> store) implements Subject {
        @Override
        public void put(final int i) {
            store.put(key(owner(i)), ValueTimestampHeaders.make(value(i), time(i), headers()), time(i));
        }

        @Override
        public boolean get(final int i) {
            return store.fetch(key(owner(i)), time(i)) != null;
        }

        @Override
        public int range(final int i) {
            try (WindowStoreIterator<ValueTimestampHeaders<byte[]>> it =
                     store.fetch(key(owner(i)), Instant.ofEpochMilli(START), Instant.ofEpochMilli(START + TIMES * APART))) {
                return count(it, Integer.MAX_VALUE);
            }
        }

        @Override
        public int scan() {
            try (KeyValueIterator<Windowed<byte[]>, ValueTimestampHeaders<byte[]>> it = store.all()) {
                return count(it, Integer.MAX_VALUE);
            }
        }
    }

    private record Session(SessionStore<byte[], AggregationWithHeaders<byte[]>> store) implements Subject {
        @Override
        public void put(final int i) {
            store.put(new Windowed<>(key(owner(i)), new SessionWindow(time(i), time(i) + 1000)),
                AggregationWithHeaders.make(value(i), headers()));
        }

        @Override
        public boolean get(final int i) {
            return store.fetchSession(key(owner(i)), time(i), time(i) + 1000) != null;
        }

        @Override
        public int range(final int i) {
            try (KeyValueIterator<Windowed<byte[]>, AggregationWithHeaders<byte[]>> it = store.fetch(key(owner(i)))) {
                return count(it, Integer.MAX_VALUE);
            }
        }

        @Override
        public int scan() {
            try (KeyValueIterator<Windowed<byte[]>, AggregationWithHeaders<byte[]>> it = store.fetch(null, null)) {
                return count(it, Integer.MAX_VALUE);
            }
        }
    }

    private record Versioned(VersionedKeyValueStore<byte[], byte[]> store) implements Subject {
        @Override
        public void put(final int i) {
            store.put(key(owner(i)), value(i), time(i));
        }

        @Override
        public boolean get(final int i) {
            return store.get(key(owner(i))) != null;
        }

        @Override
        public int range(final int i) { // a past version
            return store.get(key(owner(i)), time(i)) == null ? 0 : 1;
        }

        @Override
        public int scan() {
            return 0;
        }
    }

    /** Rows of one time lie together: windows arrive in the order of time. */
    private static int owner(final int i) {
        return i % Math.max(arg("rows") / TIMES, 1);
    }

    private static long time(final int i) {
        return START + i / Math.max(arg("rows") / TIMES, 1) * APART;
    }

    private static int count(final KeyValueIterator<?, ?> it, final int max) {
        int rows = 0;
        while (rows < max && it.hasNext()) {
            if (it.next().value != null) {
                rows++;
            }
        }
        return rows;
    }

    private static void operations() throws Exception {
        final String app = ARGS.get("app");
        final int n = arg("rows");
        createTopic(app + "-in", Map.of());
        final CountDownLatch done = new CountDownLatch(1);
        final Throwable[] failure = new Throwable[1];
        final Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), app + "-in");
        topology.addProcessor("bench", () -> new Processor<byte[], byte[], Void, Void>() {
            private ProcessorContext<Void, Void> context;
            private Subject store;
            private Subject warm;
            private Meter meter;

            @Override
            public void init(final ProcessorContext<Void, Void> context) {
                this.context = context;
                store = subject(context.getStateStore("store"));
                warm = subject(context.getStateStore("warm"));
            }

            /** Key: the command. Value: a number. A commit follows each record. */
            @Override
            public void process(final Record<byte[], byte[]> record) {
                final String command = new String(record.key(), StandardCharsets.UTF_8);
                final int from = ByteBuffer.wrap(record.value()).getInt();
                switch (command) {
                    case "warm" -> {
                        for (int i = from; i < from + ROUND; i++) {
                            warm.put(i);
                        }
                    }
                    case "begin" -> meter = new Meter();
                    case "put-distinct" -> {
                        for (int i = from; i < Math.min(from + ROUND, n); i++) {
                            store.put(i);
                        }
                    }
                    case "put" -> {
                        final int count = Math.min(ROUND, n - from);
                        final int distinct = (count + 2) / 3;
                        for (int i = 0; i < count; i++) {
                            store.put(from + i % distinct);
                        }
                    }
                    case "end" -> meter.report(ARGS.get("phase"), n);
                    case "read" -> reads(store, n, from);
                    default -> done.countDown();
                }
                context.commit();
            }
        }, "source");
        topology.addStateStore(builder("store").withLoggingDisabled(), "bench");
        topology.addStateStore(builder("warm").withLoggingDisabled(), "bench");
        try (KafkaStreams streams = new KafkaStreams(topology, config(app))) {
            streams.setUncaughtExceptionHandler(e -> {
                failure[0] = e;
                done.countDown();
                return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            command(app, n);
            done.await();
        }
        if (failure[0] != null) {
            throw new IllegalStateException(failure[0]);
        }
    }

    private static void command(final String app, final int n) throws Exception {
        try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(
            Map.of("bootstrap.servers", ARGS.get("bootstrap")), new ByteArraySerializer(), new ByteArraySerializer())) {
            final String phase = ARGS.get("phase");
            if (phase.startsWith("put")) {
                for (int i = 0; i < Math.min(n, 200_000); i += ROUND) {
                    send(p, app, "warm", i);
                }
                send(p, app, "begin", 0);
                for (int i = 0; i < n; i += ROUND) {
                    send(p, app, phase, i);
                }
                send(p, app, "end", 0);
            } else {
                send(p, app, "read", Math.min(n, arg("reads")));
            }
            send(p, app, "done", 0);
        }
    }

    private static void send(final KafkaProducer<byte[], byte[]> p, final String app, final String command, final int i) throws Exception {
        p.send(new ProducerRecord<>(app + "-in", command.getBytes(StandardCharsets.UTF_8), ByteBuffer.allocate(4).putInt(i).array()));
    }

    private static void reads(final Subject store, final int n, final int m) {
        final SplittableRandom random = new SplittableRandom(2);
        final boolean cached = ARGS.get("phase").equals("cached");
        final int warm = cached ? n : Math.min(n, 200_000);
        for (int i = 0; i < warm; i++) {
            check(store.get(cached ? i : random.nextInt(n)), "a row is missing");
        }
        if (!cached) {
            for (int i = 0; i < Math.min(m, 2_000); i++) {
                store.range(random.nextInt(n));
            }
        }
        Meter meter = new Meter();
        for (int i = 0; i < m; i++) {
            check(store.get(random.nextInt(n)), "a row is missing");
        }
        meter.report(cached ? "get-cached" : "get", m);
        if (cached) {
            return;
        }
        if (ARGS.get("family").equals("kv")) {
            meter = new Meter();
            for (int i = 0; i < m; i++) {
                check(!store.get(n + random.nextInt(n)), "a row too many");
            }
            meter.report("get-absent", m);
        }
        meter = new Meter();
        long rows = 0;
        for (int i = 0; i < m / 20; i++) {
            rows += store.range(random.nextInt(n));
        }
        meter.report("range", rows);
        meter = new Meter();
        rows = store.scan();
        if (rows > 0) {
            check(rows == n, "the scan saw " + rows + " rows");
            meter.report("scan", rows);
        }
    }

    private static void check(final boolean ok, final String message) {
        if (!ok) {
            throw new IllegalStateException(message);
        }
    }

    /** Wall clock and processor time of the whole process since it was made. */
    private static final class Meter {
        private final OperatingSystemMXBean os = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final long cpu = os.getProcessCpuTime();
        private final long wall = System.nanoTime();

        void report(final String what, final long ops) {
            report(what, ops, System.nanoTime() - wall);
        }

        void report(final String what, final long ops, final long nanos) {
            System.out.printf("{\"what\":\"%s\",\"ops\":%d,\"wall_ns\":%d,\"cpu_ns\":%d,\"rss\":%d,\"heap\":%d}%n",
                what, ops, nanos, os.getProcessCpuTime() - cpu, rss(),
                ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
        }

        private static long rss() {
            try {
                return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
            } catch (final Exception e) {
                return 0;
            }
        }
    }

    private static void createTopic(final String name, final Map<String, String> config) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", ARGS.get("bootstrap")))) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1).configs(config))).all().get();
        } catch (final java.util.concurrent.ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw e;
            }
        }
    }

    /** Restores the store from its changelog, which is there. */
    private static void restore() throws Exception {
        final String app = ARGS.get("app");
        createTopic(app + "-in", Map.of());
        final Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), app + "-in");
        topology.addProcessor("none", () -> new Processor<byte[], byte[], Void, Void>() {
            @Override
            public void process(final Record<byte[], byte[]> record) { }
        }, "source");
        topology.addStateStore(builder("store"), "none");
        final Meter[] meter = new Meter[1];
        final long[] time = new long[1];
        final CountDownLatch done = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(topology, config(app))) {
            streams.setGlobalStateRestoreListener(new StateRestoreListener() {
                @Override
                public void onRestoreStart(final TopicPartition tp, final String store, final long start, final long end) {
                    meter[0] = new Meter();
                    time[0] = System.nanoTime();
                }

                @Override
                public void onBatchRestored(final TopicPartition tp, final String store, final long end, final long count) { }

                @Override
                public void onRestoreEnd(final TopicPartition tp, final String store, final long total) {
                    meter[0].report("restore", total, System.nanoTime() - time[0]);
                    done.countDown();
                }
            });
            streams.start();
            done.await();
        }
    }
}
