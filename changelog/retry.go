package changelog

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second
	// unsureTries is how often an error that may or may not pass is met in a row before it
	// is returned: a topic unknown to the broker just asked, or an error of no known kind.
	unsureTries = 6
)

// backoff waits longer each time. The zero value is ready to use.
type backoff struct{ next time.Duration }

// sleep returns the context's error if that ends first.
func (b *backoff) sleep(ctx context.Context) error {
	b.next = min(max(2*b.next, firstBackoff), lastBackoff)
	t := time.NewTimer(b.next)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outlook is what asking again is good for.
type outlook int

const (
	hopeless outlook = iota
	unsure           // a few times
	passing          // as long as the context lasts
)

func outlookOf(err error) outlook {
	var broker *kerr.Error
	var network *net.OpError
	switch {
	case errors.Is(err, kgo.ErrClientClosed), errors.Is(err, errAnotherTopic), errors.Is(err, ErrUnreadable), errors.Is(err, ErrOutOfRange):
		return hopeless
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		// Retriable to Kafka, because a broker may learn of a topic late.
		return unsure
	case errors.As(err, &broker):
		if broker.Retriable {
			return passing
		}
		return hopeless
	case kgo.IsRetryableBrokerErr(err), errors.As(err, &network), errors.Is(err, io.EOF),
		errors.Is(err, context.DeadlineExceeded): // the client's own, of one request
		return passing
	}
	return unsure
}
