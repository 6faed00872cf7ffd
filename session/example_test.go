package session_test

import (
	"context"
	"fmt"
	golog "log"
	"time"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// Counts in sessions that end after a gap of ten seconds, with the headers of the record
// that came last.
func Example() {
	const gap = 10_000
	counts, err := session.Open("", "clicks", store.String(), store.Int64(), session.InMemory(), session.Retention(time.Minute))
	if err != nil {
		golog.Fatal(err)
	}
	defer counts.Close()
	for i, at := range []int64{1_000, 30_000, 21_000, 9_000} {
		r := store.Record{Topic: "clicks", Offset: int64(i), Timestamp: at,
			Headers: store.NewHeaders(store.Header{Key: "trace", Value: fmt.Append(nil, "t", i)})}
		counts.SetRecord(r)
		start, end, n := at, at, int64(1)
		var merged []session.Row[string, int64]
		for row, err := range counts.FindSessions("anna", at-gap, at+gap) {
			if err != nil {
				golog.Fatal(err)
			}
			start, end, n = min(start, row.Start), max(end, row.End), n+row.Data
			merged = append(merged, row)
		}
		for _, row := range merged {
			if err := counts.Remove("anna", row.Start, row.End); err != nil {
				golog.Fatal(err)
			}
		}
		if err := counts.Put("anna", start, end, store.ValueOf(r, n)); err != nil {
			golog.Fatal(err)
		}
	}
	if err := counts.Commit(context.Background()); err != nil {
		golog.Fatal(err)
	}
	for row, err := range counts.Fetch("anna") {
		if err != nil {
			golog.Fatal(err)
		}
		trace, _ := row.Headers.Last("trace")
		fmt.Printf("%d to %d: %d, last by %s\n", row.Start, row.End, row.Data, trace.Value)
	}
	// Output:
	// 1000 to 9000: 2, last by t3
	// 21000 to 30000: 2, last by t2
}
