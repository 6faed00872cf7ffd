package migration

// StopAfter moves a few rows at a time, and panics after some slices.
func StopAfter(slices, rows int) DowngradeOption {
	return downgradeOption(func(d *downgrade) {
		d.rows = rows
		d.afterSlice = func() {
			if slices--; slices == 0 {
				panic("interrupted")
			}
		}
	})
}
