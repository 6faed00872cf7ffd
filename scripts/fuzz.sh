#!/usr/bin/env bash
# Runs every Fuzz target of every package in turn, as go test -fuzz takes one at a time. All are run even if one fails.
#
#   FUZZTIME   time for each target (30s), or a count such as 10000x
#   FUZZ       only the targets whose name matches this regular expression
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Asking go list for the files, and not the disk, leaves out what build tags leave out.
targets=$(scripts/env.sh go list -f '{{range .TestGoFiles}}{{$.ImportPath}}{{"\t"}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$.ImportPath}}{{"\t"}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... |
  while IFS=$'\t' read -r pkg file; do
    [ -n "$file" ] || continue
    { grep -oE '^func Fuzz[A-Za-z0-9_]*\(' "$file" || true; } | sed -E "s|^func (.*)\\(|$pkg \\1|"
  done | { grep -E " .*(${FUZZ:-.})" || true; })
[ -n "$targets" ] || { echo "forebay: no Fuzz target found" >&2; exit 1; }

failed=()
while read -r pkg name; do
  echo "fuzzing $pkg $name"
  scripts/env.sh go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" "$pkg" < /dev/null || failed+=("$pkg $name")
done <<< "$targets"
[ ${#failed[@]} = 0 ] || { printf 'forebay: FAILED %s\n' "${failed[@]}" >&2; exit 1; }
