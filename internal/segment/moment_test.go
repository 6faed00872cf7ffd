package segment

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Every commit writes three segments and gives up the oldest: a reader must see the state
// and the rows of one commit, never the rows of one below the floor of another.
func TestStateAndRowsOfOneMoment(t *testing.T) {
	rules := Rules{Interval: 1, Retention: 2}
	clocks := map[string]*Clock{"memory": NewClock(rules), "disk": NewClock(rules)}
	c := config(t, t.TempDir())
	c.Clock = clocks["disk"]
	disk := open(t, c)
	for name, one := range map[string]struct {
		base.Table
		commits int64
	}{"memory": {NewMemory(store.Plain, clocks["memory"]), 3000}, "disk": {disk, 30}} {
		t.Run(name, func(t *testing.T) {
			clock := clocks[name]
			commit := func(n int64) {
				clock.Raise(n + 2)
				var changes []store.Change
				for id := n; id < n+3; id++ {
					clock.Put(id)
					changes = append(changes, store.Change{Key: Key(nil, id), Row: store.Row{Value: fmt.Append(nil, n)}})
				}
				require.NoError(t, one.Commit(changes, checkpoint(n)))
			}
			commit(0)
			var end atomic.Bool
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for !end.Load() {
						var at State
						var rows base.Cursor
						clock.Moment(false, func(s State) {
							at = s
							rows = one.Table.(base.Combed).Comb(base.Comb{First: Prefix(clock.First(s, math.MinInt64)), Last: math.MaxUint64})
						})
						var got strings.Builder
						for rows.Next() {
							id, _ := Split(rows.Key())
							fmt.Fprintf(&got, "%d=%s ", id, rows.Row().Value)
						}
						rows.Close()
						n := at.Floor
						if !assert.Equal(t, fmt.Sprintf("%d=%d %d=%d %d=%d ", n, n, n+1, n, n+2, n), got.String()) {
							return
						}
					}
				})
			}
			for n := int64(1); n < one.commits; n++ {
				commit(n)
			}
			end.Store(true)
			readers.Wait()
		})
	}
}
