package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/forebay-streams/forebay/store"
)

// hexBytes are bytes as a script has them: hex, or null for nil.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) error {
	*b = make([]byte, hex.DecodedLen(len(text))) // never nil: "" is no null
	_, err := hex.Decode(*b, text)
	return err
}

func (b hexBytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, hex.EncodeToString(b)), nil
}

// headerList is [["name","hex or null"],…].
type headerList [][2]*string

func (l headerList) headers() (store.Headers, error) {
	list := make([]store.Header, len(l))
	for i, h := range l {
		if h[0] == nil {
			return store.Headers{}, errors.New("a header has no name")
		}
		list[i].Key = *h[0]
		if h[1] != nil {
			value := hexBytes{}
			if err := value.UnmarshalText([]byte(*h[1])); err != nil {
				return store.Headers{}, err
			}
			list[i].Value = value
		}
	}
	return store.HeadersOf(list), nil
}

func listHeaders(h store.Headers) headerList {
	list := headerList{}
	for x := range h.All() {
		pair := [2]*string{&x.Key, nil}
		if x.Value != nil {
			value := hex.EncodeToString(x.Value)
			pair[1] = &value
		}
		list = append(list, pair)
	}
	return list
}

// answerValue is a value in an answer, with what the store's format has.
type answerValue struct {
	V  hexBytes    `json:"v"`
	TS *int64      `json:"ts,omitempty"`
	H  *headerList `json:"h,omitempty"`
}

func newAnswer(layout store.Layout, v store.Value[[]byte]) *answerValue {
	a := &answerValue{V: v.Data}
	if layout.HasTimestamp() {
		a.TS = &v.Timestamp
	}
	if layout.HasHeaders() {
		h := listHeaders(v.Headers)
		a.H = &h
	}
	return a
}

// failure is the answer of an operation that failed.
type failure struct {
	Error string `json:"error"`
}

// result is a line of the results.
type result struct {
	I int64 `json:"i"`
	R any   `json:"r"`
}

// line is what every operation has.
type line struct {
	Op  string     `json:"op"`
	RTS int64      `json:"rts,omitzero"`
	RH  headerList `json:"rh,omitzero"`
}

// eachLine calls f with the lines of a file of JSON objects. The number starts at 0.
func eachLine(r io.Reader, f func(n int64, text []byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for n := int64(0); ; n++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 && err == io.EOF {
			return nil
		}
		if err := f(n, text); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// encoder writes compact JSON lines, with every character of a name as it is.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
