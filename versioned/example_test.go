package versioned_test

import (
	"fmt"
	"math"
	"time"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
)

func Example() {
	prices, err := versioned.Open("", "prices", store.String(), store.Float64(),
		versioned.InMemory(), versioned.History(time.Hour))
	if err != nil {
		panic(err)
	}
	defer prices.Close()

	put := func(price float64, at int64) {
		placed, err := prices.Put("apple", store.Value[float64]{Data: price, Timestamp: at})
		fmt.Println(price, "at", at, "is", placed, err)
	}
	put(1.10, 100)
	put(1.30, 300)
	put(1.20, 200) // late, but not too late

	v, ok, err := prices.GetAsOf("apple", 250)
	fmt.Println(v.Data, v.Timestamp, v.ValidTo, ok, err)

	_, _, _ = prices.Delete("apple", 400)
	for v, err := range prices.History("apple", 150, math.MaxInt64, versioned.Ascending) {
		fmt.Println(v.Data, v.Timestamp, v.ValidTo, err)
	}
	// Output:
	// 1.1 at 100 is latest <nil>
	// 1.3 at 300 is latest <nil>
	// 1.2 at 200 is valid to 300 <nil>
	// 1.2 200 300 true <nil>
	// 1.1 100 200 <nil>
	// 1.2 200 300 <nil>
	// 1.3 300 400 <nil>
}
