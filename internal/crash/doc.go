// Package crash kills processes that work on a store, and compares what is left with a
// model. It has tests only; `make crash` runs them.
//
// A group is one directory and one variant: the family, the guarantee (at-least-once or
// exactly-once), formats, cache, size of the memtables. In each cycle a child process
// opens the directory, checks it, restores it from the changelog, checks it again, and
// goes on with its input until it is killed with SIGKILL: at a mark of package failpoint
// when that was hit so many times, or by its parent at some moment. Then the parent looks
// at the files, past all code of the store but RocksDB. Some cycles begin without the files,
// as on a new disk: a key-value store is then often restored in bulk.
//
// What must hold at every instant, with L the replay of the changelog:
//
//   - the rows on disk are L up to the stored offset, no more and no less, and the stored
//     position is the one that was handed over with that offset;
//   - a later kill never shows an earlier offset, nor one before the end of a bulk load;
//   - after the restore the rows are L up to its end, exactly-once without the records of
//     aborted transactions, which is then also what the committed input makes;
//   - at the end of the input they are what the whole input makes.
//
// A database that is marked as half loaded counts as an empty one, and the next open must
// make it one.
//
// Of window and session stores the first holds for every segment by its own offset, and the
// others for what has not expired. Versioned stores are compared version by version by the
// next child, before it restores anything.
package crash
