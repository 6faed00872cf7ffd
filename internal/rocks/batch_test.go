package rocks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestBatchKeepsTheOrderOfItsOperations(t *testing.T) {
	db, f := newDB(t)
	other := db.Family(Default)
	batch := db.NewBatch(0)
	defer batch.Close()
	key := []byte("k")
	batch.Put(f, key, []byte("1"))
	batch.Delete(f, key)
	batch.Put(f, []byte("twice"), []byte("1"))
	batch.Put(f, []byte("twice"), []byte("2"))
	batch.Delete(f, []byte("back"))
	batch.Put(f, []byte("back"), []byte("again"))
	batch.Put(other, key, []byte("of another family"))
	batch.Delete(f, key)
	batch.Put(f, nil, nil)
	assert.Equal(t, "absent", get(t, db, f, "twice"), "not before Write")
	require.NoError(t, batch.Write())
	assert.Equal(t, [][2]string{{"", ""}, {"back", "again"}, {"twice", "2"}}, all(t, db, f))
	assert.Equal(t, [][2]string{{"k", "of another family"}}, all(t, db, other))
}

func TestBatchCopiesWhatItIsGiven(t *testing.T) {
	db, f := newDB(t)
	batch := db.NewBatch(0)
	defer batch.Close()
	key, value := []byte("k"), []byte("v")
	batch.Put(f, key, value)
	batch.PutRow(f, []byte("r"), store.Plain, &store.Row{Value: value})
	key[0], value[0] = 'x', 'x'
	require.NoError(t, batch.Write())
	assert.Equal(t, [][2]string{{"k", "v"}, {"r", "v"}}, all(t, db, f))
}

func TestPutRowPacksItsLayout(t *testing.T) {
	db, f := newDB(t)
	row := store.Row{Value: []byte("v1"), Timestamp: 1000, Headers: store.NewHeaders(store.Header{Key: "h", Value: []byte("x")})}
	for layout, want := range map[store.Layout]string{
		store.Plain:       "v1",
		store.Timestamped: "\x00\x00\x00\x00\x00\x00\x03\xe8v1",
		store.WithHeaders: "\x0a\x02\x02h\x02x\x00\x00\x00\x00\x00\x00\x03\xe8v1",
		store.Aggregation: "\x0a\x02\x02h\x02xv1",
	} {
		batch := db.NewBatch(0)
		batch.PutRow(f, []byte("k"), layout, &row)
		require.NoError(t, batch.Write())
		batch.Close()
		assert.Equal(t, fmt.Sprintf("%q", want), get(t, db, f, "k"), layout)
	}
}

// A row that cannot be encoded spoils the whole batch, wherever it stands.
func TestAnErrorOfOneRowWritesNothing(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"there", "before"})
	bad := store.Row{Value: []byte("v"), Headers: corruptHeaders(t)}
	for _, before := range []int{0, 1, 3} {
		batch := db.NewBatch(0)
		for i := range before {
			batch.Put(f, fmt.Append(nil, i), make([]byte, 64<<10))
		}
		batch.Delete(f, []byte("there"))
		batch.PutRow(f, []byte("bad"), store.WithHeaders, &bad)
		batch.Put(f, []byte("after"), nil)
		batch.Delete(f, []byte("there"))
		batch.PutRow(f, []byte("after"), store.Plain, &store.Row{Value: []byte("v")})
		for range 2 {
			require.ErrorIs(t, batch.Write(), store.ErrCorrupt)
		}
		batch.Close()
		assert.Equal(t, [][2]string{{"there", "before"}}, all(t, db, f))
	}
	batch := db.NewBatch(0)
	defer batch.Close()
	batch.PutRow(f, []byte("good"), store.Plain, &bad)
	require.NoError(t, batch.Write(), "a layout without headers does not look at them")
}

// The length of a value stands before it and is a varint; its room is taken before the
// value is encoded.
func TestRowsAroundTheWidthsOfTheirLength(t *testing.T) {
	db, f := newDB(t)
	other := db.Family(Default)
	header := store.NewHeaders(store.Header{Key: "h"}, store.Header{Key: "", Value: []byte("x")})
	for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders, store.Aggregation} {
		for edge, step := range map[int]int{0: 1, 1 << 7: 1, 1 << 14: 1, 1 << 21: 30} {
			batch := db.NewBatch(0)
			want := map[string]string{}
			for size := max(edge-40, 0); size < edge+3; size += step {
				row := store.Row{Value: make([]byte, size), Timestamp: 1, Headers: header}
				key := fmt.Sprintf("%v %d", layout, size)
				batch.PutRow(f, []byte(key), layout, &row)
				batch.PutRow(other, []byte(key), layout, &row)
				encoded, err := layout.Encode(row)
				require.NoError(t, err)
				want[key] = fmt.Sprintf("%q", encoded)
			}
			require.NoError(t, batch.Write())
			batch.Close()
			for key, value := range want {
				require.True(t, value == get(t, db, f, key), key)
				require.True(t, value == get(t, db, other, key), key)
			}
		}
	}
}

func TestDeleteRangeCountsInItsPlace(t *testing.T) {
	db, f := newDB(t)
	for _, family := range []*Family{f, db.Family(Default)} {
		put(t, db, family, [2]string{"a", "1"}, [2]string{"b", "1"}, [2]string{"c", "1"})
		batch := db.NewBatch(0)
		batch.Put(family, []byte("aa"), []byte("gone"))
		batch.DeleteRange(family, []byte("a"), []byte("c"))
		batch.Put(family, []byte("b"), []byte("2"))
		require.NoError(t, batch.Write())
		batch.Close()
		assert.Equal(t, [][2]string{{"b", "2"}, {"c", "1"}}, all(t, db, family))
	}
}

func TestLargeBatches(t *testing.T) {
	for name, c := range map[string]struct{ rows, size int }{
		"small rows":           {130, 1 << 10},
		"large rows":           {3, 1 << 20},
		"many very small rows": {20_000, 3},
	} {
		t.Run(name, func(t *testing.T) {
			db, f := newDB(t)
			want := [][2]string{}
			batch := db.NewBatch(0)
			for i := range c.rows {
				value := make([]byte, c.size)
				for j := range value {
					value[j] = byte(i + j)
				}
				batch.Put(f, fmt.Appendf(nil, "%06d", i), value)
				want = append(want, [2]string{fmt.Sprintf("%06d", i), string(value)})
			}
			require.NoError(t, batch.Write())
			batch.Close()
			rows := all(t, db, f)
			require.Len(t, rows, len(want))
			for i := range want {
				require.True(t, want[i] == rows[i], "row %d", i)
			}
		})
	}
}

func TestEmptyBatch(t *testing.T) {
	db, f := newDB(t)
	batch := db.NewBatch(0)
	defer batch.Close()
	require.NoError(t, batch.Write())
	assert.Empty(t, all(t, db, f))
}
