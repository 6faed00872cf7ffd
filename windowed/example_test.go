package windowed_test

import (
	"context"
	"fmt"
	golog "log"
	"time"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// Counts in windows of a minute, with the headers of the record that changed each last.
func Example() {
	counts, err := windowed.Open("", "clicks", store.String(), store.Int64(), windowed.InMemory(),
		windowed.Size(time.Minute), windowed.Retention(time.Hour))
	if err != nil {
		golog.Fatal(err)
	}
	defer counts.Close()
	for i, at := range []int64{1_000, 30_000, 61_000} {
		r := store.Record{Topic: "clicks", Offset: int64(i), Timestamp: at,
			Headers: store.NewHeaders(store.Header{Key: "trace", Value: fmt.Append(nil, "t", i)})}
		counts.SetRecord(r)
		start := at - at%60_000
		count, _, err := counts.Fetch("anna", start)
		if err == nil {
			err = counts.Put("anna", start, store.ValueOf(r, count.Data+1))
		}
		if err != nil {
			golog.Fatal(err)
		}
	}
	if err := counts.Commit(context.Background()); err != nil {
		golog.Fatal(err)
	}
	for row, err := range counts.FetchRange("anna", 0, 120_000) {
		if err != nil {
			golog.Fatal(err)
		}
		trace, _ := row.Headers.Last("trace")
		fmt.Printf("%d to %d: %d, last by %s\n", row.Start, row.End, row.Data, trace.Value)
	}
	// Output:
	// 0 to 60000: 2, last by t1
	// 60000 to 120000: 1, last by t2
}
