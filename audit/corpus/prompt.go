package corpus

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// DefaultToSAE and DefaultToAAE are the prompts that are used where the user names none.
var (
	//go:embed prompts/to_sae.txt
	DefaultToSAE string
	//go:embed prompts/to_aae.txt
	DefaultToAAE string
)

// Prompt asks for the translation of a text: a Go text/template over {{.Text}}.
type Prompt struct {
	Template string
	SHA256   string // of Template
	parsed   *template.Template
}

// ReadPrompt reads a prompt from a file; it takes the default if path is empty.
func ReadPrompt(path, defaultPrompt string) (*Prompt, error) {
	name, text := "prompt", defaultPrompt
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, pathError(path, err)
		}
		name, text = path, string(data)
	}
	parsed, err := template.New(name).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: not a Go text/template: %w", name, err)
	}
	hash := sha256.Sum256([]byte(text))
	p := &Prompt{text, hex.EncodeToString(hash[:]), parsed}
	const probe = "she be workin"
	if rendered, err := p.Render(probe); err != nil {
		return nil, err
	} else if !strings.Contains(rendered, probe) {
		return nil, fmt.Errorf("%s: the prompt does not hold the text; write {{.Text}} where it belongs", name)
	}
	return p, nil
}

// Render returns the prompt for a text.
func (p *Prompt) Render(text string) (string, error) {
	var out strings.Builder
	if err := p.parsed.Execute(&out, struct{ Text string }{text}); err != nil {
		return "", fmt.Errorf("%s: %w", p.parsed.Name(), err)
	}
	return strings.TrimSpace(out.String()), nil
}
