// Package shared finds the published data sets that some tests run on. They are no part of the repository.
package shared

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Data returns the folder shared/data/name beside the repository, and skips the test where there is none.
func Data(tb testing.TB, name string) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("no caller information")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	dir := filepath.Join(filepath.Dir(root), "shared", "data", name)
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("the published data set is not here: %s", dir)
	}
	return dir
}
