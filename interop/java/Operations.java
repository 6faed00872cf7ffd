import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionHeadersBytesStoreSupplier;

/** The state store of a run, and the operations of a script on it. */
final class Operations {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final String STORE = "store";

    final JsonNode run;
    final String family;
    final String format;

    Operations(final JsonNode run) {
        this.run = run;
        this.family = run.get("store").asText();
        this.format = run.get("format").asText();
    }

    StoreBuilder<? extends StateStore> builder() {
        final StoreBuilder<? extends StateStore> builder = switch (family) {
            case "kv" -> keyValueBuilder();
            case "window" -> windowBuilder();
            case "session" -> sessionBuilder();
            case "versioned" -> versionedBuilder();
            default -> throw new IllegalArgumentException("no such store: " + family);
        };
        return run.get("cache").asLong() > 0 ? builder.withCachingEnabled() : builder;
    }

    static final Serde<byte[]> BYTES = Serdes.ByteArray();

    IllegalArgumentException noFormat() {
        return new IllegalArgumentException("no such format of a " + family + " store: " + format);
    }

    boolean memory() {
        return run.path("memory").asBoolean();
    }

    Duration duration(final String name) {
        return Duration.ofMillis(run.path(name).asLong());
    }

    StoreBuilder<? extends StateStore> keyValueBuilder() {
        final KeyValueBytesStoreSupplier memory = memory() ? Stores.inMemoryKeyValueStore(STORE) : null;
        return switch (format) {
            case "plain" -> Stores.keyValueStoreBuilder(
                memory != null ? memory : Stores.persistentKeyValueStore(STORE), BYTES, BYTES);
            case "timestamped" -> Stores.timestampedKeyValueStoreBuilder(
                memory != null ? memory : Stores.persistentTimestampedKeyValueStore(STORE), BYTES, BYTES);
            case "headers" -> Stores.timestampedKeyValueStoreWithHeadersBuilder(
                memory != null ? memory : Stores.persistentTimestampedKeyValueStoreWithHeaders(STORE), BYTES, BYTES);
            default -> throw noFormat();
        };
    }

    StoreBuilder<? extends StateStore> windowBuilder() {
        final Duration retention = duration("retention");
        final Duration size = duration("size");
        final boolean duplicates = run.path("duplicates").asBoolean();
        final String ordered = run.path("ordered").asText();
        final WindowBytesStoreSupplier supplier;
        if (memory()) {
            supplier = Stores.inMemoryWindowStore(STORE, retention, size, duplicates);
        } else if (!ordered.isEmpty()) {
            final boolean index = ordered.equals("index");
            supplier = format.equals("headers")
                ? RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier.create(STORE, retention, size, duplicates, index)
                : RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create(STORE, retention, size, duplicates, index);
        } else {
            supplier = switch (format) {
                case "plain" -> Stores.persistentWindowStore(STORE, retention, size, duplicates);
                case "timestamped" -> Stores.persistentTimestampedWindowStore(STORE, retention, size, duplicates);
                default -> Stores.persistentTimestampedWindowStoreWithHeaders(STORE, retention, size, duplicates);
            };
        }
        return switch (format) {
            case "plain" -> Stores.windowStoreBuilder(supplier, BYTES, BYTES);
            case "timestamped" -> Stores.timestampedWindowStoreBuilder(supplier, BYTES, BYTES);
            case "headers" -> Stores.timestampedWindowStoreWithHeadersBuilder(supplier, BYTES, BYTES);
            default -> throw noFormat();
        };
    }

    StoreBuilder<? extends StateStore> sessionBuilder() {
        final Duration retention = duration("retention");
        final String ordered = run.path("ordered").asText();
        final boolean headers = format.equals("headers");
        final SessionBytesStoreSupplier supplier;
        if (memory()) {
            supplier = Stores.inMemorySessionStore(STORE, retention);
        } else if (!ordered.isEmpty()) {
            final boolean index = ordered.equals("index");
            supplier = headers ? new RocksDbTimeOrderedSessionHeadersBytesStoreSupplier(STORE, retention.toMillis(), index)
                : new RocksDbTimeOrderedSessionBytesStoreSupplier(STORE, retention.toMillis(), index);
        } else {
            supplier = headers ? Stores.persistentSessionStoreWithHeaders(STORE, retention)
                : Stores.persistentSessionStore(STORE, retention);
        }
        return switch (format) {
            case "plain" -> Stores.sessionStoreBuilder(supplier, BYTES, BYTES);
            case "headers" -> Stores.sessionStoreWithHeadersBuilder(supplier, BYTES, BYTES);
            default -> throw noFormat();
        };
    }

    StoreBuilder<? extends StateStore> versionedBuilder() {
        if (memory() || !format.equals("plain")) {
            throw noFormat();
        }
        return Stores.versionedKeyValueStoreBuilder(run.path("segment").asLong() > 0
            ? Stores.persistentVersionedKeyValueStore(STORE, duration("retention"), duration("segment"))
            : Stores.persistentVersionedKeyValueStore(STORE, duration("retention")), BYTES, BYTES);
    }

    /** Answers an operation other than commit. What the store throws is an answer, too. */
    JsonNode answer(final StateStore store, final JsonNode op) {
        try {
            return switch (family) {
                case "kv" -> keyValue(store, op);
                case "window" -> window(store, op);
                case "session" -> session(store, op);
                default -> versioned(store, op);
            };
        } catch (final RuntimeException e) {
            return JSON.createObjectNode().put("error", e.toString());
        }
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

    /** What is put, in the store's type. */
    Object wrap(final JsonNode op) {
        final byte[] v = bytes(op.get("v"));
        if (v == null) {
            return null;
        }
        return switch (format) {
            case "headers" -> family.equals("session") ? AggregationWithHeaders.make(v, headers(op.path("h")))
                : ValueTimestampHeaders.make(v, op.path("ts").asLong(), headers(op.path("h")));
            case "timestamped" -> ValueAndTimestamp.make(v, op.path("ts").asLong());
            default -> v;
        };
    }

    @SuppressWarnings("unchecked")
    JsonNode keyValue(final StateStore store, final JsonNode op) {
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
    JsonNode window(final StateStore store, final JsonNode op) {
        final WindowStore<byte[], Object> w = (WindowStore<byte[], Object>) store;
        final byte[] k = bytes(op.get("k"));
        final byte[] k1 = bytes(op.get("k1"));
        final byte[] k2 = bytes(op.get("k2"));
        final long from = op.path("from").asLong();
        final long to = op.path("to").asLong();
        final boolean back = op.path("back").asBoolean();
        switch (op.get("op").asText()) {
            case "put":
                w.put(k, wrap(op), op.path("start").asLong());
                return JSON.nullNode();
            case "fetch":
                return value(w.fetch(k, op.path("start").asLong()));
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
    JsonNode session(final StateStore store, final JsonNode op) {
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
    JsonNode versioned(final StateStore store, final JsonNode op) {
        final VersionedKeyValueStore<byte[], byte[]> v = (VersionedKeyValueStore<byte[], byte[]>) store;
        final byte[] k = bytes(op.get("k"));
        switch (op.get("op").asText()) {
            case "put":
                return JSON.getNodeFactory().numberNode(v.put(k, bytes(op.get("v")), op.path("ts").asLong()));
            case "delete":
                return value(v.delete(k, op.path("ts").asLong()));
            case "get":
                return value(v.get(k));
            case "getAsOf":
                return value(v.get(k, op.path("asOf").asLong()));
            case "history":
                MultiVersionedKeyQuery<byte[], byte[]> query = MultiVersionedKeyQuery.<byte[], byte[]>withKey(k)
                    .fromTime(Instant.ofEpochMilli(op.path("from").asLong())).toTime(Instant.ofEpochMilli(op.path("to").asLong()));
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
