package single_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/single"
	"github.com/forebay-streams/forebay/store"
)

func (e env) committed(t *testing.T) int64 {
	offsets, err := e.admin.FetchOffsets(t.Context(), "words")
	require.NoError(t, err)
	in, ok := offsets.Lookup("in", 0)
	if !ok {
		return -1
	}
	return in.At
}

// failing has a processor that fails at its second record, once.
type failing struct{ n *int }

func (p failing) Init(*dsl.Context[string, string]) error { return nil }

func (p failing) Process(dsl.Record[string, string]) error {
	if *p.n++; *p.n == 2 {
		return errors.New("not now")
	}
	return nil
}

// After an error nothing runs or commits any more: the rest of the batch would be missed.
func TestErrorStays(t *testing.T) {
	e := start(t)
	n := 0
	b := dsl.NewBuilder()
	dsl.Process(dsl.ReadStream(b, "in", store.String(), store.String()), func() dsl.Processor[string, string, string, string] { return failing{&n} })
	topology, err := b.Build()
	require.NoError(t, err)
	app, err := single.Open(t.Context(), topology, single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir})
	require.NoError(t, err)
	e.produce(t, 0, "a", "b", "c", "d")
	require.ErrorContains(t, app.Run(t.Context(), func(n int) bool { return n >= 4 }), "not now")
	require.ErrorContains(t, app.Run(t.Context(), func(int) bool { return true }), "not now")
	require.ErrorContains(t, app.Commit(t.Context()), "not now")
	require.NoError(t, app.Close())
	assert.Negative(t, e.committed(t))

	app = e.open(t, topology)
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 4 }))
	require.NoError(t, app.Close())
	assert.EqualValues(t, 4, e.committed(t))
	assert.Equal(t, 6, n, "two before the error, and all four again")
}

// The end of the context is no reason to process again what was processed.
func TestEndOfContext(t *testing.T) {
	e := start(t)
	app, err := single.Open(t.Context(), words(t), single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir})
	require.NoError(t, err)
	e.produce(t, 0, "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	err = app.Run(ctx, func(n int) bool {
		if n > 0 {
			cancel()
		}
		return false
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, app.Close())
	assert.Positive(t, e.committed(t))
}
