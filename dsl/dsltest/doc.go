// Package dsltest runs a topology without a broker: records are piped in and read out, time
// passes when the test says so, and stores can be looked into. It drives the same tasks as
// an application does, one for each sub-topology, for one partition. After every record
// everything that follows from it is processed, caches are flushed and stores committed.
package dsltest
