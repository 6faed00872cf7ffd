import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.test.TestRecord;

/**
 * A task of Kafka Streams in its topology test driver: the real task, stores, caches and state directory, but no broker
 * and no threads. So an application starts in milliseconds, and commits where the script says and nowhere else.
 *
 * <p>Beside what {@link Oracle} takes, a run has "ops", a list of operations, "offset", the input offset of the first,
 * "restore", a list of changelog records of which those are applied that the directory does not hold, "next", the
 * changelog's end, and "kill": the state directory is left as it is before the last commit. The answers and the
 * records that were logged are told as lists.
 */
final class InProcess {
    final Operations operations;
    final Properties config;
    final String input;
    final TopicPartition changelog;
    final ArrayNode answers = Operations.JSON.createArrayNode();
    final ArrayNode log = Operations.JSON.createArrayNode();
    List<JsonNode> due = List.of();
    boolean last;

    InProcess(final Operations operations, final Properties config) {
        this.operations = operations;
        this.config = config;
        final String app = operations.run.get("app").asText();
        this.input = app + "-in";
        this.changelog = new TopicPartition(app + "-" + Operations.STORE + "-changelog", 0);
    }

    void run() throws Exception {
        final Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), input);
        topology.addProcessor("script", Script::new, "source");
        topology.addStateStore(operations.builder(), "script");
        final TopologyTestDriver driver = new TopologyTestDriver(topology, config);
        try {
            final Map<TopicPartition, Long> ends = get(get(driver, "producer"), "offsets");
            final long next = operations.run.path("next").asLong();
            ends.put(changelog, next);
            restore(get(get(driver, "task"), "stateMgr"));
            final TestOutputTopic<byte[], byte[]> logged =
                driver.createOutputTopic(changelog.topic(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            final var records = driver.createInputTopic(input, new ByteArraySerializer(), new ByteArraySerializer());
            final List<List<JsonNode>> rounds = rounds();
            for (int i = 0; i < rounds.size(); i++) {
                due = rounds.get(i);
                last = i == rounds.size() - 1;
                records.pipeInput(new byte[0], new byte[0], 0); // a commit follows every input record
                read(logged, next);
            }
            keepState(driver);
            driver.close();
            read(logged, next); // what the close has flushed
        } catch (final Exception | Error e) {
            try {
                driver.close();
            } catch (final Exception | Error more) {
                e.addSuppressed(more);
            }
            throw e;
        }
        if (operations.run.path("kill").asBoolean()) {
            final Path state = Path.of(operations.run.get("state").asText());
            delete(state.resolve(app()));
            Files.move(state.resolve("killed"), state.resolve(app()));
        }
    }

    String app() {
        return operations.run.get("app").asText();
    }

    /** The operations up to each commit. */
    List<List<JsonNode>> rounds() {
        final List<List<JsonNode>> rounds = new ArrayList<>();
        List<JsonNode> round = new ArrayList<>();
        for (final JsonNode op : operations.run.get("ops")) {
            round.add(op);
            if (op.get("op").asText().equals("commit")) {
                rounds.add(round);
                round = new ArrayList<>();
            }
        }
        rounds.add(round);
        return rounds;
    }

    final class Script implements Processor<byte[], byte[], Void, Void> {
        InternalProcessorContext<?, ?> context;
        StateStore store;
        long offset = operations.run.path("offset").asLong();

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            this.context = (InternalProcessorContext<?, ?>) context;
            this.store = context.getStateStore(Operations.STORE);
        }

        /** Every operation is answered as an input record of its own. */
        @Override
        public void process(final Record<byte[], byte[]> record) {
            for (final JsonNode op : due) {
                context.setRecordContext(new ProcessorRecordContext(op.path("rts").asLong(), offset++, 0, input,
                    Operations.headers(op.path("rh"))));
                answers.add(op.get("op").asText().equals("commit") ? Operations.JSON.nullNode() : operations.answer(store, op));
            }
            if (last && operations.run.path("kill").asBoolean()) {
                final Path state = Path.of(operations.run.get("state").asText());
                try {
                    copy(state.resolve(app()), state.resolve("killed"));
                } catch (final IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        }
    }

    void read(final TestOutputTopic<byte[], byte[]> logged, final long next) {
        for (final TestRecord<byte[], byte[]> r : logged.readRecordsToList()) {
            final ObjectNode line = log.addObject();
            line.put("offset", next + log.size() - 1);
            line.put("k", Operations.hex(r.key()));
            line.put("v", Operations.hex(r.value()));
            line.put("ts", r.timestamp());
            line.set("h", Operations.list(r.headers()));
        }
    }

    /** Does what the changelog reader does: the driver has none. */
    void restore(final Object states) throws Exception {
        final Object metadata = method(states, "storeMetadata").invoke(states, changelog);
        final Long held = (Long) method(metadata, "offset").invoke(metadata);
        final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (final JsonNode r : operations.run.path("restore")) {
            final long offset = r.get("offset").asLong();
            if (held == null || offset > held) {
                records.add(new ConsumerRecord<>(changelog.topic(), 0, offset, r.get("ts").asLong(), TimestampType.CREATE_TIME,
                    0, 0, Operations.bytes(r.get("k")), Operations.bytes(r.get("v")), Operations.headers(r.get("h")), Optional.empty()));
            }
        }
        if (!records.isEmpty()) {
            try {
                method(states, "restore").invoke(states, metadata, records, OptionalLong.empty());
            } catch (final InvocationTargetException e) {
                throw new IllegalStateException(e.getCause());
            }
        }
    }

    /** Keeps the driver from removing the state directory when it is closed. */
    void keepState(final TopologyTestDriver driver) throws ReflectiveOperationException {
        field(driver, "stateDirectory").set(driver, new StateDirectory(new StreamsConfig(config), Time.SYSTEM, false, false) {
            @Override
            public synchronized void clean() { }
        });
    }

    // What is not public.

    static Field field(final Object of, final String name) throws ReflectiveOperationException {
        for (Class<?> c = of.getClass(); c != null; c = c.getSuperclass()) {
            for (final Field f : c.getDeclaredFields()) {
                if (f.getName().equals(name)) {
                    f.setAccessible(true);
                    return f;
                }
            }
        }
        throw new NoSuchFieldException(of.getClass() + "." + name);
    }

    @SuppressWarnings("unchecked")
    static <T> T get(final Object of, final String name) throws ReflectiveOperationException {
        return (T) field(of, name).get(of);
    }

    static Method method(final Object of, final String name) throws ReflectiveOperationException {
        for (final Method m : of.getClass().getDeclaredMethods()) {
            if (m.getName().equals(name)) {
                m.setAccessible(true);
                return m;
            }
        }
        throw new NoSuchMethodException(of.getClass() + "." + name);
    }

    static void copy(final Path from, final Path to) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(final Path dir, final BasicFileAttributes attributes) throws IOException {
                Files.createDirectories(to.resolve(from.relativize(dir).toString()));
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(final Path file, final BasicFileAttributes attributes) throws IOException {
                Files.copy(file, to.resolve(from.relativize(file).toString()));
                return FileVisitResult.CONTINUE;
            }
        });
    }

    static void delete(final Path dir) throws IOException {
        Files.walkFileTree(dir, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(final Path file, final BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(final Path dir, final IOException e) throws IOException {
                Files.delete(dir);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}
