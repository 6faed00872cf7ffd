package versions

import "github.com/forebay-streams/forebay/store"

// Convert appends a row whose versions are in one layout as a row of versions in another.
// The physical key tells which kind of row it is. Tombstones stay as they are, and
// so does the order of a damaged row.
func Convert(dst []byte, from, to store.Layout, key, row []byte) ([]byte, error) {
	if from == to {
		return append(dst, row...), nil
	}
	if IsLatest(key) {
		if _, err := DecodeLatest(row); err != nil {
			return dst, err
		}
		return from.Convert(append(dst, row[:timestampSize]...), to, row[timestampSize:])
	}
	n, _, err := measure(row)
	if err != nil {
		return dst, err
	}
	r := split(row, n, nil)
	for i := range r.Entries {
		if v := r.Entries[i].Value; v != nil {
			if r.Entries[i].Value, err = from.Convert(make([]byte, 0, len(v)+1), to, v); err != nil {
				return dst, err
			}
		}
	}
	b, err := r.encode(long(row, timestampSize))
	return append(dst, b...), err
}

// Check decodes a row and all its versions, header blocks included. It tells whether a
// version has headers.
func Check(layout store.Layout, key, row []byte) (headers bool, err error) {
	var one [1]Entry
	r := Row{Entries: one[:]}
	if IsLatest(key) {
		one[0], err = DecodeLatest(row)
	} else {
		r, _, err = Decode(row, nil)
	}
	if err != nil {
		return false, err
	}
	for _, e := range r.Entries {
		v, err := layout.Decode(e.Value)
		if err == nil {
			err = v.Headers.Err()
		}
		if err != nil {
			return false, err
		}
		headers = headers || !v.Headers.Empty()
	}
	return headers, nil
}
