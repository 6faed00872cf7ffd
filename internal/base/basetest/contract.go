package basetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Case is a kind of table.
type Case struct {
	Layout store.Layout
	// Open opens the table that the test then owns and closes.
	Open func(t *testing.T) base.Table
	// Reopen opens it again after Close; nil: a closed table is lost.
	Reopen func(t *testing.T) base.Table
	// Rows are in the table when it is first opened.
	Rows Rows
}

// Run checks the contract of base.Table.
func Run(t *testing.T, c Case) {
	t.Run("random", func(t *testing.T) { random(t, c) })
	t.Run("borrowing", func(t *testing.T) { borrowing(t, c) })
	t.Run("cursor", func(t *testing.T) { cursors(t, c) })
	t.Run("closed", func(t *testing.T) { closed(t, c) })
}

// fixture is a table beside the map it must equal.
type fixture struct {
	Case
	r          *rand.Rand
	table      base.Table
	rows       Rows
	checkpoint base.Checkpoint
	known      bool
	held       []held
	scratch    []byte
}

// held is a snapshot or a begun scan beside the rows of its moment.
type held struct {
	snapshot base.Snapshot
	cursor   base.Cursor
	rows     Rows
	rest     []store.Change
}

func random(t *testing.T, c Case) {
	f := &fixture{Case: c, r: Rand(t), table: c.Open(t), rows: maps.Clone(c.Rows)}
	if f.rows == nil {
		f.rows = Rows{}
	}
	f.checkpoint.Offset = store.UnknownOffset
	defer func() { require.NoError(t, f.table.Close()) }()
	f.check(t, f.table, f.rows)
	for range 1500 {
		switch n := f.r.IntN(100); {
		case n < 30:
			f.commit(t)
		case n < 50:
			f.get(t, f.table, f.rows)
		case n < 70:
			f.scan(t, f.table, f.rows)
		case n < 80:
			f.hold(t)
		case n < 90:
			f.useHeld(t)
		case n < 95:
			f.compareCheckpoint(t)
		case n < 97:
			require.NoError(t, f.table.Flush())
		case n < 98:
			f.drop()
			require.NoError(t, f.table.Wipe())
			clear(f.rows)
			f.checkpoint, f.known = base.Checkpoint{Offset: store.UnknownOffset}, false
			f.compareCheckpoint(t)
		case n < 99 && f.Reopen != nil:
			f.drop()
			require.NoError(t, f.table.Close())
			f.table = f.Reopen(t)
			f.compareCheckpoint(t)
			f.check(t, f.table, f.rows)
		default:
			n, err := f.table.ApproximateCount()
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, int64(0))
		}
	}
	f.drop()
	f.check(t, f.table, f.rows)
}

// Bytes of which keys are made: the ends of their order matter most.
var keyBytes = []byte{0, 1, 0x7f, 0xff}

func (f *fixture) key() []byte {
	key := make([]byte, f.r.IntN(4))
	for i := range key {
		key[i] = keyBytes[f.r.IntN(len(keyBytes))]
	}
	return key
}

func (f *fixture) span() base.Span {
	if f.r.IntN(4) == 0 {
		span := base.Prefix(f.key())
		span.Reverse = f.r.IntN(2) == 0
		return span
	}
	span := base.Span{Exclusive: f.r.IntN(2) == 0, Reverse: f.r.IntN(2) == 0}
	if f.r.IntN(3) > 0 {
		span.From = f.key()
	}
	if f.r.IntN(3) > 0 {
		span.To = f.key()
	}
	return span
}

func (f *fixture) row() store.Row {
	if f.r.IntN(4) == 0 {
		return store.Row{Timestamp: store.NoTimestamp}
	}
	row := store.Row{Value: make([]byte, f.r.IntN(40)), Timestamp: f.r.Int64N(1 << 41)}
	if f.r.IntN(100) == 0 {
		row.Value = make([]byte, 20_000) // more than a scan asks for at first
	}
	for i := range row.Value {
		row.Value[i] = byte(f.r.Uint32())
	}
	for i := range f.r.IntN(3) {
		if err := row.Headers.Add(fmt.Sprint("h", i), row.Value); err != nil {
			panic(err)
		}
	}
	return row
}

func (f *fixture) commit(t *testing.T) {
	changes := map[string]store.Row{}
	for range f.r.IntN(12) {
		changes[string(f.key())] = f.row()
	}
	var sorted []store.Change
	for _, k := range slices.Sorted(maps.Keys(changes)) {
		sorted = append(sorted, store.Change{Key: []byte(k), Row: changes[k]})
	}
	c := base.Checkpoint{Logged: f.r.IntN(4) > 0, Offset: f.r.Int64N(1 << 40), Position: f.checkpoint.Position.Clone()}
	if f.r.IntN(8) == 0 {
		c.Offset = store.UnknownOffset
	}
	c.Position.Advance("topic", f.r.Int32N(3), f.r.Int64N(1<<40))
	require.NoError(t, f.table.Commit(sorted, c))
	f.checkpoint, f.known = c, c.Logged && c.Offset != store.UnknownOffset
	f.checkpoint.Position = c.Position.Clone()
	c.Position.Advance("topic", 7, 7) // the caller's alone again
	f.rows = maps.Clone(f.rows)
	for k, row := range changes {
		if row.Tombstone() {
			delete(f.rows, k)
			continue
		}
		f.rows[k] = Kept(f.Layout, row)
	}
}

// Kept is what the layout keeps of a row.
func Kept(layout store.Layout, row store.Row) store.Row {
	b, err := layout.Encode(row)
	if err != nil {
		panic(err)
	}
	if row, err = layout.Decode(b); err != nil {
		panic(err)
	}
	return row
}

func (f *fixture) get(t *testing.T, reader base.Reader, rows Rows) {
	key := f.key()
	row, ok, err := reader.Get(key, &f.scratch)
	require.NoError(t, err)
	want, has := rows[string(key)]
	require.Equal(t, has, ok, "%x", key)
	if has {
		require.Equal(t, ShowRow(want), ShowRow(row), "%x", key)
	}
}

func (f *fixture) scan(t *testing.T, reader base.Reader, rows Rows) {
	span := f.span()
	RequireRows(t, rows.Within(span), reader.Scan(span), "%+v", span)
}

func (f *fixture) hold(t *testing.T) {
	h := held{rows: f.rows}
	if f.r.IntN(2) == 0 {
		var err error
		h.snapshot, err = f.table.Snapshot()
		require.NoError(t, err)
	} else {
		span := f.span()
		h.cursor, h.rest = f.table.Scan(span), f.rows.Within(span)
	}
	f.held = append(f.held, h)
}

func (f *fixture) useHeld(t *testing.T) {
	if len(f.held) == 0 {
		return
	}
	i := f.r.IntN(len(f.held))
	h := &f.held[i]
	if h.snapshot != nil {
		f.get(t, h.snapshot, h.rows)
		f.scan(t, h.snapshot, h.rows)
		if f.r.IntN(4) == 0 {
			span := f.span()
			c := h.snapshot.Scan(span)
			h.snapshot.Close()
			h.snapshot.Close()
			RequireRows(t, h.rows.Within(span), c, "a scan outlives its snapshot")
			f.held = slices.Delete(f.held, i, i+1)
		}
		return
	}
	for range 1 + f.r.IntN(8) {
		if len(h.rest) == 0 {
			RequireRows(t, nil, h.cursor)
			f.held = slices.Delete(f.held, i, i+1)
			return
		}
		require.True(t, h.cursor.Next())
		require.Equal(t, Show(h.rest[:1]), Show([]store.Change{{Key: h.cursor.Key(), Row: *h.cursor.Row()}}))
		h.rest = h.rest[1:]
	}
}

func (f *fixture) drop() {
	for _, h := range f.held {
		if h.snapshot != nil {
			h.snapshot.Close()
		} else {
			h.cursor.Close()
			h.cursor.Close()
		}
	}
	f.held = nil
}

func (f *fixture) compareCheckpoint(t *testing.T) {
	c, known := f.table.Checkpoint()
	require.Equal(t, f.known, known)
	if known {
		require.Equal(t, f.checkpoint.Offset, c.Offset)
	}
	require.True(t, f.checkpoint.Position.Equal(c.Position), "%v is not %v", c.Position, f.checkpoint.Position)
	c.Position.Advance("topic", 9, 9) // the caller's alone
}

// check compares all rows, both ways.
func (f *fixture) check(t *testing.T, reader base.Reader, rows Rows) {
	for _, reverse := range []bool{false, true} {
		span := base.Span{Reverse: reverse}
		RequireRows(t, rows.Within(span), reader.Scan(span))
	}
	for key, want := range rows {
		row, ok, err := reader.Get([]byte(key), &f.scratch)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, ShowRow(want), ShowRow(row))
	}
}

func fill(t *testing.T, table base.Table, n int) Rows {
	rows := Rows{}
	var changes []store.Change
	for i := range n {
		key := fmt.Sprintf("fill-%05d", i)
		row := store.Row{Value: []byte(key), Timestamp: int64(i), Headers: store.NewHeaders(store.Header{Key: "n", Value: []byte(key)})}
		rows[key] = row
		changes = append(changes, store.Change{Key: []byte(key), Row: row})
	}
	require.NoError(t, table.Commit(changes, base.Checkpoint{Logged: true, Offset: 1}))
	return rows
}

// borrowing checks that nothing keeps a caller's memory, nor the other way round.
func borrowing(t *testing.T, c Case) {
	table := c.Open(t)
	defer func() { require.NoError(t, table.Close()) }()
	rows := fill(t, table, 300)

	from, to := []byte("fill-00100"), []byte("fill-00250")
	span := base.Span{From: from, To: to}
	scan := table.Scan(span)
	key := []byte("fill-00007")
	var scratch []byte
	row, ok, err := table.Get(key, &scratch)
	require.NoError(t, err)
	require.True(t, ok)
	kept := row.Clone()
	copy(from, "zzzzzzzzzz")
	copy(to, "aaaaaaaaaa")
	copy(key, "zzzzzzzzzz")
	_, _, err = table.Get([]byte("fill-00008"), &scratch)
	require.NoError(t, err)
	assert.Equal(t, ShowRow(Kept(c.Layout, rows["fill-00007"])), ShowRow(kept))

	got, err := Read(scan)
	require.NoError(t, err)
	scan.Close()
	require.Len(t, got, 151)
	for i, x := range got {
		want := fmt.Sprintf("fill-%05d", 100+i)
		require.Equal(t, want, string(x.Key))
		require.Equal(t, ShowRow(Kept(c.Layout, rows[want])), ShowRow(x.Row))
	}
}

// cursors checks the ends of a walk.
func cursors(t *testing.T, c Case) {
	table := c.Open(t)
	defer func() { require.NoError(t, table.Close()) }()
	fill(t, table, 300)
	span := base.Prefix([]byte("fill-"))
	for _, reverse := range []bool{false, true} {
		span.Reverse = reverse
		for _, steps := range []int{0, 1, 4, 5, 299} {
			scan := table.Scan(span)
			for range steps {
				require.True(t, scan.Next())
			}
			scan.Close()
			scan.Close()
			require.False(t, scan.Next())
			require.ErrorIs(t, scan.Err(), store.ErrClosed, "closed before its end, after %d", steps)
		}
		scan := table.Scan(span)
		got, err := Read(scan)
		require.NoError(t, err)
		require.Len(t, got, 300)
		require.False(t, scan.Next())
		scan.Close()
		require.False(t, scan.Next())
		require.NoError(t, scan.Err(), "closed after its end")
	}
}

// closed checks that a closed table answers so.
func closed(t *testing.T, c Case) {
	table := c.Open(t)
	fill(t, table, 300)
	span := base.Prefix([]byte("fill-"))
	begun := table.Scan(span)
	require.True(t, begun.Next())
	snapshot, err := table.Snapshot()
	require.NoError(t, err)
	require.NoError(t, table.Close())
	require.NoError(t, table.Close())

	var scratch []byte
	_, _, err = table.Get([]byte("fill-00001"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = table.Snapshot()
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, table.Commit(nil, base.Checkpoint{}), store.ErrClosed)
	require.ErrorIs(t, table.Flush(), store.ErrClosed)
	require.ErrorIs(t, table.Wipe(), store.ErrClosed)
	_, err = table.ApproximateCount()
	require.ErrorIs(t, err, store.ErrClosed)
	scan := table.Scan(span)
	require.False(t, scan.Next())
	require.ErrorIs(t, scan.Err(), store.ErrClosed)
	scan.Close()

	// What was open goes on, or says that it is closed.
	for _, scan := range []base.Cursor{begun, snapshot.Scan(span)} {
		if _, err := Read(scan); err != nil {
			require.ErrorIs(t, err, store.ErrClosed)
		}
		scan.Close()
	}
	if _, _, err = snapshot.Get([]byte("fill-00001"), &scratch); err != nil {
		require.ErrorIs(t, err, store.ErrClosed)
	}
	snapshot.Close()
}
