package buffer_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/buffer"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

func suppress(l *log, parts bool) *buffer.Suppress {
	c := buffer.Config{Name: "s", Topic: "app-s-changelog", Parts: parts}
	if l != nil {
		c.Log = l
	}
	return buffer.NewSuppress(c)
}

func recordAt(at int64, h store.Headers) store.Record {
	return store.Record{Topic: "in", Offset: at, Timestamp: at, Headers: h}
}

func TestSuppressOrder(t *testing.T) {
	s := suppress(nil, false)
	_, ok := s.First()
	assert.False(t, ok)
	require.NoError(t, s.Put(20, []byte("b"), []byte("1"), nil, recordAt(1, store.Headers{})))
	require.NoError(t, s.Put(20, []byte("a"), []byte("2"), nil, recordAt(2, store.Headers{})))
	require.NoError(t, s.Put(10, []byte("c"), []byte("3"), nil, recordAt(3, store.Headers{})))
	require.NoError(t, s.Put(99, []byte("c"), []byte("4"), []byte("3"), recordAt(4, store.Headers{})))
	first, ok := s.First()
	require.True(t, ok)
	assert.EqualValues(t, 10, first, "an update keeps its place")
	var got []string
	for {
		key, row, ok := s.Evict()
		if !ok {
			break
		}
		got = append(got, fmt.Sprintf("%d %s=%s (%s)", row.Time, key, row.New, row.Old.Value))
	}
	assert.Equal(t, []string{"10 c=4 (3)", "20 a=2 ()", "20 b=1 ()"}, got)
	assert.Zero(t, s.Bytes())
}

func TestSuppressPrior(t *testing.T) {
	s := suppress(nil, true)
	_, ok := s.Prior([]byte("k"))
	assert.False(t, ok)
	require.NoError(t, s.Put(1, []byte("k"), []byte("b"), []byte("a"), recordAt(1, headers("h", "1"))))
	require.NoError(t, s.Put(1, []byte("k"), []byte("c"), []byte("b"), recordAt(2, headers("h", "2"))))
	prior, ok := s.Prior([]byte("k"))
	require.True(t, ok)
	assert.Equal(t, store.Row{Value: []byte("a"), Timestamp: store.NoTimestamp}, prior, "of unknown origin")
	_, row, _ := s.Evict()
	assert.Equal(t, []byte("b"), row.Old.Value)
	assert.EqualValues(t, 1, row.Old.Timestamp, "the old part is the row's previous new one")
	assert.True(t, headers("h", "1").Equal(row.Old.Headers))
	assert.True(t, headers("h", "2").Equal(row.Context.Headers))
	require.NoError(t, s.Put(1, []byte("new"), []byte("c"), nil, recordAt(3, store.Headers{})))
	prior, ok = s.Prior([]byte("new"))
	assert.True(t, ok)
	assert.Nil(t, prior.Value)
}

func TestSuppressChangelog(t *testing.T) {
	l := &log{}
	s := suppress(l, true)
	require.NoError(t, s.Put(2000, []byte("k"), []byte("v0"), nil, recordAt(999, store.Headers{})))
	require.NoError(t, s.Put(2000, []byte("k"), []byte("v1"), nil, store.Record{Topic: "t", Offset: 42, Timestamp: 1000, Headers: headers("h", "x")}))
	require.NoError(t, s.Put(2000, []byte("gone"), []byte("v"), nil, recordAt(1000, headers("h", "x"))))
	first, _, _ := s.Evict()
	require.Equal(t, "gone", string(first))
	require.Empty(t, l.records, "nothing before the commit")
	require.NoError(t, s.Commit(t.Context()))
	require.Len(t, l.records, 2, "once for each key")
	assert.Equal(t, "k", string(l.records[0].Key))
	assert.Equal(t, "00000000000003e8000000000000002a0000000174000000000000000100000001680000000178ffffffffffffffff00000002763100000000000007d0", fmt.Sprintf("%x", l.records[0].Value))
	assert.Equal(t, []store.Header{{Key: "v", Value: []byte{3}}}, l.records[0].Headers.List())
	assert.Equal(t, store.Change{Key: []byte("gone"), Row: store.Row{Timestamp: store.NoTimestamp}}, l.records[1], "a tombstone has no headers")
	require.NoError(t, s.Commit(t.Context()))
	require.Len(t, l.records, 2, "nothing changed")
	offset, ok := s.RestoredOffset()
	assert.True(t, ok)
	assert.EqualValues(t, 1, offset)
}

func TestSuppressFailingLog(t *testing.T) {
	l := &log{fail: errors.New("no broker")}
	s := suppress(l, false)
	require.NoError(t, s.Put(1, []byte("k"), []byte("v"), nil, recordAt(1, store.Headers{})))
	err := s.Commit(t.Context())
	require.ErrorIs(t, err, l.fail)
	var named *store.Error
	require.ErrorAs(t, err, &named)
	l.fail = nil
	require.NoError(t, s.Commit(t.Context()))
	require.Len(t, l.records, 1, "a commit that failed is made up for")
}

func TestSuppressBadBytes(t *testing.T) {
	s := suppress(nil, false)
	require.NoError(t, s.RestoreBatch([]store.Change{{Key: []byte("a"), Row: store.Row{Value: make([]byte, 16), Timestamp: 5}}}, 0))
	require.Equal(t, 1, s.Len(), "version 0: time, old and new, both empty")
	err := s.RestoreBatch([]store.Change{{Key: []byte("a")}, {Key: []byte("k"), Row: store.Row{Value: []byte{1}}}}, 1)
	require.ErrorIs(t, err, store.ErrCorrupt)
	assert.Contains(t, err.Error(), "6b")
	assert.Equal(t, 1, s.Len(), "nothing of the batch is applied")
	require.ErrorIs(t, s.RestoreBatch([]store.Change{{}}, 1), store.ErrNilKey)
	require.ErrorIs(t, s.Put(1, []byte("k"), nil, nil, recordAt(1, store.HeadersFromBlock([]byte{9}))), store.ErrCorrupt)
	_, _, _ = s.Evict()
	require.ErrorIs(t, s.RestoreBatch(nil, 1), store.ErrConfig, "uncommitted rows")
	require.NoError(t, s.Wipe())
	require.NoError(t, s.RestoreBatch(nil, 1))
}

// model is the buffer as a plain list.
type model []modelRow

type modelRow struct {
	key, value, old, prior string
	time                   int64
	context                store.Record
}

func (m model) at(key string) int {
	return slices.IndexFunc(m, func(r modelRow) bool { return r.key == key })
}

func (m model) check(t *testing.T, s *buffer.Suppress) {
	t.Helper()
	require.Equal(t, len(m), s.Len())
	size := int64(0)
	for _, r := range m {
		n := 8 + 20 + len(r.key) + len(r.value) + len(r.prior) + len(r.context.Topic)
		if r.old != r.prior {
			n += len(r.old)
		}
		for h := range r.context.Headers.All() {
			n += len(h.Key) + len(h.Value)
		}
		size += int64(n)
		prior, ok := s.Prior([]byte(r.key))
		require.True(t, ok)
		require.Equal(t, r.prior, string(prior.Value))
	}
	require.Equal(t, size, s.Bytes())
	first, ok := s.First()
	require.Equal(t, len(m) > 0, ok)
	if ok {
		require.Equal(t, m[0].time, first)
	}
}

func (m model) sort() {
	slices.SortFunc(m, func(a, b modelRow) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.key, b.key)) })
}

func orNil(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func TestSuppressRandom(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := &log{}
		parts := seed%2 == 0
		s := suppress(l, parts)
		var now, committed model
		logged := 0
		for at := range int64(200) {
			switch r.IntN(12) {
			default:
				key, value, old := fmt.Sprint("k", r.IntN(9)), fmt.Sprint("v", r.IntN(3)), fmt.Sprintf("%.*s", 2*r.IntN(2), "v1")
				if r.IntN(8) == 0 {
					value = ""
				}
				row := modelRow{key, value, old, old, r.Int64N(50), recordAt(at, headers("h", fmt.Sprint(at)))}
				require.NoError(t, s.Put(row.time, []byte(key), orNil(value), orNil(old), row.context))
				if i := now.at(key); i >= 0 {
					row.time, row.prior = now[i].time, now[i].prior
					now = slices.Delete(now, i, i+1)
				}
				now = append(now, row)
				now.sort()
			case 0, 1, 2:
				key, row, ok := s.Evict()
				require.Equal(t, len(now) > 0, ok)
				if ok {
					require.Equal(t, now[0].key, string(key))
					require.Equal(t, now[0].value, string(row.New))
					require.Equal(t, now[0].old, string(row.Old.Value))
					require.Equal(t, now[0].context.Timestamp, row.Context.Timestamp)
					now = now[1:]
				}
			case 3:
				require.NoError(t, s.Commit(t.Context()))
				committed, logged = slices.Clone(now), len(l.records)
			case 4:
				s.Abort()
				l.records = l.records[:logged]
				now = slices.Clone(committed)
			}
			now.check(t, s)
		}
		require.NoError(t, s.Commit(t.Context()))
		restored := suppress(&log{}, parts)
		changes := l.take(0)
		for at := 0; at < len(changes); {
			n := min(1+r.IntN(20), len(changes)-at)
			require.NoError(t, restored.RestoreBatch(changes[at:at+n], int64(at+n-1)))
			for _, c := range changes[at : at+n] { // a fetch's buffers are used again
				clear(c.Key)
				clear(c.Value)
			}
			at += n
		}
		now.check(t, restored)
		for {
			key, want, ok := s.Evict()
			gotKey, got, gotOK := restored.Evict()
			require.Equal(t, ok, gotOK)
			if !ok {
				break
			}
			require.Equal(t, key, gotKey)
			require.Equal(t, encoded(t, want, parts), encoded(t, got, parts))
		}
		require.NoError(t, s.Close())
	}
}

// encoded is everything that a row holds, as bytes.
func encoded(t *testing.T, b wire.Buffered, parts bool) []byte {
	value, h, err := wire.EncodeBuffered(b, parts)
	require.NoError(t, err)
	block, err := h.AppendBlock(nil)
	require.NoError(t, err)
	return bytes.Join([][]byte{value, block}, nil)
}
