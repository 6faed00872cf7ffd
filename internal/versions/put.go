package versions

import "github.com/forebay-streams/forebay/store"

// Reader reads physical rows. A row may borrow scratch.
type Reader interface {
	Get(key []byte, scratch *[]byte) (store.Row, bool, error)
}

// PutLatest is the answer of a put whose version is the latest, or deletes it.
const PutLatest int64 = -1

// Editor works out puts. It is for one goroutine.
type Editor struct {
	// Damaged is called for each row that was found out of order, and is repaired when it
	// is next written.
	Damaged func()

	rows  Reader
	times *Times
	key   []byte

	// Up to three rows are looked at and changed in a put: the latest version's, the one
	// that holds the time, and the one that a version moves to.
	latest, inside, target part
	changes                []store.Change
}

// part is what the editor needs for one row at a time.
type part struct {
	key, scratch []byte
	entries      []Entry
}

// Put returns the rows that change when a version begins at a time that is not late, to
// which times have advanced; a nil value is a tombstone. It adds to times the segments of
// rows it makes. placed is when the new version ends, or PutLatest. Keys of the changes
// are valid until the next call; values are new.
func (e *Editor) Put(rows Reader, times *Times, key, value []byte, at int64) (changes []store.Change, placed int64, err error) {
	e.rows, e.times, e.key = rows, times, key
	clear(e.changes)
	e.changes = e.changes[:0]
	placed, err = e.put(Entry{at, value})
	return e.changes, placed, err
}

func (e *Editor) put(v Entry) (placed int64, err error) {
	latest, has, err := e.readLatest()
	if err != nil {
		return 0, err
	}
	next, known := int64(0), false // when the version after v begins
	switch {
	case has && v.From > latest.From:
		if err := e.append(latest, v.From); err != nil {
			return 0, err
		}
		return PutLatest, e.writeLatest(v)
	case has && v.From == latest.From:
		if v.Value == nil {
			// Kafka only deletes the row, and forgets that there was anything at this time:
			// an older version put later would become the latest.
			if err := e.mark(v.From); err != nil {
				return 0, err
			}
		}
		return PutLatest, e.writeLatest(v)
	case has:
		next, known = latest.From, true
	}
	segments := e.times.Segments
	for i := len(segments) - 1; i >= 0 && segments[i] >= e.times.Segment(v.From); i-- {
		row, ok, err := e.read(&e.inside, segments[i])
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		if row.Next <= v.From {
			break
		}
		if row.Min() <= v.From {
			return e.putInside(segments[i], row, v)
		}
		next, known = row.Min(), true
	}
	switch {
	case known:
		return next, e.putBefore(v, next)
	case v.Value == nil:
		return PutLatest, e.mark(v.From)
	}
	return PutLatest, e.writeLatest(v)
}

// putInside splits the version that is valid when v begins.
func (e *Editor) putInside(segment int64, row Row, v Entry) (to int64, err error) {
	i, to := row.find(v.From)
	old := row.Entries[i]
	switch home := e.times.Segment(v.From); {
	case old.From == v.From:
		row.Entries[i] = v
	case home != segment:
		// The old version ends in another segment now. It was the oldest of this one.
		if err := e.append(old, v.From); err != nil {
			return 0, err
		}
		row.Entries[i] = v
	default:
		row.insertAt(i, v)
	}
	return to, e.write(&e.inside, segment, row)
}

// putBefore adds a version that ends at next, when the first known one begins.
func (e *Editor) putBefore(v Entry, next int64) error {
	segment := e.times.Segment(next)
	row, ok, err := e.read(&e.target, segment)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		row = e.target.row(v, next)
	case row.Next <= v.From:
		row.insertLatest(v, next)
	default:
		row.insertEarliest(v)
	}
	return e.write(&e.target, segment, row)
}

// append files a version that ends at to.
func (e *Editor) append(v Entry, to int64) error {
	segment := e.times.Segment(to)
	row, ok, err := e.read(&e.target, segment)
	if err != nil {
		return err
	}
	if ok {
		row.insertLatest(v, to)
	} else {
		row = e.target.row(v, to)
	}
	return e.write(&e.target, segment, row)
}

// mark notes that the key was deleted at a time after which nothing is known.
func (e *Editor) mark(at int64) error {
	segment := e.times.Segment(at)
	row, ok, err := e.read(&e.target, segment)
	if err != nil {
		return err
	}
	switch {
	case !ok:
		row = e.target.row(Entry{From: at}, at)
	case row.Next == at:
		return nil
	case row.Next < at:
		row.insertLatest(Entry{From: row.Next}, at)
	default:
		row.truncate(at)
	}
	return e.write(&e.target, segment, row)
}

// row is a new row of one version.
func (p *part) row(v Entry, next int64) Row {
	p.entries = append(p.entries[:0], v)
	return Row{next, p.entries}
}

func (e *Editor) readLatest() (v Entry, ok bool, err error) {
	b, ok, err := e.get(&e.latest, Latest)
	if err != nil || !ok {
		return v, false, err
	}
	v, err = DecodeLatest(b)
	return v, true, store.Locate(err, "", "", e.latest.key)
}

func (e *Editor) read(p *part, segment int64) (row Row, ok bool, err error) {
	b, ok, err := e.get(p, segment)
	if err != nil || !ok {
		return row, false, err
	}
	row, damaged, err := Decode(b, p.entries)
	if err != nil {
		return row, false, store.Locate(err, "", "", p.key)
	}
	p.entries = row.Entries
	if damaged {
		e.Damaged()
	}
	return row, true, nil
}

func (e *Editor) get(p *part, segment int64) ([]byte, bool, error) {
	p.key = AppendKey(p.key[:0], segment, e.key)
	row, ok, err := e.rows.Get(p.key, &p.scratch)
	return row.Value, ok, err
}

// writeLatest writes the latest version's row, or deletes it.
func (e *Editor) writeLatest(v Entry) (err error) {
	var b []byte
	if v.Value != nil {
		if b, err = EncodeLatest(v.From, v.Value); err != nil {
			return err
		}
	}
	e.changes = append(e.changes, store.Change{Key: e.latest.key, Row: store.Row{Value: b, Timestamp: store.NoTimestamp}})
	return nil
}

// write writes the row that was read, or looked for, last with p.
func (e *Editor) write(p *part, segment int64, row Row) error {
	b, err := row.Encode()
	if err != nil {
		return err
	}
	p.entries = row.Entries
	e.times.Add(segment)
	e.changes = append(e.changes, store.Change{Key: p.key, Row: store.Row{Value: b, Timestamp: store.NoTimestamp}})
	return nil
}
