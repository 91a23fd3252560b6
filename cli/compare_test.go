package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"plumb/audit/record"
)

// runOf writes a run of one model's choices, a letter an ambiguous item.
func runOf(t *testing.T, name, model, choices string, steering *record.Steering) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	w, err := record.Create(dir, record.Run{Benchmark: "bbq", Model: record.Model{Name: model + ".gguf", SHA256: strings.Repeat(model, 12)}, Steering: steering, Items: len(choices)})
	if err != nil {
		t.Fatal(err)
	}
	for i, choice := range choices {
		item := record.Record{Index: i, ID: fmt.Sprintf("Age/%d", i), Category: "Age", Template: "Age/1", Condition: record.Ambiguous, Label: 2, Text: "Who?"}
		for k, role := range []record.Role{record.Biased, record.Anti, record.Unknown} {
			score := float32(-3 - k)
			if byte(choice) == "SAU"[k] {
				score = -1
			}
			item.Options = append(item.Options, record.NewOption("answer", role, []float32{score}))
		}
		if err := w.Append([]record.Record{item}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func runCommand(command *cli.Command, arguments ...string) (out, notes string, err error) {
	var outBuffer, notesBuffer bytes.Buffer
	app := &cli.App{Name: "plumb", Commands: []*cli.Command{command}, Writer: &outBuffer, ErrWriter: &notesBuffer,
		ExitErrHandler: func(*cli.Context, error) {}}
	err = app.Run(append([]string{"plumb", command.Name}, arguments...))
	return outBuffer.String(), notesBuffer.String(), err
}

func TestCompare(t *testing.T) {
	steering := &record.Steering{Name: "age.gguf", Method: "gcd", Operator: "project", Layers: []int{19}, Strength: 8}
	base := runOf(t, "base", "a", "SSSSSAAAAU", nil)
	gcd := runOf(t, "gcd", "a", "SSSUUUUAAU", steering)
	page := filepath.Join(t.TempDir(), "page.html")

	out, _, err := runCommand(compareCommand(), base, gcd, "--bootstrap", "20", "--html", page)
	if err != nil {
		t.Fatal(err)
	}
	// Pr(S) 0.5 → 0.3; Pr(U) 0.1 → 0.5; dpref 5/9 → 0.6.
	for _, want := range []string{"gcd against base", "Age −0.200", "−0.222", "+0.022", "gcd (age.gguf), project, layer 19, strength 8", "Report: " + page} {
		if !strings.Contains(tableWords(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if data, err := os.ReadFile(page); err != nil || !bytes.Contains(data, []byte("</html>")) {
		t.Errorf("the page: %v", err)
	}

	out, _, err = runCommand(compareCommand(), "--json", base, gcd)
	var parsed struct {
		Comparisons []struct{ Items int }
		Summary     []struct {
			Share struct{ Value float64 } `json:"composition_share"`
		}
	}
	if err := cmpError(err, json.Unmarshal([]byte(out), &parsed)); err != nil || parsed.Comparisons[0].Items != 10 || parsed.Summary[0].Share.Value < 1.1 {
		t.Errorf("%v, %+v", err, parsed)
	}

	// Two models make one table.
	other, otherGCD := runOf(t, "other", "b", "SSAAU", nil), runOf(t, "other-gcd", "b", "SAAAU", steering)
	out, _, err = runCommand(compareCommand(), base, gcd, other, otherGCD, "--markdown")
	if err != nil || !strings.Contains(out, "2 interventions") || !strings.Contains(out, "## other-gcd against other") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCompareRefuses(t *testing.T) {
	base, other := runOf(t, "base", "a", "SSAU", nil), runOf(t, "other", "b", "SSAU", nil)
	for _, test := range []struct {
		arguments []string
		want      string
		status    int
	}{
		{nil, "at least one steered run", exitUsage},
		{[]string{base}, "at least one steered run", exitUsage},
		{[]string{base, base, "--json", "--csv"}, "exclude each other", exitUsage},
		{[]string{base, base, "--read-out", "loud"}, "--read-out", exitUsage},
		{[]string{base, other}, "no other run of that model follows it", exitFailed},
		{[]string{base, filepath.Join(base, "nowhere")}, "no such file", exitFailed},
		{[]string{base, runOf(t, "longer", "a", "SSAUS", nil)}, "1 item that base does not have", exitFailed},
		{[]string{base, base, "--html", filepath.Join(base, "no", "page.html")}, "no such file", exitFailed},
	} {
		out, _, err := runCommand(compareCommand(), test.arguments...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || ExitStatus(err) != test.status || out != "" {
			t.Errorf("%q: error %v (status %d), output %q; it should say %q", test.arguments, err, ExitStatus(err), out, test.want)
		}
	}
}
