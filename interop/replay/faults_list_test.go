package main

import "testing"

// fault is an answer of Kafka Streams that is not the right one, or a directory that is not
// what it should be. Nothing else is explained.
type fault struct {
	name  string
	store string
	// releases that have it, "": all.
	release string
	// what Kafka does, and where DESIGN.md or a page of docs says what is right.
	what, section string
	// explains tells whether an answer shows it. nil: the model follows it, and says so.
	explains func(*evidence) bool
	// script shows it: the option set's name and the operations of each part.
	options string
	script  [][]string
}

var faults = []fault{
	{
		name: "kv-cache-reverse", store: "kv", explains: kvCacheReverse,
		what:    "A reverse scan over a deleted key that the cache holds fails, or shows the key",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
	},
	{
		name: "kv-prefix-ff", store: "kv", explains: kvPrefixFF,
		what:    "In memory and with a cache, a prefix scan fails if the prefix is empty or all ff",
		section: "docs/interop.md",
		options: "plain, memory",
	},
	{
		name: "kv-transactional-bounds", store: "kv", explains: kvTransactionalBounds,
		what:    "With transactional stores, a scan with one open end does not stop at the other",
		section: "DESIGN.md, difference 7",
		options: "headers, transactional",
	},
	{
		name: "window-range", store: "window", explains: timedCacheRange,
		what:    "A range of keys misses keys of which the upper bound is a continuation with low bytes",
		section: "DESIGN.md, difference 12; docs/format/windowed.md, Bounds of a query",
		options: "headers",
	},
	{
		name: "window-cache-expired", store: "window", explains: timedCacheExpired,
		what:    "Rows in the cache stay visible when they have expired",
		section: "DESIGN.md, difference 13",
		options: "headers, cached",
	},
	{
		name: "window-cache-backward", store: "window", explains: timedCacheBackward,
		what:    "A backward scan shows rows that are deleted in the cache",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
	},
	{
		name: "window-cache-repeats", store: "window", explains: windowCacheRepeats,
		what:    "A range of keys with an open end shows rows in the cache once for each segment",
		section: "docs/interop.md",
		options: "headers, cached",
	},
	{
		name: "session-range", store: "session", explains: timedCacheRange,
		what:    "As window-range",
		section: "DESIGN.md, difference 12; docs/format/session.md, Bounds",
		options: "headers",
	},
	{
		name: "session-ordered-headers", store: "session",
		what:    "Time-ordered stores with headers lose them, but for the changelog",
		section: "DESIGN.md, difference 14",
		options: "headers, time-ordered",
	},
	{
		name: "session-cache-expired", store: "session", explains: timedCacheExpired,
		what:    "Rows in the cache stay visible when they have expired",
		section: "DESIGN.md, difference 13",
		options: "headers, cached",
	},
	{
		name: "session-cache-backward", store: "session", explains: timedCacheBackward,
		what:    "A backward scan shows rows that are deleted in the cache",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
	},
	{
		name: "session-cache-find", store: "session", explains: sessionCacheFind,
		what:    "With a cache, a backward search for sessions of one key fails where it finds none in the last segment",
		section: "docs/interop.md",
		options: "headers, cached",
	},
	{
		name: "session-cache-remove", store: "session",
		what:    "With a cache, a remove is flushed as a put, which makes a segment and drops old ones",
		section: "docs/format/session.md, Stream time",
		options: "headers, cached",
	},
	{
		name: "session-memory-inverted", store: "session", explains: sessionMemoryInverted,
		what:    "In memory, an inverted range of keys fails",
		section: "DESIGN.md, difference 13",
		options: "plain, memory",
	},
	{
		name: "session-times-inverted", store: "session", explains: sessionTimesInverted,
		what:    "An inverted range of times fails",
		section: "DESIGN.md, difference 13",
		options: "plain, time-ordered",
	},
	{
		name: "versioned-valid-to", store: "versioned",
		what:    "get and delete do not tell when a version ended",
		section: "docs/interop.md",
		options: "plain",
	},
	{
		name: "versioned-tombstone", store: "versioned",
		what:    "A tombstone at the time of a key's latest version is forgotten",
		section: "DESIGN.md, difference 15",
		options: "plain",
	},
	{
		name: "versioned-history", store: "versioned",
		what:    "A history up to some time misses versions that ended in later segments",
		section: "DESIGN.md, difference 16",
		options: "plain",
	},
}

func TestFaultsDraft(t *testing.T) {}
