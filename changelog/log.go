package changelog

import (
	"context"
	"log/slog"
)

func orSilent(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// warnings is slog's default logger without what is below a warning.
func warnings() *slog.Logger { return slog.New(warningsOnly{slog.Default().Handler()}) }

type warningsOnly struct{ slog.Handler }

func (w warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warningsOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningsOnly{w.Handler.WithAttrs(attrs)}
}

func (w warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{w.Handler.WithGroup(name)}
}
