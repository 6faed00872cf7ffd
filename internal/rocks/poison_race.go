//go:build race

package rocks

// poison overwrites a scan's buffer before it is reused, so that a row kept past its
// step is seen in tests.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
