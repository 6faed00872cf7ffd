package versions

import "github.com/forebay-streams/forebay/store"

// Forever is the end of the latest version, which has none.
const Forever int64 = -1

// Version is a version that was read. Its value is no tombstone.
type Version struct {
	From, To int64
	Value    []byte
}

// Lookup reads versions. It is for one goroutine, and versions borrow from it until its
// next use.
type Lookup struct {
	// Damaged is called for each row that was found out of order.
	Damaged func()

	key, scratch []byte
	entries      []Entry
}

func (l *Lookup) get(rows Reader, segment int64, key []byte) ([]byte, bool, error) {
	l.key = AppendKey(l.key[:0], segment, key)
	row, ok, err := rows.Get(l.key, &l.scratch)
	return row.Value, ok, err
}

// Latest returns the latest version.
func (l *Lookup) Latest(rows Reader, key []byte) (Version, bool, error) {
	b, ok, err := l.get(rows, Latest, key)
	if err != nil || !ok {
		return Version{}, false, err
	}
	e, err := DecodeLatest(b)
	return Version{e.From, Forever, e.Value}, err == nil, store.Locate(err, "", "", l.key)
}

// AsOf returns the version that was valid at a time. Before the bound of times only the
// latest is known.
func (l *Lookup) AsOf(rows Reader, times *Times, key []byte, at int64) (Version, bool, error) {
	v, ok, err := l.Latest(rows, key)
	if err != nil || ok && v.From <= at {
		return v, ok, err
	}
	if times.Late(at) {
		return Version{}, false, nil
	}
	first := times.Segment(at)
	for i := len(times.Segments) - 1; i >= 0 && times.Segments[i] >= first; i-- {
		b, ok, err := l.get(rows, times.Segments[i], key)
		if err != nil {
			return Version{}, false, err
		}
		if !ok {
			continue
		}
		v, older, err := l.find(b, at)
		if err != nil || !older {
			return v, v.Value != nil, err
		}
	}
	return Version{}, false, nil
}

// find looks for a time in a segment row; older says to look in older rows.
func (l *Lookup) find(b []byte, at int64) (v Version, older bool, err error) {
	n, damaged, err := measure(b)
	switch {
	case err != nil:
		return v, false, store.Locate(err, "", "", l.key)
	case damaged:
		row, err := l.decode(b)
		if err != nil || row.Next <= at {
			return v, false, err
		}
		if row.Min() > at {
			return v, true, nil
		}
		i, to := row.find(at)
		return Version{row.Entries[i].From, to, row.Entries[i].Value}, false, nil
	case long(b, 0) <= at:
		return v, false, nil
	case long(b, timestampSize) > at:
		return v, true, nil
	}
	v.To = long(b, 0)
	end := len(b)
	for i := range n {
		v.From = entryFrom(b, i)
		size := entryValue(b, i)
		if v.From <= at {
			if size >= 0 {
				v.Value = b[end-size : end : end]
			}
			break
		}
		end -= max(size, 0)
		v.To = v.From
	}
	return v, false, nil
}

func (l *Lookup) decode(b []byte) (Row, error) {
	row, damaged, err := Decode(b, l.entries)
	if err != nil {
		return row, store.Locate(err, "", "", l.key)
	}
	l.entries = row.Entries
	if damaged {
		l.Damaged()
	}
	return row, nil
}
