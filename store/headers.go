package store

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"unsafe"
)

// Header is one record header. A nil value is Kafka's null and differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Headers is an ordered list of record headers (KIP-82): duplicates are kept, keys are
// compared exactly and may be empty. The zero value is the empty list, ready to use.
//
// Headers read from a store are the stored block, unparsed. Every look walks the block
// without allocating; nothing is kept between looks. A malformed block is found at the
// first look: looks then show an empty list, and [Headers.Err] says why. Check it where
// an empty list and an unreadable one must not be taken for each other.
//
// Headers is a value: a copy is independent of the original. Any number of goroutines
// may look at it; Add, Remove and SetReadOnly change it and want one. Header values are
// shared and must never be changed in place.
type Headers struct {
	// The list is the block's headers followed by count more. Neither is ever changed: a
	// change replaces more, so that copies of the struct stay independent. The struct is
	// small because rows are passed by value everywhere.
	block []byte  // without its size; empty when there is none
	more  *Header // the first of count; nil when there are none
	count int32
	flags headerFlags
}

type headerFlags uint8

const (
	readOnly headerFlags = 1 << iota
	borrowed             // block lies in a buffer that will be reused; looks copy what they return
)

// CopyTo sets dst to the same headers, field by field: a copy of the whole struct right after
// it was decoded would wait until its fields have left the processor's store buffer.
func (h *Headers) CopyTo(dst *Headers) {
	dst.block, dst.more, dst.count, dst.flags = h.block, h.more, h.count, h.flags
}

func (h Headers) added() []Header { return unsafe.Slice(h.more, h.count) }

// withAdded returns headers that keep list as what follows the block.
func (h Headers) withAdded(list []Header) Headers {
	h.more, h.count = unsafe.SliceData(list), int32(len(list))
	return h
}

func (h Headers) isBorrowed() bool { return h.flags&borrowed != 0 }

// NewHeaders returns the given headers, in that order. A key that is not valid UTF-8
// becomes what a Java client would have stored.
func NewHeaders(list ...Header) Headers {
	return HeadersOf(slices.Clone(list))
}

// HeadersOf is NewHeaders without the copy: it keeps list, which nobody may change
// afterwards.
func HeadersOf(list []Header) Headers {
	for i, h := range list {
		if key := javaKey(h.Key); key != h.Key {
			list = slices.Clone(list)
			for j := i; j < len(list); j++ {
				list[j].Key = javaKey(list[j].Key)
			}
			break
		}
	}
	if len(list) == 0 {
		return Headers{}
	}
	return Headers{}.withAdded(list)
}

// HeadersFromMap returns the map's headers sorted by name, so that equal maps give
// equal bytes.
func HeadersFromMap(m map[string][]byte) Headers {
	list := make([]Header, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, Header{key, m[key]})
	}
	return HeadersOf(list)
}

// HeadersFromBlock returns a handle on an encoded block (without its size), which it
// keeps and does not check: see [Headers.Err]. Nobody may change the block afterwards.
// No bytes are the empty list.
func HeadersFromBlock(block []byte) Headers { return Headers{block: block} }

// Empty tells whether there are no headers, without looking inside the block.
func (h Headers) Empty() bool { return len(h.block) == 0 && h.more == nil }

// Err checks the stored block and returns an error that is [ErrCorrupt], or nil. Every
// call gives the same answer.
func (h Headers) Err() error {
	if len(h.block) == 0 {
		return nil
	}
	_, err := checkBlock(h.block)
	return err
}

// Len is the number of headers.
func (h Headers) Len() int {
	if len(h.block) == 0 {
		return len(h.added())
	}
	r, err := checkBlock(h.block)
	if err != nil {
		return 0
	}
	return r.count + len(h.added())
}

// Last returns the last header with that key. It does not allocate for headers that
// own their bytes.
func (h Headers) Last(key string) (Header, bool) {
	var found []byte
	has := false
	if len(h.block) > 0 {
		r, err := openBlock(h.block)
		for ok := true; err == nil && ok; {
			var k, v []byte
			if k, v, ok, err = r.next(); ok && string(k) == key {
				found, has = v, true
			}
		}
		if err != nil {
			return Header{}, false
		}
	}
	for _, x := range slices.Backward(h.added()) {
		if x.Key == key {
			return x, true
		}
	}
	if !has {
		return Header{}, false
	}
	if h.isBorrowed() {
		found = bytes.Clone(found)
	}
	return Header{key, found}, true
}

// ForKey returns all headers with that key, in order: a snapshot.
func (h Headers) ForKey(key string) []Header {
	var out []Header
	for x := range h.All() {
		if x.Key == key {
			out = append(out, x)
		}
	}
	return out
}

// All iterates over the headers in order.
func (h Headers) All() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		if len(h.block) > 0 {
			// Checked whole before the first is shown: never a partial list.
			if h.Err() != nil {
				return
			}
			block := h.block
			if h.isBorrowed() {
				block = bytes.Clone(block)
			}
			r, _ := openBlock(block)
			for {
				k, v, ok, _ := r.next()
				if !ok {
					break
				}
				if !yield(Header{unsafe.String(unsafe.SliceData(k), len(k)), v}) {
					return
				}
			}
		}
		for _, x := range h.added() {
			if !yield(x) {
				return
			}
		}
	}
}

// List returns the headers as a new slice, nil when there are none.
func (h Headers) List() []Header {
	if len(h.block) == 0 {
		return slices.Clone(h.added())
	}
	return h.AppendTo(nil)
}

// AppendTo appends the headers to dst and returns it: List for those who reuse a slice.
func (h Headers) AppendTo(dst []Header) []Header {
	return slices.AppendSeq(slices.Grow(dst, h.Len()), h.All())
}

// Add appends a header; the list may hold the key already. It does not parse. The
// value is kept, not copied, and must not be changed afterwards. It returns
// [ErrReadOnly] for read-only headers.
func (h *Headers) Add(key string, value []byte) error {
	if h.ReadOnly() {
		return ErrReadOnly
	}
	old := h.added()
	more := append(make([]Header, 0, len(old)+1), old...)
	more = append(more, Header{javaKey(key), value})
	*h = h.withAdded(more)
	return nil
}

// Remove deletes all headers with that key; an absent key is fine. It returns
// [ErrReadOnly] for read-only headers and [ErrCorrupt] for a malformed block.
func (h *Headers) Remove(key string) error {
	if h.ReadOnly() {
		return ErrReadOnly
	}
	if err := h.Err(); err != nil {
		return err
	}
	list := h.List()
	kept := slices.DeleteFunc(list, func(x Header) bool { return x.Key == key })
	if len(kept) < len(list) { // else the block stays, to be passed on as it is
		*h = HeadersOf(kept)
	}
	return nil
}

// SetReadOnly makes Add and Remove fail; there is no way back but Copy.
func (h *Headers) SetReadOnly() { h.flags |= readOnly }

// ReadOnly tells whether SetReadOnly was called.
func (h Headers) ReadOnly() bool { return h.flags&readOnly != 0 }

// Equal compares order, keys and values; null differs from empty. Two unreadable lists
// are equal if their bytes are.
func (h Headers) Equal(o Headers) bool {
	if h.more == nil && o.more == nil && len(h.block) > 0 && len(o.block) > 0 {
		// Only minimal forms are accepted, so equal lists have equal blocks.
		return bytes.Equal(h.block, o.block)
	}
	if h.Err() != nil || o.Err() != nil {
		return bytes.Equal(h.block, o.block) && slices.EqualFunc(h.added(), o.added(), sameHeader)
	}
	return slices.EqualFunc(h.List(), o.List(), sameHeader)
}

func sameHeader(a, b Header) bool {
	return a.Key == b.Key && (a.Value == nil) == (b.Value == nil) && bytes.Equal(a.Value, b.Value)
}

// Copy returns an independent, writable copy that shares the values.
func (h Headers) Copy() Headers {
	h.flags &^= readOnly
	return h
}

// Clone returns headers that stay valid after the scan or buffer they came from. It
// keeps the read-only mode.
func (h Headers) Clone() Headers {
	if h.isBorrowed() {
		h.block = bytes.Clone(h.block)
		h.flags &^= borrowed
	}
	return h
}

// Pack returns the same headers as one block that shares no bytes with any other buffer,
// the compact form for keeping them. It drops the read-only mode. Errors as [Headers.AppendBlock].
func (h Headers) Pack() (Headers, error) {
	if h.Empty() {
		return Headers{}, nil
	}
	e, err := h.encoding()
	if err != nil {
		return Headers{}, err
	}
	return HeadersFromBlock(h.appendAs(make([]byte, 0, e.size), &e)), nil
}

// String tells the size only: printing a row must not parse its headers.
func (h Headers) String() string {
	switch {
	case h.Empty():
		return "headers(none)"
	case len(h.block) == 0:
		return fmt.Sprintf("headers(%d)", len(h.added()))
	case h.more == nil:
		return fmt.Sprintf("headers(%d bytes)", len(h.block))
	}
	return fmt.Sprintf("headers(%d bytes + %d)", len(h.block), len(h.added()))
}

// size counts bytes in memory for a budget.
func (h Headers) size() int {
	n := len(h.block)
	if h.more != nil {
		for _, x := range h.added() {
			n += headerSize(x)
		}
	}
	return n
}

// AppendBlock appends the encoded block (no size, nothing for the empty list) to dst.
// A block that was only passed through is copied unparsed. Errors: [ErrCorrupt] when
// headers were added to a malformed block, [ErrTooLarge].
func (h Headers) AppendBlock(dst []byte) ([]byte, error) {
	e, err := h.encoding()
	if err != nil {
		return dst, err
	}
	return h.appendAs(dst, &e), nil
}

// encoding is how a block will be written, known before the first byte is.
type encoding struct {
	count int    // 0: rest is a whole block
	rest  []byte // the stored headers, without their count
	size  int
}

func (h Headers) encoding() (encoding, error) {
	if h.more == nil {
		return encoding{rest: h.block, size: len(h.block)}, checkSize(len(h.block))
	}
	e := encoding{count: len(h.added())}
	if len(h.block) > 0 {
		r, err := checkBlock(h.block)
		if err != nil {
			return encoding{}, err
		}
		e.count += r.count
		e.rest = h.block[r.first:]
	}
	e.size = varintSize(e.count) + len(e.rest)
	for _, x := range h.added() {
		e.size += headerSize(x)
	}
	return e, checkSize(e.size)
}

func (h Headers) appendAs(dst []byte, e *encoding) []byte {
	if e.count > 0 {
		dst = appendVarint(dst, e.count)
	}
	dst = append(dst, e.rest...)
	for _, x := range h.added() {
		dst = appendHeader(dst, x)
	}
	return dst
}
