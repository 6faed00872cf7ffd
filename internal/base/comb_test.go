package base_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
)

// A walk by steps over a sorted list takes what a filter would, and looks at few keys
// beside: one before and one behind each tooth that has rows.
func TestCombSteps(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	prefixes := []uint64{0, 1, 2, 7, 1 << 40, math.MaxUint64 - 1, math.MaxUint64}
	owns := [][]byte{{}, {0}, {0, 0}, {1}, {1, 5}, {0xff}, {0xff, 0xff}}
	for range 5000 {
		var keys [][]byte
		for range r.IntN(30) {
			keys = append(keys, append(binary.BigEndian.AppendUint64(nil, prefixes[r.IntN(len(prefixes))]), owns[r.IntN(len(owns))]...))
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
		c := base.Comb{First: prefixes[r.IntN(len(prefixes))], Last: prefixes[r.IntN(len(prefixes))]}
		c.Reverse, c.Exclusive = r.IntN(2) == 0, r.IntN(2) == 0
		if r.IntN(4) > 0 {
			c.From = owns[r.IntN(len(owns))]
		}
		if r.IntN(4) > 0 {
			c.To = owns[r.IntN(len(owns))]
		}
		var want [][]byte
		for _, k := range keys {
			if p := binary.BigEndian.Uint64(k); p >= c.First && p <= c.Last && c.Contains(k[base.PrefixSize:]) {
				want = append(want, k)
			}
		}
		if c.Reverse {
			slices.Reverse(want)
		}
		got, looks := walkComb(keys, c)
		require.Equal(t, want, got, "%+v over %x", c, keys)
		require.LessOrEqual(t, looks, len(got)+2*len(prefixes)+1)
	}
}

func walkComb(keys [][]byte, c base.Comb) (out [][]byte, looks int) {
	at, buf := 0, []byte(nil)
	seek := func(key []byte) {
		buf = key
		n, _ := slices.BinarySearchFunc(keys, key, bytes.Compare)
		switch {
		case !c.Reverse:
			at = n
		case key == nil:
			at = len(keys) - 1
		default:
			at = n - 1
		}
	}
	for seek(c.Start(buf)); at >= 0 && at < len(keys); looks++ {
		step, to := c.Step(buf, keys[at])
		switch {
		case step == base.CombEnd:
			return out, looks
		case step == base.CombSeek:
			seek(to)
			continue
		}
		out = append(out, keys[at])
		if c.Reverse {
			at--
		} else {
			at++
		}
	}
	return out, looks
}
