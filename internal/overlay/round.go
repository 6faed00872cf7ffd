package overlay

import (
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/keysort"
	"github.com/forebay-streams/forebay/store"
)

// round is what the end of a round works with: its entries, and the changes they make.
type round struct {
	list    []keysort.Place[*entry]
	changes []store.Change
}

// spareRound is kept for the next end of a round, whichever store's it is: a process has
// many stores and ends few rounds at the same time.
var spareRound atomic.Pointer[round]

// takeRound returns an empty one; giveBack must follow.
func takeRound() *round {
	if r := spareRound.Swap(nil); r != nil {
		return r
	}
	return new(round)
}

func (r *round) giveBack() {
	if max(cap(r.list), cap(r.changes)) > maxKept {
		return
	}
	clear(r.list)
	clear(r.changes)
	r.list, r.changes = r.list[:0], r.changes[:0]
	spareRound.Store(r)
}
