package dsl

import (
	"fmt"
	"math"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/window"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// Windowed is a key in a window: the key of windowed tables. Times are ms since the epoch;
// whether the end belongs to the window depends on its kind.
type Windowed[K any] struct {
	Key        K
	Start, End int64
}

// Windows are [TimeWindows] or [SlidingWindows].
type Windows interface{ groupsWindows() }

func (TimeWindows) groupsWindows()    {}
func (SlidingWindows) groupsWindows() {}

// TimeWindows have a fixed size and begin at multiples of their advance. Their end does not
// belong to them.
type TimeWindows struct{ size, advance, grace time.Duration }

// Tumbling windows follow one another.
func Tumbling(size time.Duration) TimeWindows { return TimeWindows{size: size, advance: size} }

// Hopping windows begin every advance, which is at most their size: a record belongs to
// several.
func Hopping(size, advance time.Duration) TimeWindows {
	return TimeWindows{size: size, advance: advance}
}

// Grace sets how long after its end a window takes late records, in stream time. Default: 0.
func (w TimeWindows) Grace(d time.Duration) TimeWindows { w.grace = d; return w }

// SlidingWindows begin or end with a record, and contain their end.
type SlidingWindows struct{ difference, grace time.Duration }

// Sliding windows hold records that lie no further apart than the difference.
func Sliding(difference time.Duration) SlidingWindows { return SlidingWindows{difference: difference} }

// Grace sets how long after its end a window takes late records, in stream time. Default: 0.
func (w SlidingWindows) Grace(d time.Duration) SlidingWindows { w.grace = d; return w }

// SessionWindows grow while no more than the gap lies between their records, and contain
// their end.
type SessionWindows struct{ gap, grace time.Duration }

// Sessions are windows of activity that a gap without records ends.
func Sessions(gap time.Duration) SessionWindows { return SessionWindows{gap: gap} }

// Grace sets how long after the gap a session takes late records, in stream time. Default: 0.
func (w SessionWindows) Grace(d time.Duration) SessionWindows { w.grace = d; return w }

func (w TimeWindows) plan() (out window.Time, err error) {
	if err = millis(map[string]time.Duration{"size": w.size, "advance": w.advance, "grace": w.grace}); err != nil {
		return out, err
	}
	out = window.Time{Size: w.size.Milliseconds(), Advance: w.advance.Milliseconds(), Grace: w.grace.Milliseconds()}
	return out, out.Check()
}

func (w SlidingWindows) plan() (out window.Sliding, err error) {
	if err = millis(map[string]time.Duration{"difference": w.difference, "grace": w.grace}); err != nil {
		return out, err
	}
	out = window.Sliding{Difference: w.difference.Milliseconds(), Grace: w.grace.Milliseconds()}
	return out, out.Check()
}

func (w SessionWindows) plan() (out window.Session, err error) {
	if err = millis(map[string]time.Duration{"gap": w.gap, "grace": w.grace}); err != nil {
		return out, err
	}
	out = window.Session{Gap: w.gap.Milliseconds(), Grace: w.grace.Milliseconds()}
	return out, out.Check()
}

// millis refuses durations that are not whole milliseconds.
func millis(durations map[string]time.Duration) error {
	for name, d := range durations {
		if d%time.Millisecond != 0 {
			return fmt.Errorf("%w: the %s %v is not a number of whole milliseconds", store.ErrConfig, name, d)
		}
	}
	return nil
}

// WindowedSerde is how a time window's key is written to topics: the key, then the start in 8
// bytes. The end is not in it: it is start and size.
func WindowedSerde[K any](key store.Serde[K], size time.Duration) store.Serde[Windowed[K]] {
	return windowedSerde[K]{newCodec(key), size.Milliseconds()}
}

type windowedSerde[K any] struct {
	key  codec[K]
	size int64
}

func (s windowedSerde[K]) Serialize(topic string, h *store.Headers, v Windowed[K]) ([]byte, error) {
	b, err := s.key.encode(topic, h, box(v.Key))
	if err != nil {
		return nil, err
	}
	return wire.AppendWindowKey(b[:len(b):len(b)], nil, v.Start), nil
}

func (s windowedSerde[K]) Deserialize(topic string, h *store.Headers, b []byte) (v Windowed[K], err error) {
	key, start, err := wire.ParseWindowKey(b)
	if err != nil {
		return v, err
	}
	k, err := s.key.decode(topic, h, key)
	return Windowed[K]{as[K](k), start, saturated(start, s.size)}, err
}

// inner cuts the key out, by which a record is partitioned.
func (windowedSerde[K]) inner(b []byte) []byte { return b[:len(b)-8] }

// SessionSerde is how a session's key is written to topics: the key, then end and start in 8
// bytes each.
func SessionSerde[K any](key store.Serde[K]) store.Serde[Windowed[K]] {
	return sessionSerde[K]{newCodec(key)}
}

type sessionSerde[K any] struct{ key codec[K] }

func (s sessionSerde[K]) Serialize(topic string, h *store.Headers, v Windowed[K]) ([]byte, error) {
	b, err := s.key.encode(topic, h, box(v.Key))
	if err != nil {
		return nil, err
	}
	return wire.AppendSessionKey(nil, b, v.Start, v.End), nil
}

func (s sessionSerde[K]) Deserialize(topic string, h *store.Headers, b []byte) (v Windowed[K], err error) {
	key, start, end, err := wire.ParseSessionKey(b)
	if err != nil {
		return v, err
	}
	k, err := s.key.decode(topic, h, key)
	return Windowed[K]{as[K](k), start, end}, err
}

// inner cuts the key out, by which a record is partitioned.
func (sessionSerde[K]) inner(b []byte) []byte { return b[:len(b)-16] }

// saturated is start + size, at most the largest time.
func saturated(start, size int64) int64 {
	if start > math.MaxInt64-size {
		return math.MaxInt64
	}
	return start + size
}
