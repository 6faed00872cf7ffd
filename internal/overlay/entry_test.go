package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSortOfKeysThatShareAPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, prefix := range []string{"", "a", "a prefix of more than eight bytes"} {
		for n := range 40 {
			var list []*entry
			var want []string
			for range n {
				key := []byte(prefix)
				for range r.IntN(12) {
					key = append(key, byte(r.IntN(2)*255))
				}
				list = append(list, &entry{key: string(key)})
				want = append(want, string(key))
			}
			slices.Sort(want)
			sortEntries(list)
			var got []string
			for _, e := range list {
				got = append(got, e.key)
			}
			assert.Equal(t, want, got)
		}
	}
}
