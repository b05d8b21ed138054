// Package report is what the Go benches share: the machine, medians with their range, quick runs, a table.
package report

import (
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Quick runs say that a bench runs; their numbers mean little.
func Quick() bool { return slices.Contains(os.Args[1:], "--quick") }

// Rounds of a measurement, of which the median counts.
func Rounds() int {
	if Quick() {
		return 2
	}
	return 9
}

// Machine is what the numbers were made on.
func Machine() string {
	model := "an unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load " + strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%s, %d × %s%s", runtime.Version(), runtime.NumCPU(), model, load)
}

// Each is how many nanoseconds one of count took, in each round. Rounds of several measurements alternate, so that what else the machine
// does falls on all of them. One more goes before, which warms all and does not count.
func Each(count int, all ...func()) [][]float64 {
	found := make([][]float64, len(all))
	for round := range Rounds() + 1 {
		for at, measured := range all {
			runtime.GC()
			began := time.Now()
			measured()
			if took := time.Since(began); round > 0 {
				found[at] = append(found[at], float64(took.Nanoseconds())/float64(count))
			}
		}
	}
	return found
}

// Spread is the median, and the least and the most.
func Spread(values []float64) string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", Median(values), slices.Min(values), slices.Max(values))
}

// Median of the rounds.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Must ends the bench: its numbers would be of something else.
func Must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// Row of a table.
func Row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }
