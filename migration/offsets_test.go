package migration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func orders() store.Position {
	var p store.Position
	p.Advance("orders", 0, 41)
	p.Advance("orders", 1, 7)
	return p
}

// ordersBytes are those of docs and of Kafka Streams: 43 bytes, then padding to 302.
var ordersBytes = unhex("00" + "00000001" + "00000006" + "6f7264657273" + "00000002" +
	"00000000" + "0000000000000029" + "00000001" + "0000000000000007" + strings.Repeat("00", 302-43))

// emptyPosition is padded to 40 bytes.
var emptyPosition = strings.Repeat("\x00", 40)

func TestOffsetsToTheByte(t *testing.T) {
	require.Len(t, ordersBytes, 302)
	for name, c := range map[string]struct {
		checkpoint base.Checkpoint
		want       raw
	}{
		"offset and position": {base.Checkpoint{Logged: true, Offset: 42, Position: orders()},
			raw{"app-orders-changelog-3": unhex("000000000000002a"), "position": ordersBytes}},
		"offset zero": {base.Checkpoint{Logged: true, Offset: 0},
			raw{"app-orders-changelog-3": unhex("0000000000000000"), "position": emptyPosition}},
		"unknown offset": {base.Checkpoint{Logged: true, Offset: store.UnknownOffset},
			raw{"app-orders-changelog-3": unhex("fffffffffffffffc"), "position": emptyPosition}},
		"no changelog": {base.Checkpoint{Offset: 42, Position: orders()},
			raw{"position": ordersBytes}},
	} {
		for _, layout := range layouts {
			t.Run(name+" "+layout.String(), func(t *testing.T) {
				noLeaks(t)
				dir := t.TempDir()
				table := open(t, config(t, dir, layout))
				require.NoError(t, table.Commit([]store.Change{change("k", row("v", 1))}, c.checkpoint))
				require.NoError(t, table.Close())
				assert.Equal(t, c.want, dump(t, dir)[offsets])

				table = open(t, config(t, dir, layout))
				got, ok := table.Checkpoint()
				assert.Equal(t, c.checkpoint.Logged && c.checkpoint.Offset >= 0, ok)
				if ok {
					assert.Equal(t, c.checkpoint.Offset, got.Offset)
				} else {
					assert.Equal(t, store.UnknownOffset, got.Offset)
				}
				assert.True(t, c.checkpoint.Position.Equal(got.Position), "%v", got.Position)
			})
		}
	}
}

// The key names topic and partition, whatever is in them.
func TestOffsetKeys(t *testing.T) {
	noLeaks(t)
	for want, c := range map[string]migration.Config{
		"app-store-changelog-3":   {ChangelogTopic: "app-store-changelog", Partition: 3},
		"t-0":                     {ChangelogTopic: "t"},
		"a.b_c-1-2147483647":      {ChangelogTopic: "a.b_c-1", Partition: 1<<31 - 1},
		"prefix-with-dashes-7-12": {ChangelogTopic: "prefix-with-dashes-7", Partition: 12},
	} {
		full := config(t, t.TempDir(), store.Plain)
		full.ChangelogTopic, full.Partition = c.ChangelogTopic, c.Partition
		table := open(t, full)
		commit(t, table, 5)
		require.NoError(t, table.Close())
		assert.Equal(t, unhex("0000000000000005"), dump(t, full.Dir)[offsets][want])
	}
}

func TestNothingStoredIsNoCheckpoint(t *testing.T) {
	noLeaks(t)
	table := open(t, config(t, t.TempDir(), store.WithHeaders))
	c, ok := table.Checkpoint()
	assert.False(t, ok)
	assert.Equal(t, base.Checkpoint{Offset: store.UnknownOffset}, c)
}

func TestCommitOwnsItsPosition(t *testing.T) {
	noLeaks(t)
	table := open(t, config(t, t.TempDir(), store.WithHeaders))
	p := orders()
	require.NoError(t, table.Commit(nil, base.Checkpoint{Logged: true, Offset: 1, Position: p}))
	p.Advance("orders", 0, 100)
	c, _ := table.Checkpoint()
	c.Position.Advance("orders", 1, 100)
	c, _ = table.Checkpoint()
	assert.True(t, orders().Equal(c.Position), "%v", c.Position)
}

var foreign = raw{
	"status": unhex("0000000000000000"), "app-orders-changelog-3": unhex("0000000000000009"),
	"another-topic-0": unhex("0000000000000007"), "forebay.key": "of another kind", "": "empty key", "zzz": "last",
	"position": unhex("0000000000"), // without its padding
}

func TestLoggedCommitKeepsOtherKeys(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, offsets}, map[string]raw{offsets: foreign})
	table := open(t, config(t, dir, store.Plain))
	c, ok := table.Checkpoint()
	assert.True(t, ok)
	assert.Equal(t, int64(9), c.Offset)
	assert.True(t, c.Position.Empty())
	require.NoError(t, table.Commit(nil, base.Checkpoint{Logged: true, Offset: 10, Position: orders()}))
	require.NoError(t, table.Close())
	want := raw{}
	for k, v := range foreign {
		want[k] = v
	}
	want["app-orders-changelog-3"], want["position"] = unhex("000000000000000a"), ordersBytes
	assert.Equal(t, want, dump(t, dir)[offsets])
}

func TestUnloggedCommitForgetsAllButStatus(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, offsets}, map[string]raw{offsets: foreign})
	table := open(t, config(t, dir, store.Plain))
	require.NoError(t, table.Commit(nil, base.Checkpoint{Offset: 10, Position: orders()}))
	_, ok := table.Checkpoint()
	assert.False(t, ok)
	require.NoError(t, table.Close())
	assert.Equal(t, raw{"status": foreign["status"], "position": ordersBytes}, dump(t, dir)[offsets])
}

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		status      string
		exactlyOnce bool
		refused     bool
	}{
		"absent, exactly once":      {"", true, false},
		"closed, exactly once":      {"0000000000000000", true, false},
		"open, exactly once":        {"0000000000000001", true, true},
		"unknown, exactly once":     {"0000000000000002", true, true},
		"open, at least once":       {"0000000000000001", false, false},
		"unknown, at least once":    {"0000000000000002", false, false},
		"closed, at least once":     {"0000000000000000", false, false},
		"absent, at least once too": {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := t.TempDir()
			before := raw{}
			if c.status != "" {
				before["status"] = unhex(c.status)
			}
			build(t, dir, []string{D, HDR, offsets}, map[string]raw{offsets: before, HDR: {"k": stored(store.WithHeaders, "v", 1)}})
			conf := config(t, dir, store.WithHeaders)
			conf.ExactlyOnce = c.exactlyOnce
			table, err := migration.Open(conf)
			if c.refused {
				require.ErrorIs(t, err, store.ErrTaskCorrupted)
				require.ErrorContains(t, err, "delete the store's directory and restore it from the changelog")
				assert.Equal(t, before, dump(t, dir)[offsets])
				return
			}
			require.NoError(t, err)
			for _, logged := range []bool{true, false} {
				require.NoError(t, table.Commit(nil, base.Checkpoint{Logged: logged, Offset: 1}))
				require.NoError(t, table.Flush())
				status, ok := dump(t, dir)[offsets]["status"]
				assert.Equal(t, before["status"], status, "never written")
				assert.Equal(t, c.status != "", ok)
			}
			require.NoError(t, table.Close())
			assert.Equal(t, before["status"], dump(t, dir)[offsets]["status"])
		})
	}
}

// Rows, offset and position of a commit are applied together or not at all.
func TestCommitIsAtomic(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, offsets}, map[string]raw{D: {"a": "old", "b": "old", "z": "old"}})
	table := open(t, config(t, dir, store.WithHeaders))
	require.NoError(t, table.Commit([]store.Change{change("c", row("1", 1))}, base.Checkpoint{Logged: true, Offset: 1, Position: orders()}))
	require.NoError(t, table.Flush())
	before, rows := dump(t, dir), scan(t, table, base.Span{})

	bad := row("v", 2)
	bad.Headers = store.HeadersFromBlock([]byte{0xff})
	require.NoError(t, bad.Headers.Add("added", nil))
	large := row(strings.Repeat("v", 200_000), 2) // more than goes to C at once
	var p store.Position
	p.Advance("orders", 0, 99)
	for _, logged := range []bool{true, false} {
		err := table.Commit([]store.Change{change("a", large), change("b", store.Row{}), change("bad", bad), change("z", row("new", 2))},
			base.Checkpoint{Logged: logged, Offset: 2, Position: p})
		require.ErrorIs(t, err, store.ErrCorrupt)
		assert.Equal(t, rows, scan(t, table, base.Span{}))
		c, ok := table.Checkpoint()
		assert.True(t, ok)
		assert.Equal(t, int64(1), c.Offset)
		assert.True(t, orders().Equal(c.Position))
		require.NoError(t, table.Flush())
		assert.Equal(t, before, dump(t, dir))
	}
	commit(t, table, 2, change("a", large), change("z", row("new", 2)))
	assert.Equal(t, []string{"b=old@-1", "c=1@1", "z=new@2"}, scan(t, table, base.Span{From: []byte("b")}))
}

func TestFlushMakesOffsetsAndRowsDurable(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	table := open(t, config(t, dir, store.Plain))
	commit(t, table, 7, change("k", row("v", 0)))
	assert.Empty(t, dump(t, dir)[D], "a commit alone writes no file")
	require.NoError(t, table.Flush())
	disk := dump(t, dir)
	assert.Equal(t, raw{"k": "v"}, disk[D])
	assert.Equal(t, unhex("0000000000000007"), disk[offsets]["app-orders-changelog-3"])
	assert.Equal(t, int64(1), rocks.Live())
}
