package main

import (
	"slices"
	"time"
)

// reduce makes a script that shows a difference as short as it can get in the time: it
// leaves out parts, then operations in ever smaller pieces, as long as shows still says yes.
func reduce(s *parityScript, until time.Time, shows func(*parityScript) bool) *parityScript {
	try := func(c *parityScript) bool {
		if time.Now().After(until) || !shows(c) {
			return false
		}
		s = c
		return true
	}
	// A part's number says in which format and by whom it is run, so only the last may go.
	for len(s.Parts) > 1 && try(s.with(s.Parts[:len(s.Parts)-1])) {
	}
	for i := range s.Parts {
		try(s.without(i, 0, len(s.Parts[i].Ops)))
		if s.Parts[i].Wipe && s.Options.Store != "versioned" { // else another difference: "versioned-reopen"
			try(s.edited(i, func(p *parityPart) { p.Wipe = false }))
		}
		if s.Parts[i].Kill != "" {
			try(s.edited(i, func(p *parityPart) { p.Kill = "" }))
		}
	}
	for size := s.operations() / 2; size > 0; size /= 2 {
		for i := range s.Parts {
			for at := 0; at < len(s.Parts[i].Ops); {
				if !try(s.without(i, at, min(at+size, len(s.Parts[i].Ops)))) {
					at += size
				}
			}
		}
		if size == 1 && s.operations() < 30 { // once more: what the last ones needed may have gone
			for i := range s.Parts {
				for at := len(s.Parts[i].Ops) - 1; at >= 0; at-- {
					try(s.without(i, at, at+1))
				}
			}
		}
	}
	for i := range s.Parts {
		for n, op := range s.Parts[i].Ops {
			try(s.edited(i, func(p *parityPart) { p.Ops[n] = plainer(op) }))
		}
	}
	return s
}

func (s *parityScript) with(parts []parityPart) *parityScript {
	return &parityScript{s.Options, s.Swap, parts}
}

// edited copies the script and changes a part.
func (s *parityScript) edited(part int, change func(*parityPart)) *parityScript {
	parts := slices.Clone(s.Parts)
	parts[part].Ops = slices.Clone(parts[part].Ops)
	change(&parts[part])
	return s.with(parts)
}

func (s *parityScript) without(part, from, to int) *parityScript {
	return s.edited(part, func(p *parityPart) { p.Ops = slices.Delete(p.Ops, from, to) })
}

// plainer leaves headers and values out.
func plainer(op scriptOp) scriptOp {
	plain := func(r *kvRow) {
		if r.H = nil; len(r.V) > 1 {
			r.V = r.V[:1]
		}
	}
	switch op := op.(type) {
	case modelOp:
		op.Rows = slices.Clone(op.Rows)
		for i := range op.Rows {
			plain(&op.Rows[i])
		}
		plain(&op.kvRow)
		op.RH = nil
		return op
	case timedOp:
		plain(&op.kvRow)
		op.RH = nil
		return op
	}
	return op
}
