package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// gridFile writes a grid of the fitted files beside them.
func gridFile(t *testing.T, files string, grid map[string]any) string {
	t.Helper()
	content, err := json.Marshal(grid)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(files, "grid.json")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The rows of a grid are those of the audits one by one, up to the rounding of a batch computed otherwise.
func TestAuditGrid(t *testing.T) {
	model := tinyModelFile(t, tinyModel{seed: 1})
	files := fittedFiles(t, model)
	grid := gridFile(t, files, map[string]any{"steer": []string{"contrast.gguf", "stratified.gguf"}, "layers": []int{0, 1}, "strengths": []float64{0, 8}})
	asked := []string{"audit", "bbq", "--threads", "1", "--model", model, "--sample", "24", "--prompt", files + ".prompt", "--bootstrap", "5", "--json"}
	dir := filepath.Join(t.TempDir(), "grid")
	whole, _ := mustPlumb(t, append(asked, "--grid", grid, "--grid", grid, "--out", dir)...) // named twice, it counts once

	type value struct {
		V *float64 `json:"value"`
	}
	type table struct {
		Rows []struct {
			Name  string `json:"name"`
			Items int    `json:"items"`
			PrS   value  `json:"delta_pr_s"`
			PrU   value  `json:"delta_pr_u"`
		} `json:"summary"`
	}
	var got table
	if err := json.Unmarshal([]byte(whole), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 8 {
		t.Fatalf("%d rows: %s", len(got.Rows), whole)
	}
	if again, _ := mustPlumb(t, "compare", dir, "--bootstrap", "5", "--json"); again != whole {
		t.Errorf("plumb compare prints something else: %s", again)
	}

	base, alone := filepath.Join(t.TempDir(), "base"), filepath.Join(t.TempDir(), "alone")
	mustPlumb(t, append(asked, "--out", base)...)
	mustPlumb(t, append(asked, "--steer", filepath.Join(files, "contrast.gguf"), "--layer", "1", "--alpha", "8", "--out", alone)...)
	var one table
	compared, _ := mustPlumb(t, "compare", base, alone, "--bootstrap", "5", "--json")
	if err := json.Unmarshal([]byte(compared), &one); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, row := range got.Rows {
		switch row.Name {
		case "contrast, layer 0, project 0", "stratified, layer 1, project 0":
			if *row.PrS.V != 0 || *row.PrU.V != 0 {
				t.Errorf("strength 0 changed something: %+v", row)
			}
		case "contrast, layer 1, project 8":
			found = true
			if *row.PrS.V != *one.Rows[0].PrS.V || *row.PrU.V != *one.Rows[0].PrU.V || row.Items != one.Rows[0].Items {
				t.Errorf("of the grid %+v, alone %+v", row, one.Rows[0])
			}
		}
	}
	if !found {
		t.Error("a row is missing")
	}
}

func TestAuditGridRefuses(t *testing.T) {
	model := tinyModelFile(t, tinyModel{seed: 1})
	files := fittedFiles(t, model)
	grid := gridFile(t, files, map[string]any{"steer": []string{"contrast.gguf"}, "layers": []int{9}, "strengths": []float64{8}})
	_, _, err := plumb("audit", "bbq", "--model", model, "--grid", grid, "--alpha", "2")
	refused(t, err, exitUsage, "--grid and --alpha exclude each other")
	_, _, err = plumb("audit", "bbq", "--model", model, "--grid", grid, "--half", "third")
	refused(t, err, exitUsage, `--half is held-out, fit or all, not "third"`)
	_, _, err = plumb("audit", "bbq", "--model", model, "--grid", grid, "--out", filepath.Join(t.TempDir(), "run"))
	refused(t, err, exitFailed, "there is no layer 9: the model has layers 0 to 1")
	_, _, err = plumb("compare", t.TempDir())
	refused(t, err, exitUsage, "compare takes a base run and at least one steered run; see plumb compare --help")
}
