package store

import "unicode/utf8"

// javaKey returns key as a Java application would have stored it: Kafka holds header
// keys as Java strings, so each malformed UTF-8 sequence becomes U+FFFD. How many
// depends on the JDK's decoder, which is neither Go's (one per byte) nor, for
// surrogates, the WHATWG rule. docs/format/headers.md has the table.
func javaKey(key string) string {
	if utf8.ValidString(key) {
		return key
	}
	out := make([]byte, 0, len(key)+8)
	for i := 0; i < len(key); {
		valid, n := javaSequence(key[i:])
		if valid {
			out = append(out, key[i:i+n]...)
		} else {
			out = append(out, "\uFFFD"...)
		}
		i += min(n, len(key)-i)
	}
	return string(out)
}

// javaSequence looks at the first sequence of s: whether it is well-formed, and how
// many bytes the decoder moves on.
func javaSequence(s string) (valid bool, n int) {
	tail := func(i int) bool { return i < len(s) && s[i]&0xc0 == 0x80 }
	switch c := s[0]; {
	case c <= 0x7f:
		return true, 1
	case c >= 0xc2 && c <= 0xdf:
		if tail(1) {
			return true, 2
		}
		return false, 1
	case c >= 0xe0 && c <= 0xef:
		switch {
		case !tail(1), c == 0xe0 && s[1] < 0xa0:
			return false, 1
		case !tail(2):
			return false, 2
		case c == 0xed && s[1] >= 0xa0:
			return false, 3
		}
		return true, 3
	case c >= 0xf0 && c <= 0xf4:
		switch {
		case !tail(1), c == 0xf0 && s[1] < 0x90, c == 0xf4 && s[1] > 0x8f:
			return false, 1
		case !tail(2):
			return false, 2
		case !tail(3):
			return false, 3
		}
		return true, 4
	}
	return false, 1
}
