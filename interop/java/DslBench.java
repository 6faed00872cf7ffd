import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka's side of BenchmarkDriver in dsl/bench_test.go: the same topologies and records through its topology test driver.
 * Arguments: topology, records, directory. Prints nanoseconds a record, after a warm-up.
 */
public final class DslBench {
    private static final int KEYS = 1000;
    private static final int WARM = 30_000;

    private DslBench() { }

    public static void main(final String[] args) throws Exception {
        final StreamsBuilder b = new StreamsBuilder();
        final Serde<String> text = Serdes.String();
        final Consumed<String, String> consumed = Consumed.with(text, text);
        switch (args[0]) {
            case "stateless" -> b.stream("a", consumed).filter((k, v) -> true).to("out");
            case "count" -> b.stream("a", consumed).groupByKey().count(Materialized.as("s")).toStream().to("out");
            case "windowed-count" -> {
                final KStream<String, String> in = b.stream("a", consumed);
                in.groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
                    .count(Materialized.as("s")).toStream((k, v) -> k.key()).to("out");
            }
            case "table-join" -> {
                final KTable<String, String> left = b.table("a", consumed, Materialized.as("l"));
                final KTable<String, String> right = b.table("b", consumed, Materialized.as("r"));
                left.join(right, (l, r) -> l + r, Materialized.as("j")).toStream().to("out");
            }
            default -> throw new IllegalArgumentException(args[0]);
        }
        final Properties c = new Properties();
        c.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench");
        c.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        c.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory(Path.of(args[2]), "state").toString());
        c.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        c.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        c.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, args[0].endsWith("count") ? Serdes.LongSerde.class : Serdes.StringSerde.class);
        c.put("dsl.store.format", "HEADERS");
        try (TopologyTestDriver d = new TopologyTestDriver(b.build(), c)) {
            final TestInputTopic<String, String> a = d.createInputTopic("a", new StringSerializer(), new StringSerializer());
            final TestOutputTopic<byte[], byte[]> out = d.createOutputTopic("out", new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (args[0].equals("table-join")) {
                final TestInputTopic<String, String> other = d.createInputTopic("b", new StringSerializer(), new StringSerializer());
                for (int i = 0; i < KEYS; i++) {
                    other.pipeInput(record(i));
                }
            }
            final int n = Integer.parseInt(args[1]);
            long began = 0;
            for (int i = 0; i < WARM + n; i++) {
                if (i == WARM) {
                    began = System.nanoTime();
                }
                a.pipeInput(record(i));
                out.readRecordsToList();
            }
            System.out.println((System.nanoTime() - began) / n);
        }
    }

    private static TestRecord<String, String> record(final int i) {
        return new TestRecord<>(String.format("key-%06d", i % KEYS), "some value of an ordinary size", new RecordHeaders()
            .add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".getBytes(StandardCharsets.UTF_8))
            .add("tenant", "acme".getBytes(StandardCharsets.UTF_8)), (long) i);
    }
}
