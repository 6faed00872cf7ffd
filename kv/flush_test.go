package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

type flushed = kv.Flushed[string, string]

// show writes "key:old>new", with headers and timestamp where there are any.
func show(f flushed) string {
	side := func(v *store.Value[string]) string {
		if v == nil {
			return ""
		}
		s := v.Data
		for h := range v.Headers.All() {
			s += fmt.Sprintf("{%s=%s}", h.Key, h.Value)
		}
		if v.Timestamp >= 0 {
			s += fmt.Sprint("@", v.Timestamp)
		}
		return s
	}
	return fmt.Sprintf("%s:%s>%s", f.Key, side(f.Old), side(f.New))
}

func TestFlushListener(t *testing.T) {
	for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders} {
		for _, memory := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/memory=%v", layout, memory), func(t *testing.T) {
				l := &log{}
				options := []kv.Option{kv.Format(layout), kv.Changelog(l), kv.Cache(store.NewBudget(1 << 20))}
				if memory {
					options = append(options, kv.InMemory())
				}
				s := open(t, taskDir(t), options...)
				var got []string
				var contexts []store.Record
				require.True(t, s.SetFlushListener(func(f flushed) error {
					got = append(got, show(f))
					contexts = append(contexts, f.Record)
					require.Len(t, l.changes, 1, "after its changelog record")
					l.changes = nil
					return nil
				}, true))
				s.SetRecord(record(1, 100, "r", "1"))
				require.NoError(t, s.Put("a", value("1", 10, "h", "1")))
				require.NoError(t, s.Put("b", value("1", 11)))
				require.NoError(t, s.Commit(ctx))
				want := map[store.Layout][]string{
					store.Plain:       {"a:>1", "b:>1"},
					store.Timestamped: {"a:>1@10", "b:>1@11"},
					store.WithHeaders: {"a:>1{h=1}@10", "b:>1@11"}}[layout]
				require.Equal(t, want, got)
				s.SetRecord(record(2, 200, "r", "2"))
				require.NoError(t, s.Put("a", value("2", 20)))
				_, _, err := s.Delete("b")
				require.NoError(t, err)
				require.NoError(t, s.Tombstone("never"))
				s.SetRecord(record(3, 300, "r", "3"))
				require.NoError(t, s.Put("a", value("3", 30)))
				got, contexts = nil, nil
				s.SetRecord(store.Record{})
				require.NoError(t, s.Flush(ctx))
				want = map[store.Layout][]string{
					store.Plain:       {"b:1>", "a:1>3"},
					store.Timestamped: {"b:1@11>", "a:1@10>3@30"},
					store.WithHeaders: {"b:1@11>", "a:1{h=1}@10>3@30"}}[layout]
				require.Equal(t, want, got)
				require.Len(t, contexts, 2)
				for i, at := range []int64{2, 3} {
					require.Equal(t, at, contexts[i].Offset)
					require.Equal(t, at*100, contexts[i].Timestamp)
					require.True(t, contexts[i].Headers.Equal(headerList("r", fmt.Sprint(at))))
				}
			})
		}
	}
	s := open(t, taskDir(t))
	require.False(t, s.SetFlushListener(func(flushed) error { return errors.New("called") }, true), "no cache")
	require.NoError(t, s.Put("a", value("1", 1)))
	require.NoError(t, s.Commit(ctx))
}

// marking is a serde that can read only what still has the header it added.
type marking struct {
	store.Serde[string]
	name string
}

func (m marking) Serialize(topic string, h *store.Headers, v string) ([]byte, error) {
	if err := h.Add(m.name, []byte(v)); err != nil {
		return nil, err
	}
	return m.Serde.Serialize(topic, nil, v)
}

func (m marking) Deserialize(topic string, h *store.Headers, b []byte) (string, error) {
	if x, ok := h.Last(m.name); !ok || string(x.Value) != string(b) {
		return "", fmt.Errorf("%s %q without its mark", m.name, b)
	}
	return m.Serde.Deserialize(topic, nil, b)
}

// The listener's key is decoded with the headers that it was encoded with, of a delete too;
// the context's are those of the record and have no additions of serdes.
func TestFlushListenerAndSerdesThatUseHeaders(t *testing.T) {
	s, err := kv.Open(taskDir(t), "store", store.Serde[string](marking{store.String(), "k"}), store.Serde[string](marking{store.String(), "v"}), kv.Cache(store.NewBudget(1<<20)))
	require.NoError(t, err)
	defer s.Close()
	var got []string
	s.SetFlushListener(func(f flushed) error {
		got = append(got, show(f))
		require.True(t, f.Record.Headers.Equal(headerList("r", "1")))
		return nil
	}, true)
	s.SetRecord(record(1, 1, "r", "1"))
	require.NoError(t, s.Put("a", value("1", 1, "h", "1")))
	require.NoError(t, s.Flush(ctx))
	require.NoError(t, s.Tombstone("a"))
	require.NoError(t, s.Flush(ctx))
	require.Equal(t, []string{"a:>1{h=1}{k=a}{v=1}@1", "a:1{h=1}{k=a}{v=1}@1>"}, got)
}

// Two stores of one budget, the second counting what the first forwards: with a budget so
// small that any call may flush, no call loses its key, and both end as without a cache.
func TestFlushListenersOfTwoStores(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, bytes := range []int64{1, 1000, 3000, 1 << 20} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(bytes)))
			budget := store.NewBudget(bytes)
			dir := taskDir(t)
			in, err := kv.Open(dir, "in", store.String(), store.String(), kv.Cache(budget))
			require.NoError(t, err)
			defer in.Close()
			counts, err := kv.Open(dir, "counts", store.String(), store.Int64(), kv.Cache(budget))
			require.NoError(t, err)
			defer counts.Close()
			out := map[string]int64{}
			add := func(group string, n int64) error {
				v, _, err := counts.Get(group)
				if err != nil {
					return err
				}
				if v.Data += n; v.Data == 0 {
					return counts.Tombstone(group)
				}
				v.Timestamp = 1
				return counts.Put(group, v)
			}
			in.SetFlushListener(func(f flushed) error {
				counts.SetRecord(f.Record)
				if f.Old != nil {
					if err := add(f.Old.Data, -1); err != nil {
						return err
					}
				}
				if f.New == nil {
					return nil
				}
				// A key beside it, which shares the store's buffers with the call under way.
				if !strings.HasPrefix(f.Key, "seen-") {
					if _, _, err := in.PutIfAbsent("seen-"+f.Key, value("seen", 1)); err != nil {
						return err
					}
				}
				return add(f.New.Data, 1)
			}, true)
			counts.SetFlushListener(func(f kv.Flushed[string, int64]) error {
				if f.New == nil {
					delete(out, f.Key)
				} else {
					out[f.Key] = f.New.Data
				}
				return nil
			}, false)
			rows, seen := map[string]string{}, map[string]bool{}
			key := func() string { return fmt.Sprint("key-", r.IntN(6)) }
			for i := range int64(3000) {
				in.SetRecord(record(i, i))
				k, group := key(), fmt.Sprint("group-", r.IntN(3))
				switch r.IntN(6) {
				case 0, 1:
					require.NoError(t, in.Put(k, value(group, i)))
					rows[k] = group
				case 2:
					old, present, err := in.PutIfAbsent(k, value(group, i))
					require.NoError(t, err)
					require.Equal(t, rows[k], old.Data)
					if !present {
						rows[k] = group
					}
				case 3:
					old, _, err := in.Delete(k)
					require.NoError(t, err)
					require.Equal(t, rows[k], old.Data)
					delete(rows, k)
				case 4:
					v, _, err := in.Get(k)
					require.NoError(t, err)
					require.Equal(t, rows[k], v.Data)
				case 5:
					if r.IntN(10) > 0 {
						continue
					}
					require.NoError(t, in.Flush(ctx))
					require.NoError(t, counts.Flush(ctx))
					want := map[string]int64{}
					for _, group := range rows {
						want[group]++
					}
					for row, err := range in.Prefix([]byte("seen-")) {
						require.NoError(t, err)
						seen[row.Key] = true
					}
					if len(seen) > 0 {
						want["seen"] = int64(len(seen))
					}
					require.Equal(t, want, out)
					require.NoError(t, in.Commit(ctx))
					require.NoError(t, counts.Commit(ctx))
				}
			}
			require.NotEmpty(t, seen)
		})
	}
}
