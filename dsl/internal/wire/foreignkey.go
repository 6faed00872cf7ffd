package wire

import (
	"encoding/binary"

	"github.com/twmb/murmur3"
)

// Instruction tells the right side of a foreign-key join what to do with a subscription.
type Instruction uint8

const (
	// Unsubscribe deletes the subscription.
	Unsubscribe Instruction = iota
	// UnsubscribeAndAnswer deletes it and answers with no value.
	UnsubscribeAndAnswer
	// Answer always answers, without a value if the foreign key has no row.
	Answer
	// AnswerIfPresent answers only if the foreign key has a row.
	AnswerIfPresent
)

// Hash is the fingerprint of a left row's serialized value: an answer is out of date if
// the row has another one by then.
type Hash [16]byte

// hashSeed is fixed by Kafka.
const hashSeed = 104729

// HashOf is the hash of a value, nil for nil.
func HashOf(value []byte) *Hash {
	if value == nil {
		return nil
	}
	var h Hash
	first, second := murmur3.SeedSum128(hashSeed, hashSeed, value)
	binary.BigEndian.PutUint64(h[:], first)
	binary.BigEndian.PutUint64(h[8:], second)
	return &h
}

// Equal compares hashes; two missing ones are equal.
func (h *Hash) Equal(o *Hash) bool {
	if h == nil || o == nil {
		return h == o
	}
	return *h == *o
}

// noHash is set in the version byte when no hash follows.
const noHash = 0x80

// NoPartition is the partition of a subscription that does not name one (version 0): its
// answer goes where the primary key belongs.
const NoPartition int32 = -1

// Subscription is a left row's interest in a foreign key.
type Subscription struct {
	Instruction Instruction
	// Hash of the left row; nil if there is none.
	Hash       *Hash
	PrimaryKey []byte
	// Partition of the left row, for the answer.
	Partition int32
}

// AppendSubscription appends the subscription to dst: as version 0, which Kafka Streams
// up to 3.3 reads, if it has [NoPartition], else as version 1.
func AppendSubscription(dst []byte, s Subscription) ([]byte, error) {
	if err := fits(s.PrimaryKey); err != nil {
		return dst, err
	}
	version := byte(1)
	if s.Partition == NoPartition {
		version = 0
	}
	if s.Hash == nil {
		version |= noHash
	}
	dst = append(dst, version, byte(s.Instruction))
	if s.Hash != nil {
		dst = append(dst, s.Hash[:]...)
	}
	dst = append(dst, s.PrimaryKey...)
	if s.Partition != NoPartition {
		dst = appendLength(dst, int(s.Partition))
	}
	return dst, nil
}

// DecodeSubscription reads a subscription. Errors are [store.ErrCorrupt]:
// subscription_truncated, subscription_version, subscription_instruction,
// subscription_partition.
func DecodeSubscription(b []byte) (Subscription, error) {
	const truncated = "subscription_truncated"
	r := reader{b: b}
	version := r.byte(truncated)
	if version&^noHash > 1 {
		r.fail("subscription_version", 0)
	}
	s := Subscription{Instruction: Instruction(r.byte(truncated)), Partition: NoPartition}
	if s.Instruction > AnswerIfPresent {
		r.fail("subscription_instruction", 1)
	}
	s.Hash = r.hash(version, truncated)
	if version&^noHash == 0 {
		s.PrimaryKey = r.rest()
		return s.orZero(r.err)
	}
	s.PrimaryKey = r.bytes(len(b)-r.off-lengthSize, truncated)
	s.Partition = int32(r.int32(truncated))
	if s.Partition < 0 {
		r.fail("subscription_partition", len(b)-lengthSize)
	}
	return s.orZero(r.err)
}

func (s Subscription) orZero(err error) (Subscription, error) {
	if err != nil {
		return Subscription{}, err
	}
	return s, nil
}

func (r *reader) hash(version byte, reason string) *Hash {
	if version&noHash != 0 {
		return nil
	}
	if b := r.bytes(len(Hash{}), reason); b != nil {
		h := Hash(b)
		return &h
	}
	return nil
}

// Response is the right side's answer to a subscription.
type Response struct {
	// Hash is the subscription's.
	Hash *Hash
	// Value of the foreign key's row; nil if there is none.
	Value []byte
}

// AppendResponse appends the answer to dst. An empty value is read as none.
func AppendResponse(dst []byte, a Response) ([]byte, error) {
	if err := fits(a.Value); err != nil {
		return dst, err
	}
	if a.Hash == nil {
		dst = append(dst, noHash)
	} else {
		dst = append(append(dst, 0), a.Hash[:]...)
	}
	return append(dst, a.Value...), nil
}

// DecodeResponse reads an answer. Errors are [store.ErrCorrupt]: response_truncated,
// response_version.
func DecodeResponse(b []byte) (Response, error) {
	r := reader{b: b}
	version := r.byte("response_truncated")
	if version&^noHash != 0 {
		r.fail("response_version", 0)
	}
	a := Response{Hash: r.hash(version, "response_truncated")}
	if r.err != nil {
		return Response{}, r.err
	}
	if rest := r.rest(); len(rest) > 0 {
		a.Value = rest
	}
	return a, nil
}

// AppendForeignKey appends the key of the subscription store to dst. Without a primary
// key it is the prefix of all subscriptions to the foreign key.
func AppendForeignKey(dst, foreign, primary []byte) ([]byte, error) {
	if err := fits(foreign, primary); err != nil {
		return dst, err
	}
	return append(append(appendLength(dst, len(foreign)), foreign...), primary...), nil
}
