package segment

import (
	"math"
	"slices"
	"sync"
)

// State is what a segmented store knows beside its rows.
type State struct {
	// Stream is the observed stream time, -1 at first. It is not stored.
	Stream int64
	// Floor is the oldest segment that has not expired.
	Floor int64
	// Sequence numbers what a store that keeps duplicates has stored, Logged what it has
	// logged.
	Sequence, Logged int32
}

// Clock keeps the state of one store, with a copy as of the last commit. The owner
// changes it; any goroutine may ask for it with At, or read rows beside it in a Moment.
type Clock struct {
	Rules

	moment    sync.RWMutex // a commit holds it while its rows and its state appear
	mu        sync.RWMutex // the owner holds it while it changes something
	now       State
	committed State
	wanted    []int64 // segments that the next commit makes, even without a row
	aborts    int
}

// NewClock starts at stream time -1.
func NewClock(r Rules) *Clock {
	c := &Clock{Rules: r}
	c.Wiped()
	return c
}

// Now is the owner's state.
func (c *Clock) Now() State { return c.now }

// At is the state as of the last commit, or with uncommitted the owner's.
func (c *Clock) At(uncommitted bool) State {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if uncommitted {
		return c.now
	}
	return c.committed
}

// Moment runs read with a state (see At) that no commit changes meanwhile: what read opens
// shows the rows of the same commit. It must not wait for the owner.
func (c *Clock) Moment(uncommitted bool, read func(State)) {
	c.moment.RLock()
	defer c.moment.RUnlock()
	read(c.At(uncommitted))
}

// Publish runs write, which makes the rows of a commit visible, and makes the state that
// of the commit unless it fails. Without this, a reader with the state from before would
// see rows that the commit has given up beside rows that it wrote.
func (c *Clock) Publish(write func() error) error {
	c.moment.Lock()
	defer c.moment.Unlock()
	err := write()
	if err == nil {
		c.Committed()
	}
	return err
}

// Raise moves stream time on to ts.
func (c *Clock) Raise(ts int64) {
	if ts > c.now.Stream {
		c.mu.Lock()
		c.now.Stream = ts
		c.mu.Unlock()
	}
}

// Live tells whether a row of that time is taken in.
func (c *Clock) Live(ts int64) bool { return c.ID(ts) >= c.MinLive(c.now.Stream) }

// Put notes that the segment of a live time is written, and expires what is no longer
// live.
func (c *Clock) Put(ts int64) {
	if id := c.ID(ts); len(c.wanted) == 0 || c.wanted[len(c.wanted)-1] != id && !slices.Contains(c.wanted, id) {
		c.wanted = append(c.wanted, id)
	}
	c.Expire()
}

// Expire gives up the segments that are no longer live.
func (c *Clock) Expire() { c.RaiseFloor(c.MinLive(c.now.Stream)) }

// RaiseFloor gives up the segments below id.
func (c *Clock) RaiseFloor(id int64) {
	if id > c.now.Floor {
		c.mu.Lock()
		c.now.Floor = id
		c.mu.Unlock()
	}
}

// First is the oldest segment in which a scan from a time looks.
func (c *Clock) First(s State, ts int64) int64 { return max(c.ID(ts), s.Floor) }

// NextSequence numbers a row that is stored.
func (c *Clock) NextSequence() int32 { return c.count(&c.now.Sequence) }

// NextLogged numbers a row that is logged.
func (c *Clock) NextLogged() int32 { return c.count(&c.now.Logged) }

func (c *Clock) count(n *int32) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n = (*n + 1) & math.MaxInt32
	return *n
}

// Attempt runs a write that moves the clock; if it fails, the clock is as it was: a write
// that is refused must not expire what is there.
func (c *Clock) Attempt(write func() error) error {
	now, wanted := c.now, len(c.wanted)
	err := write()
	if err != nil {
		c.mu.Lock()
		c.now, c.wanted = now, c.wanted[:wanted]
		c.mu.Unlock()
	}
	return err
}

// Committed makes the state that of the last commit.
func (c *Clock) Committed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed, c.wanted = c.now, c.wanted[:0]
}

// Aborted goes back to the last commit.
func (c *Clock) Aborted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.wanted = c.committed, c.wanted[:0]
	c.aborts++
}

// Wiped starts anew.
func (c *Clock) Wiped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = State{Stream: -1, Floor: math.MinInt64}
	c.committed, c.wanted = c.now, c.wanted[:0]
}
