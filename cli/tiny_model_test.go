package cli

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// tinyModel says what model tinyModelFile writes.
type tinyModel struct {
	seed         uint64
	noVocabulary bool
	chatTemplate string
	context      int // 0: 4096
	layers       int // as the file says; 0: as many as it has
	addsEOS      bool
}

const (
	tinyLayers = 2
	tinyWidth  = 32
	tinyHidden = 64
	tinyHeads  = 4
)

// GGUF's numbers of types.
const (
	ggufUint32  = 4
	ggufInt32   = 5
	ggufFloat32 = 6
	ggufString  = 8
	ggufArray   = 9
)

// tinyModelFile writes a model of the architecture llama with random weights, which takes milliseconds an item, and
// returns its file. Its tokens are characters: the printable ones of ASCII, and bytes for everything else.
func tinyModelFile(t *testing.T, m tinyModel) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, m.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (m tinyModel) bytes() []byte {
	var g gguf
	g.text("general.architecture", "llama")
	context := m.context
	if context == 0 {
		context = 4096
	}
	g.number("llama.context_length", context)
	g.number("llama.embedding_length", tinyWidth)
	g.number("llama.block_count", cmp.Or(m.layers, tinyLayers))
	g.number("llama.feed_forward_length", tinyHidden)
	g.number("llama.attention.head_count", tinyHeads)
	g.float("llama.attention.layer_norm_rms_epsilon", 1e-5)
	tokens, types := tinyVocabulary()
	g.number("llama.vocab_size", len(tokens))
	if m.noVocabulary {
		g.text("tokenizer.ggml.model", "no_vocab")
	} else {
		g.text("tokenizer.ggml.model", "llama")
		g.vocabulary(tokens, types)
		g.bool("tokenizer.ggml.add_space_prefix", false)
		g.bool("tokenizer.ggml.add_eos_token", m.addsEOS)
	}
	if m.chatTemplate != "" {
		g.text("tokenizer.chat_template", m.chatTemplate)
	}

	random := rand.New(rand.NewPCG(m.seed, 0))
	g.matrix(random, "token_embd.weight", tinyWidth, len(tokens))
	g.matrix(random, "output.weight", tinyWidth, len(tokens))
	g.ones("output_norm.weight", tinyWidth)
	for layer := range tinyLayers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, part) }
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			g.matrix(random, name(part), tinyWidth, tinyWidth)
		}
		g.matrix(random, name("ffn_gate"), tinyWidth, tinyHidden)
		g.matrix(random, name("ffn_up"), tinyWidth, tinyHidden)
		g.matrix(random, name("ffn_down"), tinyHidden, tinyWidth)
		g.ones(name("attn_norm"), tinyWidth)
		g.ones(name("ffn_norm"), tinyWidth)
	}
	return g.bytes()
}

// tinyVocabulary returns the tokens, as SentencePiece writes them, and their types: normal, unknown, control or byte.
func tinyVocabulary() (tokens []string, types []uint32) {
	add := func(kind uint32, text string) { tokens, types = append(tokens, text), append(types, kind) }
	add(2, "<unk>")
	add(3, "<s>")
	add(3, "</s>")
	for b := range 256 {
		add(6, fmt.Sprintf("<0x%02X>", b))
	}
	add(1, "▁")
	for c := '!'; c <= '~'; c++ {
		add(1, string(c))
	}
	return tokens, types
}

// gguf is a GGUF file in the making: version 3, little endian.
type gguf struct {
	pairs    []byte
	nPairs   uint64
	tensors  []byte
	nTensors uint64
	data     []byte
}

func appendText(to []byte, text string) []byte {
	to = binary.LittleEndian.AppendUint64(to, uint64(len(text)))
	return append(to, text...)
}

func appendFloat(to []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(to, math.Float32bits(x))
}

func pad(to []byte) []byte { return append(to, make([]byte, (32-len(to)%32)%32)...) }

func (g *gguf) key(key string, kind uint32) {
	g.nPairs++
	g.pairs = binary.LittleEndian.AppendUint32(appendText(g.pairs, key), kind)
}

func (g *gguf) text(key, value string) {
	g.key(key, ggufString)
	g.pairs = appendText(g.pairs, value)
}

func (g *gguf) number(key string, value int) {
	g.key(key, ggufUint32)
	g.pairs = binary.LittleEndian.AppendUint32(g.pairs, uint32(value))
}

func (g *gguf) float(key string, value float32) {
	g.key(key, ggufFloat32)
	g.pairs = appendFloat(g.pairs, value)
}

func (g *gguf) bool(key string, value bool) {
	g.key(key, 7)
	g.pairs = append(g.pairs, map[bool]byte{true: 1}[value])
}

func (g *gguf) array(key string, kind uint32, n int) {
	g.key(key, ggufArray)
	g.pairs = binary.LittleEndian.AppendUint32(g.pairs, kind)
	g.pairs = binary.LittleEndian.AppendUint64(g.pairs, uint64(n))
}

func (g *gguf) vocabulary(tokens []string, types []uint32) {
	g.array("tokenizer.ggml.tokens", ggufString, len(tokens))
	for _, token := range tokens {
		g.pairs = appendText(g.pairs, token)
	}
	g.array("tokenizer.ggml.scores", ggufFloat32, len(tokens))
	for range tokens {
		g.pairs = appendFloat(g.pairs, 0)
	}
	g.array("tokenizer.ggml.token_type", ggufInt32, len(tokens))
	for _, kind := range types {
		g.pairs = binary.LittleEndian.AppendUint32(g.pairs, kind)
	}
}

// tensor adds an F32 tensor, its fastest dimension first.
func (g *gguf) tensor(name string, values []float32, shape ...int) {
	g.nTensors++
	g.tensors = appendText(g.tensors, name)
	g.tensors = binary.LittleEndian.AppendUint32(g.tensors, uint32(len(shape)))
	for _, n := range shape {
		g.tensors = binary.LittleEndian.AppendUint64(g.tensors, uint64(n))
	}
	g.tensors = binary.LittleEndian.AppendUint32(g.tensors, 0)
	g.tensors = binary.LittleEndian.AppendUint64(g.tensors, uint64(len(g.data)))
	for _, x := range values {
		g.data = appendFloat(g.data, x)
	}
	g.data = pad(g.data)
}

func (g *gguf) matrix(random *rand.Rand, name string, columns, rows int) {
	values := make([]float32, columns*rows)
	for i := range values {
		values[i] = float32(random.NormFloat64() / math.Sqrt(float64(columns)))
	}
	g.tensor(name, values, columns, rows)
}

func (g *gguf) ones(name string, n int) {
	values := make([]float32, n)
	for i := range values {
		values[i] = 1
	}
	g.tensor(name, values, n)
}

// head is the file up to its tensors' data.
func (g *gguf) head() []byte {
	out := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	out = binary.LittleEndian.AppendUint64(out, g.nTensors)
	out = binary.LittleEndian.AppendUint64(out, g.nPairs)
	return pad(append(append(out, g.pairs...), g.tensors...))
}

func (g *gguf) bytes() []byte { return append(g.head(), g.data...) }
