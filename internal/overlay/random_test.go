package overlay

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// A cache never changes an answer: the same random operations on overlays with no, tiny
// and ample cache, beside a plain map with a committed copy.
func TestRandomOperationsAgainstMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, budget := range []int64{-1, 0, 1500, 1 << 20} {
		t.Run(fmt.Sprintf("cache=%d", budget), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(budget)))
			f := newFixture(t, budget >= 0, store.NewBudget(max(budget, 0)))
			now, committed := map[string]string{}, map[string]string{}
			keys := []string{"", "a", "aa", "ab", "b", "b\x00", "b\xff", "\xff", "\xff\xff", "longer-key-1", "longer-key-2"}
			for i := range 8_000 {
				key := keys[r.IntN(len(keys))]
				switch n := r.IntN(100); {
				case n < 35:
					now[key] = fmt.Sprint(i)
					f.write(key, now[key])
				case n < 45:
					delete(now, key)
					f.delete(key)
				case n < 65:
					want, ok := now[key]
					if !ok {
						want = "-"
					}
					require.Equal(t, want, f.get(key))
				case n < 90:
					span := base.Span{Reverse: r.IntN(2) == 0, Exclusive: r.IntN(3) == 0}
					if r.IntN(3) > 0 {
						span.From = []byte(keys[r.IntN(len(keys))])
					}
					if r.IntN(3) > 0 {
						span.To = []byte(keys[r.IntN(len(keys))])
					}
					require.Equal(t, inSpan(now, span), rows(t, f.Scan(span)), "%+v", span)
				case n < 94:
					require.NoError(t, f.Flush(context.Background()))
				case n < 98:
					f.commit()
					committed = maps.Clone(now)
				default:
					f.Abort()
					now = maps.Clone(committed)
				}
				if i%500 == 0 {
					require.Equal(t, inSpan(committed, base.Span{}), rows(t, f.View(false).Scan(base.Span{})))
				}
			}
		})
	}
}

func inSpan(m map[string]string, span base.Span) (out []string) {
	var keys []string
	for k := range m {
		if span.Contains([]byte(k)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if span.Reverse {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		out = append(out, k+"="+m[k])
	}
	return out
}

// Every commit writes one number under all keys; aborted rounds write a negative one.
// Readers must never see two numbers, a missing key, or, committed, a negative one.
func TestReadersSeeWholeCommits(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(2000))
		keys := []string{"a", "b", "c", "d", "e"}
		write := func(n int) {
			changes := make([]store.Change, len(keys))
			for i, k := range keys {
				changes[i] = store.Change{Key: []byte(k), Row: store.Row{Value: []byte(fmt.Sprint(n))}}
			}
			require.NoError(t, f.PutAll(changes, f.record()))
		}
		write(0)
		f.commit()
		var stop atomic.Bool
		var readers sync.WaitGroup
		for i := range 8 {
			readers.Go(func() {
				view := f.View(i%2 == 0)
				var scratch []byte
				for !stop.Load() {
					c := view.Scan(base.Span{Reverse: i%3 == 0})
					n, value := 0, ""
					for c.Next() {
						if n > 0 && value != string(c.Row().Value) {
							t.Errorf("torn read: %s beside %s", value, c.Row().Value)
						}
						value = string(c.Row().Value)
						n++
					}
					c.Close()
					if n != len(keys) || i%2 == 1 && value[0] == '-' {
						t.Errorf("%d rows of %s", n, value)
					}
					if _, ok, err := view.Get([]byte("c"), &scratch); !ok || err != nil {
						t.Errorf("c is missing: %v", err)
					}
				}
			})
		}
		for i := 1; i < 2000; i++ {
			if i%5 == 0 {
				write(-i)
				f.Abort()
				continue
			}
			write(i)
			if i%3 == 0 {
				require.NoError(t, f.Flush(context.Background()))
			}
			f.commit()
		}
		stop.Store(true)
		readers.Wait()
	})
}
