package keysort

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both ways to sort, keys that are equal and keys that differ only late included.
func TestSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, prefix := range []string{"", "a", "a prefix of more than eight bytes"} {
		for _, n := range []int{0, 1, 2, 3, 10, 40, radixFrom - 1, radixFrom, 1000} {
			for range 10 {
				type numbered struct {
					key string
					n   int
				}
				want := make([]numbered, n)
				spread := 1 + r.IntN(255)
				for i := range want {
					key := []byte(prefix)
					for range r.IntN(12) {
						key = append(key, byte(r.IntN(2)*spread))
					}
					want[i] = numbered{string(key), i}
				}
				places := make([]Place[numbered], n)
				for i, w := range want {
					places[i] = At(w.key, w)
				}
				slices.SortStableFunc(want, func(a, b numbered) int { return strings.Compare(a.key, b.key) })
				got := make([]numbered, 0, n)
				Sort(places, func(n numbered) string { return n.key })
				for _, p := range places {
					got = append(got, p.Item)
				}
				require.Equal(t, want, got)
			}
		}
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 100_000
	for name, key := range map[string]func(r *rand.Rand) string{
		"random": func(r *rand.Rand) string {
			return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64()))
		},
		"tenants": func(r *rand.Rand) string {
			return fmt.Sprintf("tenant-%06d/customer-orders/%016x", r.IntN(20), r.Uint64())
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			unsorted := make([]Place[string], n)
			for i := range unsorted {
				k := key(r)
				unsorted[i] = At(k, k)
			}
			for b.Loop() {
				Sort(slices.Clone(unsorted), func(key string) string { return key })
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/key")
		})
	}
}
