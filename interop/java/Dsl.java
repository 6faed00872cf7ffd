import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs each of the DSL topologies below in Kafka Streams' own test driver, with either store format and with and without
 * cache, and writes every record that each of them produced: to the output topic, to changelogs, to repartition topics.
 *
 *     java -cp … Dsl FOLDER
 *
 * FOLDER has a folder for each topology to run, with its input in in.jsonl.gz, and gets what dsl/testdata/golden-dsl has.
 * Keys and values are text. Aggregations join values with '+'; results that are not text are written as text.
 */
public final class Dsl {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Serde<String> S = Serdes.String();
    static final Map<String, Consumer<StreamsBuilder>> TOPOLOGIES = new java.util.TreeMap<>();
    static final Duration SIZE = Duration.ofSeconds(10);
    static final Duration GRACE = Duration.ofSeconds(5);
    static final ValueJoiner<String, String, String> JOIN = (l, r) -> l + "|" + r;

    static KStream<String, String> stream(final StreamsBuilder b, final String topic) {
        return b.stream(topic, Consumed.with(S, S));
    }

    static KTable<String, String> table(final StreamsBuilder b, final String topic, final String store) {
        return b.table(topic, Consumed.with(S, S), Materialized.as(store));
    }

    static KGroupedStream<String, String> grouped(final StreamsBuilder b) {
        return stream(b, "a").groupByKey(Grouped.with(S, S));
    }

    static String add(final String aggregate, final String value) {
        return aggregate == null || aggregate.isEmpty() ? String.valueOf(value) : aggregate + "+" + value;
    }

    static String drop(final String aggregate, final String value) {
        final java.util.ArrayList<String> parts = new java.util.ArrayList<>(Arrays.asList(aggregate.split("\\+")));
        parts.remove(value);
        return String.join("+", parts);
    }

    static void out(final KStream<String, ?> stream) {
        stream.mapValues(v -> v == null ? null : v.toString()).to("out", Produced.with(S, S));
    }

    static void windowed(final KStream<? extends Windowed<String>, ?> stream) {
        stream.map((k, v) -> KeyValue.pair(k.key() + "@" + k.window().start() + "/" + k.window().end(), v == null ? null : v.toString()))
            .to("out", Produced.with(S, S));
    }

    static {
        final TimeWindows tumbling = TimeWindows.ofSizeAndGrace(SIZE, GRACE);
        final TimeWindows hopping = tumbling.advanceBy(Duration.ofSeconds(4));
        final SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), GRACE);
        final SessionWindows session = SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(5), GRACE);
        final JoinWindows join = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(2));
        TOPOLOGIES.put("count", b -> out(grouped(b).count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("reduce", b -> out(grouped(b).reduce(Dsl::add, Materialized.as("s")).toStream()));
        TOPOLOGIES.put("aggregate", b -> out(grouped(b).aggregate(() -> "", (k, v, a) -> v.equals("x") ? null : add(a, v), Materialized.with(S, S)).toStream()));
        TOPOLOGIES.put("tumbling-count", b -> windowed(grouped(b).windowedBy(tumbling).count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("hopping-reduce", b -> windowed(grouped(b).windowedBy(hopping).reduce(Dsl::add, Materialized.as("s")).toStream()));
        TOPOLOGIES.put("sliding-aggregate", b -> windowed(grouped(b).windowedBy(sliding).aggregate(() -> "", (k, v, a) -> add(a, v), Materialized.with(S, S)).toStream()));
        TOPOLOGIES.put("session-aggregate", b -> windowed(grouped(b).windowedBy(session).aggregate(() -> "", (k, v, a) -> add(a, v), (k, x, y) -> add(x, y), Materialized.with(S, S)).toStream()));
        TOPOLOGIES.put("tumbling-final", b -> windowed(grouped(b).windowedBy(tumbling).emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("sliding-final", b -> windowed(grouped(b).windowedBy(sliding).emitStrategy(EmitStrategy.onWindowClose()).reduce(Dsl::add, Materialized.as("s")).toStream()));
        TOPOLOGIES.put("session-final", b -> windowed(grouped(b).windowedBy(session).emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("suppress-close", b -> windowed(grouped(b).windowedBy(tumbling).count(Materialized.as("s"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()));
        TOPOLOGIES.put("suppress-time", b -> out(grouped(b).reduce(Dsl::add, Materialized.as("s"))
            .suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(3), Suppressed.BufferConfig.maxRecords(2).emitEarlyWhenFull())).toStream()));
        TOPOLOGIES.put("table", b -> out(table(b, "a", "s").toStream()));
        TOPOLOGIES.put("table-filter-map", b -> out(table(b, "a", "s").filter((k, v) -> v.compareTo("c") >= 0, Materialized.as("f"))
            .mapValues(v -> v + "!", Materialized.as("m")).toStream()));
        TOPOLOGIES.put("table-group-reduce", b -> out(table(b, "a", "s").groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), k), Grouped.with(S, S))
            .reduce(Dsl::add, Dsl::drop, Materialized.as("g")).toStream()));
        TOPOLOGIES.put("table-group-count", b -> out(table(b, "a", "s").groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), k), Grouped.with(S, S))
            .count(Materialized.as("g")).toStream()));
        TOPOLOGIES.put("table-join-inner", b -> out(table(b, "a", "l").join(table(b, "b", "r"), JOIN, Materialized.as("j")).toStream()));
        TOPOLOGIES.put("table-join-left", b -> out(table(b, "a", "l").leftJoin(table(b, "b", "r"), JOIN, Materialized.as("j")).toStream()));
        TOPOLOGIES.put("table-join-outer", b -> out(table(b, "a", "l").outerJoin(table(b, "b", "r"), JOIN, Materialized.as("j")).toStream()));
        TOPOLOGIES.put("foreign-key-inner", b -> out(table(b, "a", "l").join(table(b, "b", "r"), v -> v.length() > 0 ? v.substring(0, 1) : null, JOIN,
            TableJoined.as("fk"), Materialized.<String, String, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("j").withKeySerde(S).withValueSerde(S)).toStream()));
        TOPOLOGIES.put("foreign-key-left", b -> out(table(b, "a", "l").leftJoin(table(b, "b", "r"), v -> v.length() > 0 ? v.substring(0, 1) : null, JOIN,
            TableJoined.as("fk"), Materialized.<String, String, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("j").withKeySerde(S).withValueSerde(S)).toStream()));
        TOPOLOGIES.put("stream-table-inner", b -> out(stream(b, "a").join(table(b, "b", "r"), JOIN)));
        TOPOLOGIES.put("stream-table-left", b -> out(stream(b, "a").leftJoin(table(b, "b", "r"), JOIN)));
        TOPOLOGIES.put("stream-table-versioned-grace", b -> {
            final KTable<String, String> versioned = b.table("b", Consumed.with(S, S),
                Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("r", Duration.ofSeconds(30))));
            out(stream(b, "a").join(versioned, JOIN, Joined.with(S, S, S, "j", Duration.ofSeconds(3))));
        });
        TOPOLOGIES.put("stream-global", b -> {
            final GlobalKTable<String, String> global = b.globalTable("b", Consumed.with(S, S), Materialized.as("g"));
            out(stream(b, "a").leftJoin(global, (k, v) -> v == null ? null : v.substring(0, 1), JOIN));
        });
        TOPOLOGIES.put("stream-stream-inner", b -> out(stream(b, "a").join(stream(b, "b"), JOIN, join, StreamJoined.with(S, S, S).withName("j").withStoreName("w"))));
        TOPOLOGIES.put("stream-stream-left", b -> out(stream(b, "a").leftJoin(stream(b, "b"), JOIN, join, StreamJoined.with(S, S, S).withName("j").withStoreName("w"))));
        TOPOLOGIES.put("stream-stream-outer", b -> out(stream(b, "a").outerJoin(stream(b, "b"), JOIN, join, StreamJoined.with(S, S, S).withName("j").withStoreName("w"))));
        TOPOLOGIES.put("cogroup", b -> out(grouped(b).cogroup((String k, String v, String a) -> add(a, "a" + v))
            .cogroup(stream(b, "b").groupByKey(Grouped.with(S, S)), (k, v, a) -> add(a, "b" + v)).aggregate(() -> "", Materialized.as("s")).toStream()));
        TOPOLOGIES.put("to-table", b -> out(stream(b, "a").mapValues(v -> v == null ? null : v + "?").toTable(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("repartition-count", b -> out(stream(b, "a").filter((k, v) -> v != null).selectKey((k, v) -> v.substring(0, 1))
            .repartition(Repartitioned.with(S, S).withName("p")).groupByKey(Grouped.with(S, S)).count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("group-by-count", b -> out(stream(b, "a").filter((k, v) -> v != null).groupBy((k, v) -> v.substring(0, 1), Grouped.with("by", S, S))
            .count(Materialized.as("s")).toStream()));
        TOPOLOGIES.put("stateless", b -> {
            final Map<String, KStream<String, String>> split = stream(b, "a").merge(stream(b, "b"))
                .filter((k, v) -> v != null).flatMapValues(v -> List.of(v, v + v)).split(Named.as("split-"))
                .branch((k, v) -> v.startsWith("a"), Branched.as("a")).defaultBranch(Branched.as("rest"));
            out(split.get("split-a").mapValues(v -> "A" + v).merge(split.get("split-rest").filterNot((k, v) -> v.startsWith("b"))));
        });
    }

    static ArrayNode headers(final Iterable<Header> headers) {
        final ArrayNode list = JSON.createArrayNode();
        for (final Header h : headers) {
            list.add(JSON.createArrayNode().add(h.key()).add(h.value() == null ? null : HexFormat.of().formatHex(h.value())));
        }
        return list;
    }

    public static void main(final String[] args) throws Exception {
        final List<Path> folders;
        try (var list = Files.list(Path.of(args[0]))) {
            folders = list.filter(Files::isDirectory).sorted().toList();
        }
        for (final Path folder : folders) {
            for (final String format : List.of("default", "headers")) {
                for (final long cache : List.of(0L, 1_000_000L)) {
                    run(folder, format, cache);
                }
            }
        }
    }

    static void run(final Path folder, final String format, final long cache) throws Exception {
        final Path state = Files.createTempDirectory(folder, "state");
        final StreamsBuilder builder = new StreamsBuilder();
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "dsl");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cache);
        config.put("dsl.store.format", format);
        // Results on close and unmatched rows are emitted at most this often; 0 makes the answers independent of the clock.
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        TOPOLOGIES.get(folder.getFileName().toString()).accept(builder);
        final Topology topology = builder.build(config);
        Files.writeString(folder.resolve("topology.txt"), topology.describe().toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0));
             BufferedReader input = new BufferedReader(new InputStreamReader(
                 new GZIPInputStream(Files.newInputStream(folder.resolve("in.jsonl.gz"))), StandardCharsets.UTF_8));
             Writer output = new OutputStreamWriter(new GZIPOutputStream(
                 Files.newOutputStream(folder.resolve(format + "-cache" + cache + ".jsonl.gz"))), StandardCharsets.UTF_8)) {
            int index = 0;
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                output.write(answer(driver, JSON.readTree(line), index++).toString());
                output.write('\n');
            }
        }
        try (var files = Files.walk(state)) {
            for (final Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    static ObjectNode answer(final TopologyTestDriver driver, final JsonNode in, final int index) {
        final RecordHeaders headers = new RecordHeaders();
        for (final JsonNode h : in.get("h")) {
            headers.add(new RecordHeader(h.get(0).asText(), h.get(1).isNull() ? null : HexFormat.of().parseHex(h.get(1).asText())));
        }
        String error = null;
        try {
            driver.createInputTopic(in.get("topic").asText(), new StringSerializer(), new StringSerializer()).pipeInput(new TestRecord<>(
                in.get("k").isNull() ? null : in.get("k").asText(), in.get("v").isNull() ? null : in.get("v").asText(), headers, in.get("ts").asLong()));
        } catch (final RuntimeException e) {
            error = (e.getCause() == null ? e : e.getCause()).getClass().getSimpleName();
        }
        final ObjectNode result = JSON.createObjectNode().put("i", index);
        final ArrayNode list = result.putArray("out");
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            final var records = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!records.isEmpty()) {
                final TestRecord<byte[], byte[]> r = records.readRecord();
                final ObjectNode node = list.addObject().put("topic", topic);
                node.put("k", r.key() == null ? null : HexFormat.of().formatHex(r.key()));
                node.put("v", r.value() == null ? null : HexFormat.of().formatHex(r.value()));
                node.put("ts", r.timestamp());
                node.set("h", headers(r.headers()));
            }
        }
        if (error != null) {
            result.put("error", error);
        }
        return result;
    }
}
