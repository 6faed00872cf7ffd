package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever ends the driver, whoever waits for an answer is told why.
func TestDriverEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		says   []string
	}{
		"not an answer":       {`read x; echo '[warning] no threads'; sleep 60`, []string{"[warning] no threads", "invalid character", "killed"}},
		"of no application":   {`read x; echo '{"app":"other","closed":true}'; sleep 60`, []string{"an application that was not started"}},
		"exit":                {`read x; echo 'out of memory' >&2; exit 3`, []string{"exit status 3", "out of memory", "EOF"}},
		"in the middle":       {`read x; printf '{"app":"a","ans'; kill -9 $$`, []string{"killed", "EOF"}},
		"the run's own fault": {`read x; echo '{"app":"a","failed":"no such store"}'; sleep 1`, []string{"Kafka Streams: no such store"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := startProcess(t, exec.Command("bash", "-c", c.script))
			_, _, err := d.run(kafkaRun{App: "a"})
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
	d := startProcess(t, exec.Command("true"))
	<-d.gone
	_, _, err := d.run(kafkaRun{App: "a"})
	require.ErrorContains(t, err, "the JVM has ended (exit status 0)")
}
