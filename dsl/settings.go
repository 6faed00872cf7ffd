package dsl

import (
	"fmt"
	"strconv"

	"github.com/forebay-streams/forebay/dsl/internal/policy"
)

// The configuration keys that Settings knows, those of Kafka Streams where it has them.
const (
	KeyStoreFormat       = "dsl.store.format"
	KeyStoreSuppliers    = "dsl.store.suppliers.class"
	KeyHeaderPolicy      = "forebay.header.policy"
	KeyUnionMaxHeaders   = "forebay.header.policy.union.max.headers"
	KeyUnionMaxBytes     = "forebay.header.policy.union.max.bytes"
	suppliersInMemory    = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
	suppliersOnDisk      = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers"
	suppliersPlainPrefix = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers."
)

// Settings takes the application's settings from configuration keys, as an alternative to
// [StoreFormat], [DefaultHeaderPolicy] and [StoresInMemory]. Other keys are left alone.
func Settings(values map[string]string) BuilderOption {
	return func(c *config) error {
		if format, ok := values[KeyStoreFormat]; ok {
			if err := StoreFormat(format)(c); err != nil {
				return err
			}
		}
		switch class := values[KeyStoreSuppliers]; class {
		case "":
		case suppliersInMemory, suppliersPlainPrefix + "InMemoryDslStoreSuppliers":
			c.memory = true
		case suppliersOnDisk, suppliersPlainPrefix + "RocksDBDslStoreSuppliers":
			c.memory = false
		default:
			return fmt.Errorf("%s is %q; it may be one of Kafka's built-in suppliers, in memory or RocksDB", KeyStoreSuppliers, class)
		}
		return policySetting(values, c)
	}
}

func policySetting(values map[string]string, c *config) error {
	limits := [2]int{policy.DefaultMaxHeaders, policy.DefaultMaxBytes}
	for i, key := range []string{KeyUnionMaxHeaders, KeyUnionMaxBytes} {
		text, ok := values[key]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s is %q, which is no number", key, text)
		}
		limits[i] = n
	}
	var p HeaderPolicy
	switch name := values[KeyHeaderPolicy]; name {
	case "":
		return nil
	case "latest":
		p = Latest()
	case "empty":
		p = Empty()
	case "first":
		p = First()
	case "union":
		p = Union(limits[0], limits[1])
	default:
		return fmt.Errorf("%s is %q; it may be latest, empty, first or union", KeyHeaderPolicy, name)
	}
	return DefaultHeaderPolicy(p)(c)
}
