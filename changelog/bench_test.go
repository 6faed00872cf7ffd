package changelog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

// null is a store that keeps nothing, so that what is measured is everything before it.
type null struct {
	topic string
	rows  int
}

func (n *null) ChangelogPartition() (string, int32) { return n.topic, 0 }
func (n *null) RestoredOffset() (int64, bool)       { return 0, false }
func (n *null) Wipe() error                         { return nil }
func (n *null) RestoreBatch(changes []store.Change, _ int64) error {
	n.rows += len(changes)
	return nil
}

// fill writes rows with a key of 16 bytes, a value of 100, and headers of some 20 bytes.
func fill(t testing.TB, w *Writer, rows, headers int) {
	t.Helper()
	value := make([]byte, 100)
	var h store.Headers
	for i := range headers {
		require.NoError(t, h.Add(fmt.Sprintf("trace-%d", i), []byte("0123456789ab")))
	}
	for i := range rows {
		require.NoError(t, w.Append(store.Change{
			Key: fmt.Appendf(nil, "key-%012d", i),
			Row: store.Row{Value: value, Timestamp: int64(1700000000000 + i), Headers: h},
		}))
	}
	_, _, err := w.Flush(testContext(t))
	require.NoError(t, err)
}

const benchRows = 300_000

// restoreRows restores what fill wrote, again and again.
func restoreRows(b *testing.B, seeds []string, topic string) {
	cl := newClient(b, seeds)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		n := &null{topic: topic}
		_, err := Restore(testContext(b), cl, n)
		require.NoError(b, err)
		require.Equal(b, benchRows, n.rows)
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkRestore(b *testing.B) {
	for _, headers := range []int{0, 2} {
		b.Run(fmt.Sprintf("headers=%d", headers), func(b *testing.B) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
			require.NoError(b, err)
			defer c.Close()
			cl := newProducer(b, c.ListenAddrs(), kgo.ProducerBatchCompression(kgo.NoCompression()))
			fill(b, newWriter(b, cl), benchRows, headers)
			restoreRows(b, c.ListenAddrs(), topic)
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic), kfake.BlackholeProduce())
	require.NoError(b, err)
	defer c.Close()
	cl := newProducer(b, c.ListenAddrs(), kgo.ProducerLinger(5*time.Millisecond))
	b.ReportAllocs()
	b.ResetTimer()
	fill(b, newWriter(b, cl), b.N, 2)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
