package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/changelog"
)

// kafkaRelease is the release of Kafka Streams to test against.
func kafkaRelease() string { return cmp.Or(os.Getenv("KAFKA"), "4.4.0") }

// driverPath holds the classpath of the driver in interop/java; scripts/interop.sh makes it.
func driverPath() string { return filepath.Join("../../.deps/interop", kafkaRelease(), "classpath") }

// needKafka returns the address of a broker and the classpath of the driver.
func needKafka(t *testing.T) (address, classpath string) {
	t.Helper()
	if address = os.Getenv("FOREBAY_BROKER"); address == "" {
		missing(t, "set FOREBAY_BROKER=host:port to test against Kafka Streams (scripts/broker.sh starts a broker)")
	}
	return address, needDriver(t)
}

// needDriver returns the classpath of the driver.
func needDriver(t *testing.T) (classpath string) {
	t.Helper()
	b, err := os.ReadFile(driverPath())
	if errors.Is(err, os.ErrNotExist) {
		missing(t, "no driver of Kafka Streams (scripts/interop.sh makes it)")
	}
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// missing skips a test for want of something, or fails it if FOREBAY_REQUIRE_BROKER is 1.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("FOREBAY_REQUIRE_BROKER") == "1" {
		t.Fatalf("FOREBAY_REQUIRE_BROKER is 1: "+format, args...)
	}
	t.Skipf(format, args...)
}

// kafkaRun is what the driver is asked to run: an application that reads <app>-in.
type kafkaRun struct {
	App           string `json:"app"`
	State         string `json:"state"`
	Store         string `json:"store"`
	Format        string `json:"format"`
	Guarantee     string `json:"guarantee"`
	Cache         int64  `json:"cache"`
	Buffer        int64  `json:"buffer"` // memtable bytes, 0: the default
	Transactional bool   `json:"transactional"`
	Count         int    `json:"count"` // operations until it closes, -1: never

	// Of the other families than kv.
	Retention  int64  `json:"retention"`
	Size       int64  `json:"size"`
	Duplicates bool   `json:"duplicates"`
	Ordered    string `json:"ordered"` // "index", "noindex" or neither

	Memory  bool  `json:"memory"`
	Segment int64 `json:"segment"` // interval of a versioned store, 0: the default
	*inProcess
}

// inProcess is what a run without broker has beside: interop/java/InProcess.java.
type inProcess struct {
	Ops     []scriptOp  `json:"ops"`
	Offset  int64       `json:"offset"`
	Restore []logRecord `json:"restore"`
	Next    int64       `json:"next"`
	Kill    bool        `json:"kill"`
}

// kafkaLine is a line of the driver's output.
type kafkaLine struct {
	App    string          `json:"app"`
	R      json.RawMessage `json:"r"`
	Closed bool            `json:"closed"`
	Failed string          `json:"failed"`
	// Of a run without broker.
	Answers []json.RawMessage `json:"answers"`
	Log     []logRecord       `json:"log"`
}

// driver is a JVM with Kafka Streams in it. It runs several applications at a time.
type driver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	log string // what it wrote to its standard error

	mu    sync.Mutex
	runs  map[string]chan kafkaLine // nil when the JVM is gone
	ended error                     // why it is gone
	gone  chan struct{}
}

// startDriver starts a JVM that ends with the test.
func startDriver(t *testing.T, address, classpath string) *driver {
	t.Helper()
	// Warnings of the JVM itself go to the standard output unless told otherwise.
	return startProcess(t, exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classpath, "Oracle", address))
}

func startProcess(t *testing.T, cmd *exec.Cmd) *driver {
	t.Helper()
	d := &driver{cmd: cmd, runs: map[string]chan kafkaLine{}, gone: make(chan struct{})}
	log, err := os.Create(filepath.Join(t.TempDir(), "java.log"))
	require.NoError(t, err)
	d.log, d.cmd.Stderr = log.Name(), log
	d.in, err = d.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	go func() { d.end(d.read(out)) }()
	t.Cleanup(func() {
		d.in.Close()
		<-d.gone
		if t.Failed() {
			t.Logf("the driver's log:\n%s", d.said())
		}
		log.Close()
	})
	return d
}

// said is the end of what the JVM wrote to its standard error.
func (d *driver) said() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-20_000):])
}

func (d *driver) read(out io.Reader) error {
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return err // a killed JVM may leave half a line
		}
		var line kafkaLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		d.mu.Lock()
		c := d.runs[line.App]
		d.mu.Unlock()
		if c == nil {
			return fmt.Errorf("%q: an application that was not started", text)
		}
		c <- line
	}
}

// end notes why nothing more will be read, and ends the JVM if it has not ended.
func (d *driver) end(read error) {
	if !errors.Is(read, io.EOF) {
		_ = d.cmd.Process.Kill()
	}
	// Wait closes the pipe, so only now: everything was read.
	wait := d.cmd.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = fmt.Errorf("the JVM has ended (%s): reading its output: %w", d.cmd.ProcessState, read)
	if wait != nil && !errors.As(wait, new(*exec.ExitError)) {
		d.ended = errors.Join(d.ended, wait)
	}
	for _, c := range d.runs {
		close(c)
	}
	d.runs = nil
	close(d.gone)
}

// why tells why a channel was closed.
func (d *driver) why() string {
	<-d.gone
	return fmt.Sprintf("%v\n%s", d.ended, d.said())
}

// start begins a run of at most so many answers. They come through the channel, which is
// closed only when the JVM ends.
func (d *driver) start(run kafkaRun, answers int) (<-chan kafkaLine, error) {
	// Room for all: nobody may be held up by another run, or by a test that has failed.
	c := make(chan kafkaLine, answers+3)
	b, err := json.Marshal(run)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		return nil, d.ended
	}
	d.runs[run.App] = c
	_, err = d.in.Write(append(b, '\n'))
	return c, err
}

// run does a run without broker, and gives all its answers and what it logged.
func (d *driver) run(run kafkaRun) (answers []json.RawMessage, log []logRecord, err error) {
	lines, err := d.start(run, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		d.mu.Lock()
		delete(d.runs, run.App)
		d.mu.Unlock()
	}()
	for l := range lines {
		switch {
		case l.Failed != "":
			return nil, nil, fmt.Errorf("Kafka Streams: %s", l.Failed)
		case l.Closed:
			return answers, log, nil
		case l.Answers != nil:
			answers = l.Answers
		default:
			log = l.Log
		}
	}
	return nil, nil, errors.New(d.why())
}

// cluster is what the tests do on the broker themselves.
type cluster struct {
	*testing.T
	address string
	client  *kgo.Client
	adm     *kadm.Client
}

func newCluster(t *testing.T, address string) *cluster {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &cluster{t, address, client, kadm.NewClient(client)}
}

// soon is a context for one request.
func (c *cluster) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.Cleanup(cancel)
	return ctx
}

// poll asks until the answer is yes.
func (c *cluster) poll(what string, done func() bool) {
	c.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		require.True(c, time.Now().Before(end), what)
	}
}

// makeInput makes an application's input topic; all of the application goes with the test.
func (c *cluster) makeInput(app string) {
	forever := "-1"
	_, err := c.adm.CreateTopic(c.soon(), 1, 1, map[string]*string{"retention.ms": &forever}, app+"-in")
	require.NoError(c, err)
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := c.adm.DeleteTopics(ctx, app+"-in", changelog.Name(app, storeName))
		require.NoError(c, err)
		_, err = c.adm.DeleteGroup(ctx, app)
		require.NoError(c, err)
	})
}

// produce appends operations to the input.
func (c *cluster) produce(app string, ops []scriptOp, first int64) {
	records := make([]*kgo.Record, len(ops))
	for i, op := range ops {
		text, err := json.Marshal(op)
		require.NoError(c, err)
		h, err := op.common().RH.headers()
		require.NoError(c, err)
		headers, err := changelog.RecordHeaders(h)
		require.NoError(c, err)
		records[i] = &kgo.Record{Topic: app + "-in", Value: text, Headers: headers, Timestamp: time.UnixMilli(op.common().RTS)}
	}
	for i, r := range c.client.ProduceSync(c.soon(), records...) {
		require.NoError(c, r.Err)
		require.Equal(c, first+int64(i), r.Record.Offset)
	}
}

// end is the offset after the last record; stable leaves out what is in open transactions.
func (c *cluster) end(topic string, stable bool) int64 {
	list := c.adm.ListEndOffsets
	if stable {
		list = c.adm.ListCommittedOffsets
	}
	offsets, err := list(c.soon(), topic)
	require.NoError(c, err)
	o, ok := offsets.Lookup(topic, 0)
	require.True(c, ok)
	if errors.Is(o.Err, kerr.UnknownTopicOrPartition) {
		return 0
	}
	require.NoError(c, o.Err)
	return o.Offset
}

// log reads a topic from an offset to its end, without what was aborted.
func (c *cluster) log(topic string, from int64) (list []logRecord, end int64) {
	if end = c.end(topic, false); end <= from {
		return nil, end
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.address), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	require.NoError(c, err)
	defer client.Close()
	for ctx, next := c.soon(), from; next < end; {
		fetched := client.PollFetches(ctx)
		require.NoError(c, fetched.Err0())
		for r := range fetched.RecordsAll() {
			if next = r.Offset + 1; r.Offset < end && !r.Attrs.IsControl() {
				list = append(list, logRecord{r.Offset, r.Key, r.Value, r.Timestamp.UnixMilli(), listHeaders(changelog.Headers(r))})
			}
		}
	}
	return list, end
}

// committed is the group's offset in the input, 0 before there is one.
func (c *cluster) committed(app string) int64 {
	offsets, err := c.adm.FetchOffsets(c.soon(), app)
	require.NoError(c, err)
	if o, ok := offsets.Lookup(app+"-in", 0); ok {
		require.NoError(c, o.Err)
		return max(0, o.At)
	}
	return 0
}

// bury does what time does when an application was killed: its group forgets it, and its
// transactions end.
func (c *cluster) bury(app string) {
	ctx := c.soon()
	groups, err := c.adm.DescribeGroups(ctx, app)
	require.NoError(c, err)
	for _, m := range groups[app].Members {
		request := kmsg.NewPtrLeaveGroupRequest()
		request.Group = app
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		request.Members = append(request.Members, member)
		response, err := request.RequestWith(ctx, c.client)
		require.NoError(c, err)
		require.NoError(c, kerr.ErrorForCode(response.ErrorCode))
	}
	transactions, err := c.adm.ListTransactions(ctx, nil, nil)
	require.NoError(c, err)
	for _, id := range transactions.TransactionalIDs() {
		if !strings.HasPrefix(id, app) {
			continue
		}
		heir, err := kgo.NewClient(kgo.SeedBrokers(c.address), kgo.TransactionalID(id))
		require.NoError(c, err)
		_, _, err = heir.ProducerID(ctx) // takes the id over, and what was open is aborted
		heir.Close()
		require.NoError(c, err)
	}
	topics := []string{app + "-in", changelog.Name(app, storeName)}
	c.poll("open transactions", func() bool {
		return !slices.ContainsFunc(topics, func(t string) bool { return c.end(t, true) != c.end(t, false) })
	})
}
