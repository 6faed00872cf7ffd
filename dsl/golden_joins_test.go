package dsl_test

import (
	"maps"

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
}
