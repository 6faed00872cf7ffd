package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

type flushed = session.Flushed[string, string]

func showFlushed(f flushed) string {
	side := func(v *store.Value[string]) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v.Data, "@", v.Timestamp)
	}
	return fmt.Sprintf("%s[%d,%d]:%s>%s", f.Key, f.Start, f.End, side(f.Old), side(f.New))
}

// cachedKinds are the layouts of a cached store.
var cachedKinds = map[string][]session.Option{
	"segments": nil,
	"plain":    {session.Format(store.Plain)},
	"memory":   {session.InMemory()},
	"ordered":  {session.TimeOrdered(true)},
	"without":  {session.TimeOrdered(false), session.Format(store.Plain)},
}

// Several sessions of a key: each is looked up by exactly its key, start and end
// (KAFKA-7652).
func TestFlushListener(t *testing.T) {
	for name, options := range cachedKinds {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			s := open(t, taskDir(t), append(options, session.Changelog(l), session.Cache(store.NewBudget(1<<20)))...)
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
			require.NoError(t, s.Put("a", 0, 10, value("1")))
			require.NoError(t, s.Put("a", 0, 20, value("2")))
			require.NoError(t, s.Put("a", 5, 20, value("3")))
			require.NoError(t, s.Commit(ctx))
			require.Equal(t, []string{"a[0,10]:>1@10", "a[0,20]:>2@20", "a[5,20]:>3@20"}, got)
			got, contexts = nil, nil
			s.SetRecord(record(2, 200, "r", "2"))
			require.NoError(t, s.Remove("a", 0, 20))
			require.NoError(t, s.Remove("a", 0, 30)) // never there
			s.SetRecord(record(3, 300, "r", "3"))
			require.NoError(t, s.Put("a", 0, 10, value("4")))
			s.SetRecord(store.Record{})
			require.NoError(t, s.Flush(ctx))
			require.Equal(t, []string{"a[0,20]:2@20>", "a[0,10]:1@10>4@10"}, got)
			for i, at := range []int64{2, 3} {
				require.Equal(t, "in", contexts[i].Topic, "of a removal too, which leaves the position")
				require.Equal(t, at, contexts[i].Offset)
				require.True(t, contexts[i].Headers.Equal(headerList("r", fmt.Sprint(at))))
			}
			require.NoError(t, s.Commit(ctx))
			require.ElementsMatch(t, []string{"a[0,10]", "a[5,20]"}, collect(t, sequence(s.View(store.ReadCommitted).FetchKeys())))

			// What has expired is no old session, though its segment is still there.
			s.SetRecord(record(4, 400))
			require.NoError(t, s.Put("b", 0, 120_015, value("5")))
			require.NoError(t, s.Remove("a", 0, 10))
			require.NoError(t, s.Remove("a", 5, 20))
			got = nil
			require.NoError(t, s.Flush(ctx))
			require.Equal(t, []string{"b[0,120015]:>5@120015", "a[5,20]:3@20>"}, got)
		})
	}
}

// A listener that merges sessions writes into the store that is being flushed.
func TestFlushListenerWritesToItsStore(t *testing.T) {
	for name, options := range cachedKinds {
		for _, budget := range []int64{1 << 20, 1} {
			t.Run(fmt.Sprintf("%s/%d", name, budget), func(t *testing.T) {
				s := open(t, taskDir(t), append(options, session.Cache(store.NewBudget(budget)))...)
				s.SetFlushListener(func(f flushed) error {
					if f.New == nil || f.Key != "a" || f.End >= 70_000 {
						return nil
					}
					v, ok, err := s.FetchSession("a", f.Start, f.End)
					require.NoError(t, err)
					require.True(t, ok)
					require.Equal(t, *f.New, v)
					if err := s.Remove("a", f.Start, f.End); err != nil {
						return err
					}
					return s.Put("a", f.Start, f.End+70_000, value(f.New.Data))
				}, true)
				s.SetRecord(record(1, 1))
				require.NoError(t, s.Put("a", 0, 10, value("1")))
				require.NoError(t, s.Put("b", 0, 10, value("1")))
				require.NoError(t, s.Commit(ctx))
				require.ElementsMatch(t, []string{"a[0,70010]", "b[0,10]"}, collect(t, sequence(s.View(store.ReadCommitted).FetchKeys())))
			})
		}
	}
}

// A put of a session that a removal has left behind is logged at once, and forwarded.
func TestFlushListenerAndLatePuts(t *testing.T) {
	for _, format := range []store.Layout{store.Plain, store.WithHeaders} {
		l := &log{}
		s := open(t, taskDir(t), session.Format(format), session.Changelog(l), session.Cache(store.NewBudget(1<<20)))
		var got []string
		s.SetFlushListener(func(f flushed) error {
			got = append(got, showFlushed(f))
			return nil
		}, true)
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("a", 0, 10, value("first")))
		require.NoError(t, s.Remove("b", 0, 600_000))
		require.NoError(t, s.Put("a", 0, 10, value("late")))
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, "a[0,10]:>late@10", got[len(got)-1])
		require.Len(t, l.changes, len(got))
		require.NoError(t, s.Close())
	}
}
