package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// fullSize is the size of the file system that is filled, and ballast leaves little of
// it. Without it there must be more than a write buffer, else RocksDB does not go on.
const (
	fullSize = 64 << 20
	ballast  = 58 << 20
)

// fill commits on a small file system until a write fails, and goes on when there is
// room again. The file system is mounted where only this process sees it.
func (w *worker) fill() error {
	if err := os.MkdirAll(taskDir(w.Dir), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", taskDir(w.Dir), "tmpfs", 0, fmt.Sprintf("size=%d", fullSize)); err != nil {
		say(saidNoMount)
		return fmt.Errorf("mount: %w", err)
	}
	file := filepath.Join(taskDir(w.Dir), "ballast")
	if err := os.WriteFile(file, make([]byte, ballast), 0o644); err != nil {
		return err
	}
	w.Kill.None = true
	if err := w.open(); err != nil {
		return err
	}
	if err := w.restore(); err != nil {
		return err
	}
	committed := w.committedPosition
	offset := store.UnknownOffset
	var failure error
	hung := time.AfterFunc(time.Minute, func() {
		say(saidFail, `{"What": "a commit hangs on the full disk"}`)
		die()
	})
	for failure == nil {
		if w.next > 200_000 {
			return failed("the file system does not fill")
		}
		for range 1 + w.r.IntN(20) {
			if err := w.content.step(w.next); err != nil {
				return err
			}
			w.next++
		}
		hung.Reset(time.Minute)
		if failure = w.commit(); failure == nil {
			committed, offset = w.committedPosition, w.offset()
		}
	}
	hung.Stop()
	say(saidInfo, failure)
	// A commit fails as a whole, and the owner still sees all it wrote.
	unchanged := func() error {
		if err := w.content.failedCommit("after a failed commit"); err != nil {
			return err
		}
		if now, _ := w.store.RestoredOffset(); now != offset || !w.store.Position().Equal(committed) {
			return failed("after a failed commit: offset %d and position %s, want %d and %s", now, w.store.Position(), offset, committed)
		}
		return w.content.check("after a failed commit")
	}
	if err := unchanged(); err != nil {
		return err
	}
	if w.commit() == nil { // an obsolete file may have gone
		committed, offset = w.committedPosition, w.offset()
	}
	if err := unchanged(); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	recovered := false
	if w.Until < 0 { // the owner waits, and commits again
		for began := time.Now(); !recovered && time.Since(began) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
			recovered = w.commit() == nil
		}
		say(saidInfo, "the store took commits again:", recovered)
		if recovered {
			offset = w.offset()
		}
	}
	closed := w.store.Close()
	say(saidInfo, "close:", closed)
	if err := w.lookFull(offset, closed, recovered); err != nil {
		return err
	}
	// restore compares the rows on disk with the changelog up to their offset, too.
	if err := w.open(); err != nil {
		return err
	}
	if err := w.restore(); err != nil {
		return err
	}
	for range 50 {
		if err := w.content.step(w.next); err != nil {
			return err
		}
		w.next++
	}
	return w.close()
}

// lookFull checks what is on disk after a commit that failed, behind one with that offset.
// Of a segmented store some parts may have the failed one.
func (w *worker) lookFull(offset int64, closed error, recovered bool) error {
	var parts []part
	if w.Variant.Family == subject.KV {
		d, err := readDisk(w.Dir)
		if err != nil {
			return err
		}
		parts = []part{{offset: d.offset, position: d.position}}
	} else {
		var err error
		if _, parts, err = (&group{dir: w.Dir, variant: w.Variant, layout: w.Layout}).readTimed(); err != nil {
			return err
		}
	}
	noted, err := readJournal(w.path("journal"))
	if err != nil {
		return err
	}
	noted[-1] = append(noted[store.UnknownOffset], store.Position{})
	last := offset
	if w.Variant.Family.Segmented() && !recovered {
		last = w.offset()
	}
	for _, p := range parts {
		if p.offset > last || closed == nil && p.offset < offset {
			return failed("on disk is offset %d, the last successful commit had %d, close said %v", p.offset, offset, closed)
		}
		if !slices.ContainsFunc(noted[p.offset], p.position.Equal) {
			return failed("on disk are offset %d and position %s, which were never handed over together", p.offset, p.position)
		}
	}
	return nil
}

// A commit that cannot be written fails as a whole, of a segmented store segment by segment. With room again the store goes on, or
// it is opened again as of the offset on disk.
func TestFullDisk(t *testing.T) {
	type full struct {
		family subject.Family
		layout store.Layout
	}
	for i, f := range []full{{subject.KV, store.WithHeaders}, {subject.KV, store.Timestamped}, {subject.Windowed, store.WithHeaders}, {subject.Session, store.WithHeaders}, {subject.Versioned, store.WithHeaders}} {
		layout := f.layout
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s wait=%t", f.family, layout, wait), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				spec := task{Mode: "full", Dir: dir, Seed: uint64(i), Layout: layout, Base: -1, Variant: variant{
					Family: f.family, Step: 1,
					ExactlyOnce: i%2 == 0, WriteBuffers: []int64{1 << 10, 2 << 20}[i%2], CommitEvery: 10, Keys: 4000, InputSeed: uint64(i),
				}}
				if f.family.Cached() {
					spec.Variant.Cache = int64(i%2) * 50_000
				} else {
					spec.Variant.Keys, spec.Variant.WriteBuffers = 400, 2<<20
				}
				if wait {
					spec.Until = -1
				}
				require.NoError(t, writeRows(filepath.Join(dir, "base"), rows{}))
				g := &group{dir: dir}
				said, err := g.start(spec, func(cmd *exec.Cmd) {
					cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // mounts stay private
					if uid := os.Getuid(); uid != 0 {
						// Root of a user namespace of its own, where that is allowed.
						cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
						cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
						cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
					}
				})
				if errors.Is(err, fs.ErrPermission) || said.noMount {
					t.Skip("needs a file system of its own, and may not mount one:", err)
				}
				require.NoError(t, err, "%s %s", said.stderr, said.info)
				require.Equal(t, saidDone, said.end, said.stderr)
				t.Log(strings.Join(said.info, "\n"))
			})
		}
	}
}
