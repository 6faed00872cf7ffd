package rocks

import (
	"runtime"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
)

// comparisons is the perf context's counter of compared keys.
const comparisons = 0

func TestCrossingsDoNotCountUnlessAsked(t *testing.T) {
	db, f := newDB(t)
	runtime.LockOSThread() // the counters and their level are the thread's
	defer runtime.UnlockOSThread()
	context := grocksdb.NewPerfContext()
	defer context.Destroy()
	work := map[string]func(){
		"write": func() { put(t, db, f, [2]string{"a", "1"}, [2]string{"b", "2"}, [2]string{"c", "3"}) },
		"get":   func() { require.Equal(t, `"2"`, get(t, db, f, "b")) },
		"scan": func() {
			scan := db.Scan(f, base.Span{From: []byte("b")})
			defer scan.Close()
			require.True(t, scan.Next())
			require.True(t, scan.Next())
		},
	}
	count := func(do func()) uint64 {
		context.Reset()
		do()
		return context.Metric(comparisons)
	}
	wrapper := func() {
		value, err := db.db.GetCF(db.options.read, f.handle, []byte("b"))
		require.NoError(t, err)
		value.Free()
	}
	work["write"]()
	for name, do := range work {
		require.Zero(t, count(do), name)
		require.NotZero(t, count(wrapper), "counts again after a %s", name)
	}
	grocksdb.SetPerfLevel(grocksdb.KEnableTimeExceptForMutex)
	defer grocksdb.SetPerfLevel(grocksdb.KEnableCount)
	for name, do := range work {
		require.NotZero(t, count(do), "%s, for one who asked for more than the default", name)
	}
}
