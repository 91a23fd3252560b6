package stats_test

import (
	"fmt"

	"plumb/audit/stats"
)

// Nine of ten items, and ten items whose answer changed between two runs: eight one way, two the other.
func Example() {
	low, high, ok := stats.Wilson(9, 10)
	fmt.Printf("%.3f to %.3f, %v\n", low, high, ok)
	fmt.Printf("exact p = %.4f\n", stats.NewMcNemar(8, 2).Exact)
	_, _, ok = stats.Wilson(0, 0)
	fmt.Printf("of no items: %v\n", ok)
	// Output:
	// 0.596 to 0.982, true
	// exact p = 0.1094
	// of no items: false
}
