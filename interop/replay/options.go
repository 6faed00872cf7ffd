package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/store"
)

// errUsage: the options are wrong.
var errUsage = errors.New("bad options")

// options of a run. Every option is a pair --name value.
type options struct {
	store, format           string
	ops, results, changelog string
	restore                 string
	state, app              string
	offset                  int64
	memory                  bool
	cache                   int64
	guarantee               string
	transactional           bool

	// Of windowed and versioned stores.
	retention, size, segment int64
	duplicates               bool
	ordered                  string
}

func defaults() options {
	return options{
		store: "kv", format: "headers", app: "replay", guarantee: atLeastOnce,
		retention: 3_600_000, size: 60_000,
	}
}

const (
	atLeastOnce   = "at_least_once"
	exactlyOnceV2 = "exactly_once_v2"
)

var layouts = map[string]store.Layout{"plain": store.Plain, "timestamped": store.Timestamped, "headers": store.WithHeaders}

// setters parse one option each. An option without effect has nil.
func (o *options) setters() map[string]func(string) error {
	return map[string]func(string) error{
		"store":         oneOf(&o.store, "kv", "window", "session", "versioned"),
		"format":        oneOf(&o.format, "plain", "timestamped", "headers"),
		"ops":           text(&o.ops),
		"results":       text(&o.results),
		"changelog":     text(&o.changelog),
		"restore":       text(&o.restore),
		"state":         text(&o.state),
		"app":           name(&o.app),
		"offset":        number(&o.offset),
		"memory":        boolean(&o.memory),
		"cache":         number(&o.cache),
		"guarantee":     oneOf(&o.guarantee, atLeastOnce, exactlyOnceV2),
		"transactional": boolean(&o.transactional), // forebay's stores always are
		"retention":     number(&o.retention),
		"size":          number(&o.size),
		"segment":       number(&o.segment),
		"duplicates":    boolean(&o.duplicates),
		"ordered":       oneOf(&o.ordered, "index", "noindex"),
		"commit":        nil, // a script says itself when
		"wait":          nil, // nothing to wait for without a broker
		"bootstrap":     nil,
	}
}

func parseOptions(args []string) (options, error) {
	o := defaults()
	setters := o.setters()
	for len(args) > 0 {
		option, ok := strings.CutPrefix(args[0], "--")
		set, known := setters[option]
		switch {
		case !ok:
			return o, fmt.Errorf("%w: %q where an option --name value is due", errUsage, args[0])
		case !known:
			return o, fmt.Errorf("%w: unknown option --%s", errUsage, option)
		case len(args) == 1:
			return o, fmt.Errorf("%w: --%s has no value", errUsage, option)
		}
		if set != nil {
			if err := set(args[1]); err != nil {
				return o, fmt.Errorf("%w: --%s %s: %w", errUsage, option, args[1], err)
			}
		}
		args = args[2:]
	}
	if o.ops == "" || o.results == "" {
		return o, fmt.Errorf("%w: --ops FILE and --results FILE must be given", errUsage)
	}
	return o, nil
}

func text(to *string) func(string) error {
	return func(s string) error {
		*to = s
		return nil
	}
}

func oneOf(to *string, values ...string) func(string) error {
	return func(s string) error {
		*to = s
		if !slices.Contains(values, s) {
			return fmt.Errorf("must be one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

// name takes what is one part of a path.
func name(to *string) func(string) error {
	return func(s string) error {
		*to = s
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, `/\`) {
			return errors.New("must be the name of a directory")
		}
		return nil
	}
}

func number(to *int64) func(string) error {
	return func(s string) (err error) {
		if *to, err = strconv.ParseInt(s, 10, 64); err != nil || *to < 0 {
			return errors.New("must be a number of 0 or more")
		}
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(s string) error {
		*to = s == "true"
		if s != "true" && s != "false" {
			return errors.New("must be true or false")
		}
		return nil
	}
}
