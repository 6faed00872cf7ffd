package store

import (
	"fmt"
	"path/filepath"
)

// TaskDir is the directory of a task's stores, <stateDir>/<app>/<group>_<partition>, as
// Kafka Streams lays it out. group is the number of the sub-topology, 0 for an app that
// has one; partition is that of the task's input and of its changelogs.
func TaskDir(stateDir, app string, group, partition int) string {
	return filepath.Join(stateDir, app, fmt.Sprintf("%d_%d", group, partition))
}
