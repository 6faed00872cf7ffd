// Package segment is the table of window and session stores: one database for each
// interval of time, in directories <task>/<store>/<store>.<start>, that goes as a whole
// when stream time has passed it.
//
// Overlay and table see one flat keyspace: a row's key is the number of its segment in 8
// sortable bytes ([Key]) and then the store's own key. A scan over many segments is a
// [base.Comb]: the same span behind each number of a range, all as of one moment, through
// Comb of the overlay or of a view.
//
// A family puts together:
//
//	rules, err := segment.NewRules(retention, interval)         // interval 0: the default
//	clock := segment.NewClock(rules)                            // stream time
//	table, err := segment.Open(segment.Config{Clock: clock, …}) // or NewMemory, interval 1
//	core := family.NewSegmented(name, config, table, family.Segments{Staged: clock, …})
//
// whose LogKey turns a flat key into that of the changelog. Commit, Abort and Wipe of the
// core's shell reach the clock. A put, by the owner:
//
//	clock.Raise(ts)            // stream time
//	if !clock.Live(ts) { … }   // overlay.Drop: logged, not stored
//	clock.Put(ts)              // the next commit makes the segment; older ones expire
//	overlay.Put(key, row, record)
//
// Raise alone is what a removal does. All that the clock knows has a committed copy: an
// abort goes back to it, and views ask for it with [Clock.At]. Combs begin at
// [Clock.First], so that expired rows are hidden at once; the table refuses them at the
// commit and then deletes their directories. An abort has nothing to undo in the table.
//
// A time-ordered store sets the Index of its formats. It writes each row twice, under its
// base and its index key, the same row under both; a scan over index keys shows whole rows.
package segment
