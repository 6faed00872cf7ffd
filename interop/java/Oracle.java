import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;

/**
 * Runs Kafka Streams applications whose input records are operations on a state store, and tells the answers.
 *
 * <p>The only argument is the broker's address. Each line of the standard input starts an application:
 * {"app":…, "state":…, "store":"kv", "window", "session" or "versioned", "format":"plain", "timestamped" or "headers",
 * "memory":…, "guarantee":…, "cache":bytes, "buffer":bytes of a memtable or 0, "transactional":…, "count":…,
 * "retention":ms, "size":ms, "segment":ms or 0, "duplicates":…, "ordered":"", "index" or "noindex"}. It reads the topic
 * APP-in, one operation in each record, and ends after so many, or never for -1. Several may run at a time; the end of
 * the input ends the program. With "ops" no broker has a part in it: see {@link InProcess}.
 *
 * <p>Lines of the standard output: {"app":…, "r":answer} in the order of the input, {"app":…, "closed":true} after a
 * clean close, {"app":…, "failed":message} instead of it.
 */
public final class Oracle {
    static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    final String bootstrap;
    final JsonNode run;
    final Operations operations;
    final CompletableFuture<Void> done = new CompletableFuture<>();

    Oracle(final String bootstrap, final JsonNode run) {
        this.bootstrap = bootstrap;
        this.run = run;
        this.operations = new Operations(run);
    }

    public static void main(final String[] args) throws Exception {
        System.setOut(System.err); // nothing else writes answers
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            final Oracle oracle = new Oracle(args[0], Operations.JSON.readTree(line));
            new Thread(oracle.run.has("ops") ? oracle::inProcess : oracle::application).start();
        }
        // The reader is gone: so is whoever would look at what still runs.
        Runtime.getRuntime().halt(0);
    }

    void tell(final String name, final JsonNode what) {
        final ObjectNode line = Operations.JSON.createObjectNode();
        line.set("app", run.get("app"));
        line.set(name, what);
        synchronized (OUT) {
            OUT.print(line + "\n");
            OUT.flush();
        }
    }

    void inProcess() {
        try {
            final InProcess app = new InProcess(operations, config());
            app.run();
            tell("answers", app.answers);
            tell("log", app.log);
            tell("closed", Operations.JSON.getNodeFactory().booleanNode(true));
        } catch (final Exception | Error e) {
            e.printStackTrace();
            tell("failed", Operations.JSON.getNodeFactory().textNode(e.toString()));
        }
    }

    void application() {
        try {
            final Topology topology = new Topology();
            topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), run.get("app").asText() + "-in");
            topology.addProcessor("script", Script::new, "source");
            topology.addStateStore(operations.builder(), "script");
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
            tell("closed", Operations.JSON.getNodeFactory().booleanNode(true));
        } catch (final Exception | Error e) {
            e.printStackTrace();
            tell("failed", Operations.JSON.getNodeFactory().textNode(e.toString()));
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

    final class Script implements Processor<byte[], byte[], Void, Void> {
        ProcessorContext<Void, Void> context;
        StateStore store;
        int index;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            this.context = context;
            this.store = context.getStateStore(Operations.STORE);
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final JsonNode op;
            try {
                op = Operations.JSON.readTree(record.value());
            } catch (final IOException e) {
                throw new UncheckedIOException(e);
            }
            if (op.get("op").asText().equals("commit")) {
                context.commit();
                tell("r", Operations.JSON.nullNode());
            } else {
                tell("r", operations.answer(store, op));
            }
            if (++index == run.get("count").asInt()) {
                context.commit();
                done.complete(null);
            }
        }
    }
}
