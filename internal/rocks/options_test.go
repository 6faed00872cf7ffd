package rocks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stored reads the newest OPTIONS file: section, name, value.
func stored(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	text, err := os.ReadFile(files[len(files)-1]) // sorted, numbers are padded
	require.NoError(t, err)
	sections, section := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			sections[section] = map[string]string{}
		} else if name, value, ok := strings.Cut(line, "="); ok && section != "" {
			sections[section][name] = value
		}
	}
	return sections
}

// The values are those of a directory that Kafka Streams 4.4 wrote.
func TestOptionsInForce(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	for _, when := range []string{"created", "reopened"} {
		db := open(t, dir)
		options := stored(t, dir)
		check := func(section, name, want string) {
			t.Helper()
			require.Contains(t, options, section, when)
			require.Contains(t, options[section], name, when)
			assert.Equal(t, want, options[section][name], "%s: %s %s", when, section, name)
		}
		check("DBOptions", "atomic_flush", "true")
		check("DBOptions", "avoid_flush_during_shutdown", "false")
		check("DBOptions", "create_if_missing", "true")
		check("DBOptions", "error_if_exists", "false")
		check("DBOptions", "info_log_level", "ERROR_LEVEL")
		check("DBOptions", "unordered_write", "false")
		check("DBOptions", "enable_pipelined_write", "false")
		check("DBOptions", "recycle_log_file_num", "0")
		check("DBOptions", "track_and_verify_wals_in_manifest", "false")
		for _, name := range families {
			family, table := fmt.Sprintf("CFOptions %q", name), fmt.Sprintf("TableOptions/BlockBasedTable %q", name)
			check(family, "compression", "kNoCompression")
			check(family, "bottommost_compression", "kDisableCompressionOption")
			check(family, "comparator", "leveldb.BytewiseComparator")
			check(family, "prefix_extractor", "nullptr")
			check(family, "merge_operator", "nullptr")
			check(family, "compaction_filter", "nullptr")
			check(family, "enable_blob_files", "false")
			check(family, "num_levels", "7")
			check(table, "format_version", "6")
			check(table, "block_size", "4096")
			check(table, "checksum", "kXXH3")
			check(table, "index_type", "kBinarySearch")
			check(table, "data_block_index_type", "kDataBlockBinarySearch")
			check(table, "separate_key_value_in_data_block", "false")
			check(table, "partition_filters", "false")
			if name == Offsets {
				check(family, "compaction_style", "kCompactionStyleLevel")
				check(family, "write_buffer_size", "1048576")
				check(family, "max_write_buffer_number", "2")
				check(family, "optimize_filters_for_hits", "false")
				check(table, "filter_policy", "nullptr")
				continue
			}
			check(family, "compaction_style", "kCompactionStyleUniversal")
			check(family, "write_buffer_size", "16777216")
			check(family, "max_write_buffer_number", "3")
			check(family, "optimize_filters_for_hits", "false") // on purpose not as Kafka Streams
			check(table, "filter_policy", "bloomfilter")
		}
		db.Close()
	}
}

// tableFiles are the SST files of a directory.
func tableFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	return files
}

// Release 10.1 of Kafka Streams refuses files of a newer format.
func TestFooters(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	db := open(t, dir)
	for _, name := range families {
		put(t, db, db.Family(name), [2]string{"key", "value"})
	}
	require.NoError(t, db.Flush())
	files := tableFiles(t, dir)
	require.Len(t, files, len(families), "one of each family: a flush takes all")
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		footer := b[len(b)-53:]
		assert.Equal(t, byte(4), footer[0], "checksum XXH3")
		assert.Equal(t, "06000000", hex.EncodeToString(footer[41:45]), "format version")
		assert.Equal(t, "f7cff485b741e288", hex.EncodeToString(footer[45:]), "magic number")
	}
}

// OPTIONS files do not tell the bits of the filter, so its size does.
func TestFilters(t *testing.T) {
	db, f := newDB(t)
	const keys = 20_000
	for _, family := range []*Family{f, db.Family(Offsets)} {
		batch := db.NewBatch(0)
		for i := range keys {
			batch.Put(family, fmt.Appendf(nil, "key-%06d", i), nil)
		}
		require.NoError(t, batch.Write())
		batch.Close()
	}
	require.NoError(t, db.Flush())
	filter := func(family *Family) (size int, name string) {
		properties := db.db.GetPropertyCF("rocksdb.aggregated-table-properties", family.handle)
		m := regexp.MustCompile(`filter block size=(\d+);`).FindStringSubmatch(properties)
		require.Len(t, m, 2, properties)
		size, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return size, properties
	}
	size, _ := filter(f)
	assert.InDelta(t, keys*10/8, size, keys/20, "10 bits a key")
	size, _ = filter(db.Family(Offsets))
	assert.Zero(t, size)
	policies := 0
	for _, file := range tableFiles(t, db.dir) {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.Contains(b, []byte("bloomfilter")) || bytes.Contains(b, []byte("BuiltinBloomFilter")) {
			policies++
		}
	}
	assert.Equal(t, 1, policies, "the built-in filter, of the data family alone")
}
