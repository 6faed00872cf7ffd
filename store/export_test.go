package store

var (
	ReadVarint   = readVarint
	AppendVarint = appendVarint
	JavaKey      = javaKey
)
