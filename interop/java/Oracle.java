import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionHeadersBytesStoreSupplier;
import org.rocksdb.Options;

/**
 * Runs Kafka Streams applications whose input records are operations on a state store, and tells the answers.
 *
 * <p>The only argument is the broker's address. Each line of the standard input starts an application:
 * {"app":…, "state":…, "store":"kv", "window", "session" or "versioned", "format":"plain", "timestamped" or "headers",
 * "guarantee":…, "cache":bytes, "buffer":bytes of a memtable or 0, "transactional":…, "count":…, "retention":ms,
 * "size":ms, "duplicates":…, "ordered":…}. It reads the topic APP-in, one operation in each record, and ends after so
 * many, or never for -1. Several may run at a time; the end of the input ends the program.
 *
 * <p>Lines of the standard output: {"app":…, "r":answer} in the order of the input, {"app":…, "closed":true} after a
 * clean close, {"app":…, "failed":message} instead of it.
 */
public final class Oracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final String STORE = "store";
    static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    final String bootstrap;
    final JsonNode run;
    final CompletableFuture<Void> done = new CompletableFuture<>();

    Oracle(final String bootstrap, final JsonNode run) {
        this.bootstrap = bootstrap;
        this.run = run;
    }

    public static void main(final String[] args) throws Exception {
        System.setOut(System.err); // nothing else writes answers
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            final Oracle oracle = new Oracle(args[0], JSON.readTree(line));
            new Thread(oracle::application).start();
        }
        // The reader is gone: so is whoever would look at what still runs.
        Runtime.getRuntime().halt(0);
    }

    void tell(final String name, final JsonNode what) {
        final ObjectNode line = JSON.createObjectNode();
        line.set("app", run.get("app"));
        line.set(name, what);
        synchronized (OUT) {
            OUT.print(line + "\n");
            OUT.flush();
        }
    }

    void application() {
        try {
            final Topology topology = new Topology();
            topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), run.get("app").asText() + "-in");
            topology.addProcessor("script", Script::new, "source");
            topology.addStateStore(builder(), "script");
            try (KafkaStreams streams = new KafkaStreams(topology, config())) {
                streams.setUncaughtExceptionHandler(e -> {
                    done.completeExceptionally(e);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
                streams.start();
                done.get();
                if (!streams.close(CloseOptions.timeout(Duration.ofSeconds(60))
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))) {
                    throw new IllegalStateException("did not close");
                }
            }
            tell("closed", JSON.getNodeFactory().booleanNode(true));
        } catch (final Exception | Error e) {
            e.printStackTrace();
            tell("failed", JSON.getNodeFactory().textNode(e.toString()));
        }
    }

    Properties config() {
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, run.get("app").asText());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.STATE_DIR_CONFIG, run.get("state").asText());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, run.get("guarantee").asText());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, run.get("cache").asText());
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "300");
        config.put("enable.transactional.statestores", run.get("transactional").asText());
        config.put("auto.offset.reset", "earliest");
        if (run.get("buffer").asLong() > 0) {
            config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallBuffers.class);
            config.put(SmallBuffers.SIZE, run.get("buffer").asText());
        }
        return config;
    }

    /** Memtables that reach the disk in the middle of a run. */
    public static final class SmallBuffers implements RocksDBConfigSetter {
        static final String SIZE = "forebay.buffer";

        @Override
        public void setConfig(final String store, final Options options, final Map<String, Object> configs) {
            options.setWriteBufferSize(Long.parseLong((String) configs.get(SIZE)));
        }

        @Override
        public void close(final String store, final Options options) { }
    }

    StoreBuilder<? extends StateStore> builder() {
        final Serde<byte[]> bytes = Serdes.ByteArray();
        final Duration retention = Duration.ofMillis(run.path("retention").asLong());
        final Duration size = Duration.ofMillis(run.path("size").asLong());
        final boolean duplicates = run.path("duplicates").asBoolean();
        final String kind = (run.path("ordered").asBoolean() ? "ordered " : "") + run.get("store").asText() + " " + run.get("format").asText();
        final StoreBuilder<? extends StateStore> builder = switch (kind) {
            case "kv plain" -> Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), bytes, bytes);
            case "kv timestamped" -> Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore(STORE), bytes, bytes);
            case "kv headers" -> Stores.timestampedKeyValueStoreWithHeadersBuilder(
                Stores.persistentTimestampedKeyValueStoreWithHeaders(STORE), bytes, bytes);
            case "window plain" -> Stores.windowStoreBuilder(Stores.persistentWindowStore(STORE, retention, size, duplicates), bytes, bytes);
            case "window timestamped" -> Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(STORE, retention, size, duplicates), bytes, bytes);
            case "window headers" -> Stores.timestampedWindowStoreWithHeadersBuilder(
                Stores.persistentTimestampedWindowStoreWithHeaders(STORE, retention, size, duplicates), bytes, bytes);
            case "ordered window timestamped" -> Stores.timestampedWindowStoreBuilder(
                RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create(STORE, retention, size, duplicates, true), bytes, bytes);
            case "ordered window headers" -> Stores.timestampedWindowStoreWithHeadersBuilder(
                RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier.create(STORE, retention, size, duplicates, true), bytes, bytes);
            case "session plain" -> Stores.sessionStoreBuilder(Stores.persistentSessionStore(STORE, retention), bytes, bytes);
            case "session headers" -> Stores.sessionStoreWithHeadersBuilder(
                Stores.persistentSessionStoreWithHeaders(STORE, retention), bytes, bytes);
            case "ordered session plain" -> Stores.sessionStoreBuilder(
                new RocksDbTimeOrderedSessionBytesStoreSupplier(STORE, retention.toMillis(), true), bytes, bytes);
            case "ordered session headers" -> Stores.sessionStoreWithHeadersBuilder(
                new RocksDbTimeOrderedSessionHeadersBytesStoreSupplier(STORE, retention.toMillis(), true), bytes, bytes);
            case "versioned plain" -> Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore(STORE, retention), bytes, bytes);
            default -> throw new IllegalArgumentException("no such store: " + kind);
        };
        return run.get("cache").asLong() > 0 ? builder.withCachingEnabled() : builder;
    }

    // Hex, headers, rows.

    static String hex(final byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }

    static byte[] bytes(final JsonNode node) {
        return node == null || node.isNull() ? null : HEX.parseHex(node.asText());
    }

    static Headers headers(final JsonNode list) {
        final Headers headers = new RecordHeaders();
        for (final JsonNode h : list) {
            headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1))));
        }
        return headers;
    }

    static ArrayNode list(final Headers headers) {
        final ArrayNode list = JSON.createArrayNode();
        for (final Header h : headers) {
            list.add(JSON.createArrayNode().add(h.key()).add(hex(h.value())));
        }
        return list;
    }

    /** A value of any store, with the fields that its format has. */
    static JsonNode value(final Object value) {
        final ObjectNode node = JSON.createObjectNode();
        if (value == null) {
            return JSON.nullNode();
        } else if (value instanceof byte[] plain) {
            node.put("v", hex(plain));
        } else if (value instanceof ValueAndTimestamp<?> v) {
            node.put("v", hex((byte[]) v.value()));
            node.put("ts", v.timestamp());
        } else if (value instanceof ValueTimestampHeaders<?> v) {
            node.put("v", hex((byte[]) v.value()));
            node.put("ts", v.timestamp());
            node.set("h", list(v.headers()));
        } else if (value instanceof AggregationWithHeaders<?> v) {
            node.put("v", hex((byte[]) v.aggregation()));
            node.set("h", list(v.headers()));
        } else if (value instanceof VersionedRecord<?> v) {
            node.put("v", hex((byte[]) v.value()));
            node.put("ts", v.timestamp());
            v.validTo().ifPresent(to -> node.put("to", to));
        } else {
            throw new IllegalStateException(value.getClass().getName());
        }
        return node;
    }

    static JsonNode rows(final KeyValueIterator<?, ?> iterator) {
        final ArrayNode list = JSON.createArrayNode();
        try (iterator) {
            while (iterator.hasNext()) {
                final KeyValue<?, ?> row = iterator.next();
                final ArrayNode item = JSON.createArrayNode();
                if (row.key instanceof byte[] key) {
                    item.add(hex(key));
                } else if (row.key instanceof Long start) {
                    item.add(start);
                } else {
                    final Windowed<?> windowed = (Windowed<?>) row.key;
                    item.add(hex((byte[]) windowed.key())).add(windowed.window().start()).add(windowed.window().end());
                }
                list.add(item.add(value(row.value)));
            }
        }
        return list;
    }

    final class Script implements Processor<byte[], byte[], Void, Void> {
        ProcessorContext<Void, Void> context;
        StateStore store;
        int index;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            this.context = context;
            this.store = context.getStateStore(STORE);
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final JsonNode op;
            try {
                op = JSON.readTree(record.value());
            } catch (final IOException e) {
                throw new UncheckedIOException(e);
            }
            JsonNode answer;
            try {
                if (op.get("op").asText().equals("commit")) {
                    context.commit();
                    answer = JSON.nullNode();
                } else {
                    answer = switch (run.get("store").asText()) {
                        case "kv" -> keyValue(op);
                        case "window" -> window(op);
                        case "session" -> session(op);
                        default -> versioned(op);
                    };
                }
            } catch (final RuntimeException e) {
                e.printStackTrace();
                answer = JSON.createObjectNode().put("error", e.toString());
            }
            tell("r", answer);
            if (++index == run.get("count").asInt()) {
                context.commit();
                done.complete(null);
            }
        }

        /** What is put, in the store's type. */
        Object wrap(final JsonNode op) {
            final byte[] v = bytes(op.get("v"));
            if (v == null) {
                return null;
            }
            return switch (run.get("format").asText()) {
                case "headers" -> run.get("store").asText().equals("session") ? AggregationWithHeaders.make(v, headers(op.get("h")))
                    : ValueTimestampHeaders.make(v, op.get("ts").asLong(), headers(op.get("h")));
                case "timestamped" -> ValueAndTimestamp.make(v, op.get("ts").asLong());
                default -> v;
            };
        }

        @SuppressWarnings("unchecked")
        JsonNode keyValue(final JsonNode op) {
            final KeyValueStore<byte[], Object> kv = (KeyValueStore<byte[], Object>) store;
            final byte[] k = bytes(op.get("k"));
            switch (op.get("op").asText()) {
                case "put":
                    kv.put(k, wrap(op));
                    return JSON.nullNode();
                case "putIfAbsent":
                    return value(kv.putIfAbsent(k, wrap(op)));
                case "putAll":
                    final List<KeyValue<byte[], Object>> rows = new ArrayList<>();
                    for (final JsonNode row : op.get("rows")) {
                        rows.add(KeyValue.pair(bytes(row.get("k")), wrap(row)));
                    }
                    kv.putAll(rows);
                    return JSON.nullNode();
                case "delete":
                    return value(kv.delete(k));
                case "get":
                    return value(kv.get(k));
                case "range":
                    return rows(kv.range(bytes(op.get("from")), bytes(op.get("to"))));
                case "reverseRange":
                    return rows(kv.reverseRange(bytes(op.get("from")), bytes(op.get("to"))));
                case "all":
                    return rows(kv.all());
                case "reverseAll":
                    return rows(kv.reverseAll());
                case "prefix":
                    return rows(kv.prefixScan(bytes(op.get("p")), new ByteArraySerializer()));
                default:
                    throw new IllegalArgumentException(op.get("op").asText());
            }
        }

        @SuppressWarnings("unchecked")
        JsonNode window(final JsonNode op) {
            final WindowStore<byte[], Object> w = (WindowStore<byte[], Object>) store;
            final byte[] k = bytes(op.get("k"));
            final byte[] k1 = bytes(op.get("k1"));
            final byte[] k2 = bytes(op.get("k2"));
            final long from = op.path("from").asLong();
            final long to = op.path("to").asLong();
            final boolean back = op.path("back").asBoolean();
            switch (op.get("op").asText()) {
                case "put":
                    w.put(k, wrap(op), op.get("start").asLong());
                    return JSON.nullNode();
                case "fetch":
                    return value(w.fetch(k, op.get("start").asLong()));
                case "fetchRange":
                    final WindowStoreIterator<Object> it = back ? w.backwardFetch(k, from, to) : w.fetch(k, from, to);
                    return rows(it);
                case "fetchKeys":
                    return rows(back ? w.backwardFetch(k1, k2, from, to) : w.fetch(k1, k2, from, to));
                case "all":
                    return rows(back ? w.backwardAll() : w.all());
                case "fetchAll":
                    return rows(back ? w.backwardFetchAll(from, to) : w.fetchAll(from, to));
                default:
                    throw new IllegalArgumentException(op.get("op").asText());
            }
        }

        @SuppressWarnings("unchecked")
        JsonNode session(final JsonNode op) {
            final SessionStore<byte[], Object> s = (SessionStore<byte[], Object>) store;
            final byte[] k = bytes(op.get("k"));
            final byte[] k1 = bytes(op.get("k1"));
            final byte[] k2 = bytes(op.get("k2"));
            final long start = op.path("start").asLong();
            final long end = op.path("end").asLong();
            final boolean back = op.path("back").asBoolean();
            switch (op.get("op").asText()) {
                case "put":
                    s.put(new Windowed<>(k, new SessionWindow(start, end)), wrap(op));
                    return JSON.nullNode();
                case "remove":
                    s.remove(new Windowed<>(k, new SessionWindow(start, end)));
                    return JSON.nullNode();
                case "fetchSession":
                    return value(s.fetchSession(k, start, end));
                case "find":
                    return rows(back ? s.backwardFindSessions(k, end, start) : s.findSessions(k, end, start));
                case "findTime":
                    return rows(s.findSessions(end, op.path("latest").asLong()));
                case "findKeys":
                    return rows(back ? s.backwardFindSessions(k1, k2, end, start) : s.findSessions(k1, k2, end, start));
                case "fetchKey":
                    return rows(back ? s.backwardFetch(k) : s.fetch(k));
                case "fetchKeys":
                    return rows(back ? s.backwardFetch(k1, k2) : s.fetch(k1, k2));
                default:
                    throw new IllegalArgumentException(op.get("op").asText());
            }
        }

        @SuppressWarnings("unchecked")
        JsonNode versioned(final JsonNode op) {
            final VersionedKeyValueStore<byte[], byte[]> v = (VersionedKeyValueStore<byte[], byte[]>) store;
            final byte[] k = bytes(op.get("k"));
            switch (op.get("op").asText()) {
                case "put":
                    return JSON.getNodeFactory().numberNode(v.put(k, bytes(op.get("v")), op.get("ts").asLong()));
                case "delete":
                    return value(v.delete(k, op.get("ts").asLong()));
                case "get":
                    return value(v.get(k));
                case "getAsOf":
                    return value(v.get(k, op.get("asOf").asLong()));
                case "history":
                    MultiVersionedKeyQuery<byte[], byte[]> query = MultiVersionedKeyQuery.<byte[], byte[]>withKey(k)
                        .fromTime(Instant.ofEpochMilli(op.get("from").asLong())).toTime(Instant.ofEpochMilli(op.get("to").asLong()));
                    query = op.path("order").asText().equals("desc") ? query.withDescendingTimestamps() : query.withAscendingTimestamps();
                    final ArrayNode list = JSON.createArrayNode();
                    try (VersionedRecordIterator<byte[]> it = store.query(query, PositionBound.unbounded(), new QueryConfig(false)).getResult()) {
                        while (it.hasNext()) {
                            list.add(value(it.next()));
                        }
                    }
                    return list;
                default:
                    throw new IllegalArgumentException(op.get("op").asText());
            }
        }
    }
}
