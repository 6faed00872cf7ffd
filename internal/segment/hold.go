package segment

import "sync"

// holds counts the scans and snapshots that read a segment. An expired segment is deleted
// when the last of them ends, so that a scan shows the rows of one moment to its end.
type holds struct {
	mu    sync.Mutex
	users int
	last  func() // what to do then; nil: nothing
}

func (h *holds) hold() {
	h.mu.Lock()
	h.users++
	h.mu.Unlock()
}

func (h *holds) release() {
	h.mu.Lock()
	h.users--
	var last func()
	if h.users == 0 {
		last, h.last = h.last, nil
	}
	h.mu.Unlock()
	if last != nil {
		last()
	}
}

// whenUnused runs last once, now or when the last user goes.
func (h *holds) whenUnused(last func()) {
	h.mu.Lock()
	if h.users > 0 {
		h.last, last = last, nil
	}
	h.mu.Unlock()
	if last != nil {
		last()
	}
}

// waits tells whether something waits for the last user.
func (h *holds) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last != nil
}

// now runs what waits for the users, whose reads then end with an error.
func (h *holds) now() {
	h.mu.Lock()
	last := h.last
	h.last = nil
	h.mu.Unlock()
	if last != nil {
		last()
	}
}
