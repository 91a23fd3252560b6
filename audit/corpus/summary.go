package corpus

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Summary says what a stage did. The facts are for people, on the terminal and in a data card.
type Summary struct {
	Stage   string `json:"stage"`
	Facts   []Fact `json:"facts"`
	Details any    `json:"details"` // the same and more for programs
}

// Fact is a name with its value in words.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(s)
}

// SummaryPath is where the summary of a stage lies that wrote the file path.
func SummaryPath(path string) string {
	for _, suffix := range []string{".jsonl", ".json", ".csv"} {
		path = strings.TrimSuffix(path, suffix)
	}
	return path + ".summary.json"
}

// WriteFile writes the summary beside the file that the stage wrote.
func (s *Summary) WriteFile(output string) error {
	return WriteFile(SummaryPath(output), s.WriteJSON)
}

// ReadSummary reads a summary's stage and facts.
func ReadSummary(path string) (*Summary, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	var s Summary
	if err := json.Unmarshal(data, &s); err != nil || s.Stage == "" {
		return nil, fmt.Errorf("%s: not the summary of a stage; every stage writes one beside its output, named .summary.json", path)
	}
	return &s, nil
}
