package migration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// adoptFiles takes over what Kafka Streams before 4.3 kept in files of the task: the
// changelog offset, whose entry it then removes, and the position, whose file stays.
func (t *Table) adoptFiles(s *state) error {
	positions, offsets, err := t.readFiles()
	if err != nil {
		return err
	}
	t.mu.Lock()
	for _, e := range positions {
		t.checkpoint.Position.Advance(e.Topic, e.Partition, e.Offset)
	}
	t.mu.Unlock()
	for _, e := range offsets {
		if e.Topic != t.config.ChangelogTopic || e.Partition != t.config.Partition || e.Offset == store.UnknownOffset {
			continue
		}
		if err := adoptOffset(s, t.offsetKey(), e.Offset); err != nil {
			return err
		}
		t.mu.Lock()
		t.checkpoint.Offset, t.known = e.Offset, true
		t.mu.Unlock()
		return checkpointfile.Remove(filepath.Join(t.config.TaskDir, checkpointfile.Name), e.Topic, e.Partition)
	}
	return nil
}

func (t *Table) readFiles() (positions, offsets []checkpointfile.Entry, err error) {
	if t.config.TaskDir == "" {
		return nil, nil, nil
	}
	if positions, err = checkpointfile.Read(positionFile(t.config.TaskDir, t.config.Store)); err != nil {
		return nil, nil, err
	}
	if offsets, err = checkpointfile.Read(filepath.Join(t.config.TaskDir, checkpointfile.Name)); err != nil {
		return nil, nil, fmt.Errorf("%w; delete the file and the store's directory, and restore from the changelog", err)
	}
	return positions, offsets, nil
}

// adoptOffset makes the offset durable, after which the file may forget it.
func adoptOffset(s *state, key string, offset int64) error {
	batch := s.db.NewBatch(0)
	defer batch.Close()
	batch.Put(s.offsets, []byte(key), binary.BigEndian.AppendUint64(nil, uint64(offset)))
	if err := batch.Write(); err != nil {
		return err
	}
	return s.db.Flush()
}

// forgetFiles removes what adoptFiles would take over.
func (t *Table) forgetFiles() error {
	if t.config.TaskDir == "" {
		return nil
	}
	err := os.Remove(positionFile(t.config.TaskDir, t.config.Store))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return checkpointfile.Remove(filepath.Join(t.config.TaskDir, checkpointfile.Name), t.config.ChangelogTopic, t.config.Partition)
}

func positionFile(taskDir, storeName string) string {
	return filepath.Join(taskDir, storeName+".position")
}

// writeFiles writes what Kafka Streams before 4.3 reads: the offsets and positions of all
// databases of a store as files.
func writeFiles(taskDir, storeName string, all []database) error {
	type partition struct {
		topic string
		id    int32
	}
	path := filepath.Join(taskDir, checkpointfile.Name)
	written, err := checkpointfile.Read(path)
	if err != nil {
		return err
	}
	positions, err := checkpointfile.Read(positionFile(taskDir, storeName))
	if err != nil {
		return err
	}
	var position store.Position
	for _, e := range positions {
		position.Advance(e.Topic, e.Partition, e.Offset) // as an open of the store would
	}
	begun := false // some database has given its offsets to the files already
	offsets := make([]map[partition]int64, len(all))
	for i, d := range all {
		if offsets[i] = map[partition]int64{}; !d.has(rocks.Offsets) {
			begun = true
			continue
		}
		err := d.read(func(db *rocks.DB) error {
			entries, p, _, err := readOffsets(db, d.dir)
			for _, e := range entries {
				offsets[i][partition{e.Topic, e.Partition}] = e.Offset
			}
			position.Merge(p)
			return err
		})
		if err != nil {
			return err
		}
	}
	total := least(offsets)
	for _, e := range written {
		if _, ok := total[partition{e.Topic, e.Partition}]; ok && begun {
			return nil // the files are complete; what is left in databases is less
		}
	}
	var entries []checkpointfile.Entry
	for _, topic := range position.Topics() {
		for _, partition := range position.Partitions(topic) {
			offset, _ := position.Offset(topic, partition)
			entries = append(entries, checkpointfile.Entry{Topic: topic, Partition: partition, Offset: offset})
		}
	}
	if err := checkpointfile.Write(positionFile(taskDir, storeName), entries); err != nil {
		return err
	}
	// Last, as they tell that the files are complete.
	for p, offset := range total {
		if err := checkpointfile.Set(path, checkpointfile.Entry{Topic: p.topic, Partition: p.id, Offset: offset}); err != nil {
			return err
		}
	}
	return nil
}
