// Package changelog logs what a state store does to a Kafka topic and fills a store from
// it again: a [Writer] for the one, [Restore] for the other, and [EnsureTopic] for the
// topic between them. It is written for franz-go (kgo).
//
// A changelog record is the row's key, its plain value (null for a tombstone), its
// timestamp and its headers as native record headers. Nothing of forebay's own is inside
// the value, so Kafka Streams reads such a topic, and forebay reads one of Kafka Streams.
package changelog
