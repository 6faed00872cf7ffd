package overlay

import "github.com/forebay-streams/forebay/store"

// position collects where a round's writes came from. Most come from one partition,
// whose offset is kept aside so that a put costs no map access.
type position struct {
	all       store.Position
	topic     string
	partition int32
	offset    int64
}

func (p *position) advance(r *store.Record) {
	if r.Topic == "" {
		return
	}
	if r.Partition == p.partition && r.Topic == p.topic {
		p.offset = max(p.offset, r.Offset)
		return
	}
	p.mergeInto(&p.all)
	p.topic, p.partition, p.offset = r.Topic, r.Partition, r.Offset
}

func (p *position) mergeInto(to *store.Position) {
	if p.topic != "" {
		to.Advance(p.topic, p.partition, p.offset)
	}
	if to != &p.all {
		to.Merge(p.all)
	}
}
