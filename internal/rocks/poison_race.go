//go:build race

package rocks

// poison overwrites a scan's buffer before it is reused, so that a row kept past its
// step is seen in tests.
func poison(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = 0xdb
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
