package kv_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// BenchmarkOpen opens and closes a large plain store: as it is, and with headers switched
// on. FOREBAY_OPEN_BYTES sets its size (default 64 MiB).
func BenchmarkOpen(b *testing.B) {
	size := 64 << 20
	if s := os.Getenv("FOREBAY_OPEN_BYTES"); s != "" {
		size = must(strconv.Atoi(s))
	}
	for _, layout := range []store.Layout{store.Plain, store.WithHeaders} {
		b.Run("plain-as-"+layout.String(), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "app", "0_0")
			fillPlain(dir, size)
			open := func() {
				s := must(kv.Open(dir, "store", store.Bytes(), store.Bytes(), kv.Format(layout)))
				check(s.Close())
			}
			open() // makes the new family once
			for b.Loop() {
				open()
			}
		})
	}
}

func fillPlain(dir string, size int) {
	s := must(kv.Open(dir, "store", store.Bytes(), store.Bytes(), kv.Format(store.Plain)))
	value := make([]byte, 1000)
	keys := benchKeys(size / 1016)
	for i := 0; i < len(keys); i += benchRound {
		var batch []store.Change
		for _, k := range keys[i:min(i+benchRound, len(keys))] {
			batch = append(batch, store.Change{Key: k, Row: store.Row{Value: value}})
		}
		check(s.RestoreBatch(batch, int64(i)))
	}
	check(s.Close())
}
