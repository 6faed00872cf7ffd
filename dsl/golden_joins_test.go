package dsl_test

import (
	"maps"
	"time"

	"github.com/forebay-streams/forebay/dsl"
)

func init() { maps.Copy(topologies, joinTopologies) }

// join shows what is missing as null, as text in Java does.
func join(left, right *string) *string { return text(orNull(left) + "|" + orNull(right)) }

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// firstLetter is the foreign key of a value.
func firstLetter(v *string) (string, bool) {
	if *v == "" {
		return "", false
	}
	return initial(v), true
}

var joinWindows = dsl.JoinWithin(5 * time.Second).Grace(2 * time.Second)

var joinTopologies = map[string]func(b *dsl.Builder){
	"table-join-inner": func(b *dsl.Builder) {
		out(dsl.JoinTables(table(b, "a", "l"), table(b, "b", "r"), join, nil, dsl.As("j")).ToStream())
	},
	"table-join-left": func(b *dsl.Builder) {
		out(dsl.LeftJoinTables(table(b, "a", "l"), table(b, "b", "r"), join, nil, dsl.As("j")).ToStream())
	},
	"table-join-outer": func(b *dsl.Builder) {
		out(dsl.OuterJoinTables(table(b, "a", "l"), table(b, "b", "r"), join, nil, dsl.As("j")).ToStream())
	},
	"foreign-key-inner": func(b *dsl.Builder) {
		out(dsl.JoinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil, dsl.Named("fk"), dsl.As("j")).ToStream())
	},
	"foreign-key-left": func(b *dsl.Builder) {
		out(dsl.LeftJoinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil, dsl.Named("fk"), dsl.As("j")).ToStream())
	},
	"stream-table-inner": func(b *dsl.Builder) {
		out(dsl.JoinTable(read(b, "a"), table(b, "b", "r"), join))
	},
	"stream-table-left": func(b *dsl.Builder) {
		out(dsl.LeftJoinTable(read(b, "a"), table(b, "b", "r"), join))
	},
	"stream-table-versioned-grace": func(b *dsl.Builder) {
		versioned := dsl.ReadTable[string, *string](b, "b", nil, nil, dsl.As("r"), dsl.Versioned(30*time.Second))
		out(dsl.JoinTable(read(b, "a"), versioned, join, dsl.Named("j"), dsl.JoinGrace(3*time.Second)))
	},
	"stream-global": func(b *dsl.Builder) {
		global := dsl.ReadGlobalTable[string, *string](b, "b", nil, nil, dsl.As("g"))
		out(dsl.LeftJoinGlobal(read(b, "a"), global, func(_ string, v *string) string { return initial(v) }, join))
	},
	"stream-stream-inner": func(b *dsl.Builder) {
		out(dsl.JoinStreams(read(b, "a"), read(b, "b"), join, joinWindows, dsl.Named("j"), dsl.JoinStores("w")))
	},
	"stream-stream-left": func(b *dsl.Builder) {
		out(dsl.LeftJoinStreams(read(b, "a"), read(b, "b"), join, joinWindows, dsl.Named("j"), dsl.JoinStores("w")))
	},
	"stream-stream-outer": func(b *dsl.Builder) {
		out(dsl.OuterJoinStreams(read(b, "a"), read(b, "b"), join, joinWindows, dsl.Named("j"), dsl.JoinStores("w")))
	},
}
