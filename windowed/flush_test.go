package windowed_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

type flushed = windowed.Flushed[string, string]

func showFlushed(f flushed) string {
	side := func(v *store.Value[string]) string {
		if v == nil {
			return ""
		}
		s := v.Data
		for h := range v.Headers.All() {
			s += fmt.Sprintf("{%s=%s}", h.Key, h.Value)
		}
		return fmt.Sprint(s, "@", v.Timestamp)
	}
	return fmt.Sprintf("%s[%d,%d]:%s>%s", f.Key, f.Start, f.End, side(f.Old), side(f.New))
}

// cachedKinds are the layouts of a cached store.
var cachedKinds = map[string][]windowed.Option{
	"segments":            nil,
	"memory":              {windowed.InMemory()},
	"ordered":             {windowed.TimeOrdered(true)},
	"ordered without":     {windowed.TimeOrdered(false)},
	"timestamped":         {windowed.Format(store.Timestamped)},
	"ordered timestamped": {windowed.Format(store.Timestamped), windowed.TimeOrdered(false)},
}

func TestFlushListener(t *testing.T) {
	for name, options := range cachedKinds {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			s := open(t, taskDir(t), append(options, windowed.Changelog(l), windowed.Cache(store.NewBudget(1<<20)))...)
			var got []string
			var contexts []store.Record
			require.True(t, s.SetFlushListener(func(f flushed) error {
				got = append(got, showFlushed(f))
				contexts = append(contexts, f.Record)
				require.Len(t, l.changes, 1, "after its changelog record")
				l.changes = nil
				return nil
			}, true))
			s.SetRecord(record(1, 100, "r", "1"))
			require.NoError(t, s.Put("a", 1000, value("1", 10)))
			require.NoError(t, s.Put("b", 1000, value("1", 11)))
			require.NoError(t, s.Commit(ctx))
			require.Equal(t, []string{"a[1000,31000]:>1@10", "b[1000,31000]:>1@11"}, got)
			got, contexts = nil, nil
			require.NoError(t, s.Put("a", 1000, value("2", 20)))
			require.NoError(t, s.Tombstone("b", 1000))
			require.NoError(t, s.Tombstone("never", 1000))
			s.SetRecord(record(2, 200, "r", "2"))
			require.NoError(t, s.Put("a", 1000, value("3", 30)))
			require.NoError(t, s.Put("a", 2000, value("1", 31)))
			s.SetRecord(store.Record{})
			require.NoError(t, s.Flush(ctx))
			require.Equal(t, []string{"b[1000,31000]:1@11>", "a[1000,31000]:1@10>3@30", "a[2000,32000]:>1@31"}, got)
			for i, at := range []int64{1, 2, 2} {
				require.Equal(t, "in", contexts[i].Topic)
				require.Equal(t, at, contexts[i].Offset)
				require.True(t, contexts[i].Headers.Equal(headerList("r", fmt.Sprint(at))))
			}
			require.NoError(t, s.Commit(ctx))
			require.ElementsMatch(t, []string{"a@1000=3", "a@2000=1"}, collect(t, sequence(s.View(store.ReadCommitted).All())))

			// A row that has expired is no old row, though its segment is still there.
			s.SetRecord(record(3, 300))
			require.NoError(t, s.Put("c", 121_500, value("1", 40)))
			require.NoError(t, s.Tombstone("a", 1000))
			require.NoError(t, s.Tombstone("a", 2000))
			got = nil
			require.NoError(t, s.Flush(ctx))
			require.Equal(t, []string{"c[121500,151500]:>1@40", "a[2000,32000]:1@31>"}, got)
		})
	}
	s := open(t, taskDir(t), windowed.RetainDuplicates(), windowed.Cache(store.NewBudget(1<<20)))
	require.False(t, s.SetFlushListener(func(flushed) error { return nil }, true), "a store that retains duplicates has no cache")
}

// A listener writes into the store that is being flushed, in other segments too.
func TestFlushListenerWritesToItsStore(t *testing.T) {
	for name, options := range cachedKinds {
		for _, budget := range []int64{1 << 20, 1} {
			t.Run(fmt.Sprintf("%s/%d", name, budget), func(t *testing.T) {
				s := open(t, taskDir(t), append(options, windowed.Cache(store.NewBudget(budget)))...)
				n := 0
				s.SetFlushListener(func(f flushed) error {
					n++
					switch f.Key {
					case "a":
						v, ok, err := s.Fetch("a", f.Start)
						require.NoError(t, err)
						require.True(t, ok)
						require.Equal(t, *f.New, v)
						return s.Put("b", f.Start+interval, value("from "+f.New.Data, f.New.Timestamp))
					case "b":
						return s.Tombstone("c", f.Start-interval)
					}
					return nil
				}, true)
				s.SetRecord(record(1, 1))
				require.NoError(t, s.Put("c", 1000, value("1", 1)))
				require.NoError(t, s.Put("a", 1000, value("1", 1)))
				require.NoError(t, s.Commit(ctx))
				require.ElementsMatch(t, []string{"a@1000=1", "b@61000=from 1"}, collect(t, sequence(s.View(store.ReadCommitted).All())))
				require.Equal(t, 4, n)
			})
		}
	}
}
