package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svg draws the ratios as bars on a logarithmic scale; the line is equality.
func (r *Report) svg() string {
	const (
		left, width, bar, gap = 260, 520, 12, 6
		most                  = 16.0 // times as fast, at the right end
	)
	colors := map[string]string{"raw": "#8a8f98", "kafka": "#2f6fde"}
	x := func(v float64) float64 {
		v = min(max(v, 1/most), most)
		return left + width/2 + math.Log(v)/math.Log(most)*width/2
	}
	var body strings.Builder
	y := 40.0
	for _, l := range r.Lines {
		top := y
		for _, rival := range []string{"raw", "kafka"} {
			s, ok := l.Ratio[rival]
			if !ok || s.Median == 0 {
				continue
			}
			from, to := x(min(s.Median, 1)), x(max(s.Median, 1))
			fmt.Fprintf(&body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`, from, y, max(to-from, 1), bar, colors[rival])
			fmt.Fprintf(&body, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#222"/>`, x(s.Min), x(s.Max), y+bar/2, y+bar/2)
			fmt.Fprintf(&body, `<text x="%d" y="%.1f">%.2f</text>`, left+width+10, y+bar-2, s.Median)
			fmt.Fprintln(&body)
			y += bar + 1
		}
		if y > top {
			fmt.Fprintf(&body, `<text x="8" y="%.1f">%s</text>`+"\n", top+bar-1, html.EscapeString(l.Figure.Family+" "+l.Figure.What+", "+l.Figure.Fits))
			y += gap
		}
	}
	var grid strings.Builder
	for _, v := range []float64{0.25, 0.5, 1, 2, 4, 8} {
		color := "#ddd"
		if v == 1 {
			color = "#222"
		}
		fmt.Fprintf(&grid, `<line x1="%.1f" x2="%.1f" y1="32" y2="%.1f" stroke="%s"/><text x="%.1f" y="26" text-anchor="middle">%g×</text>`+"\n", x(v), x(v), y, color, x(v), v)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="white"/>
<text x="8" y="14">forebay, times as fast as raw RocksDB (grey) and Kafka Streams (blue); %d rows, %d rounds</text>
%s%s</svg>
`, left+width+60, y+10, r.Rows, r.Rounds, grid.String(), body.String())
}
