// Package bindings is Plumb's native library, plumb.h, for Go: types, lifetimes and errors, no policy.
//
// A Model is an opened GGUF file, a Session a place to score token sequences with it, an Encoder one to embed them. All hold
// native memory and must be closed, the sessions of a model before the model. A Model may be used from several goroutines, a
// Session by one at a time.
package bindings

/*
#include <stdlib.h>
#include "plumb.h"
*/
import "C"

import (
	"errors"
	"strings"
	"unsafe"
)

// Token is an entry of a model's vocabulary.
type Token = int32

// EmbeddingLayer is the layer number of the token embeddings, before any scaling.
const EmbeddingLayer = C.PLUMB_LAYER_EMBEDDING

// MaxSequences is the largest number of continuations that share a batch.
const MaxSequences = C.PLUMB_MAX_SEQUENCES

// Version returns Plumb's version, LlamaVersion that of the llama.cpp inside.
func Version() string { return C.GoString(C.plumb_version()) }

// LlamaVersion returns the version of the llama.cpp that Plumb was built on.
func LlamaVersion() string { return C.GoString(C.plumb_llama_version()) }

// ModelOptions say where a model is placed. The zero value leaves it to llama.cpp.
type ModelOptions struct {
	Devices      []string  // as ggml names them, CPU being the CPU alone; empty: every GPU and RPC server
	RPCServers   []string  // host:port
	TensorSplit  []float32 // share of each device
	GPULayers    *int      // blocks kept off the CPU; nil: all
	Threads      int       // 0: one a core
	PlainWeights bool      // keep the file's layout of weights, as gradients need
}

// Model is an opened GGUF file.
type Model struct {
	c    *C.plumb_model
	path string
}

// OpenModel opens a GGUF file, or the first part of a split one.
func OpenModel(path string, opts ModelOptions) (*Model, error) {
	params := C.plumb_model_params_default()
	free := func(s *C.char) {
		if s != nil {
			C.free(unsafe.Pointer(s))
		}
	}
	if len(opts.Devices) > 0 {
		params.devices = C.CString(strings.Join(opts.Devices, ","))
		defer free(params.devices)
	}
	if len(opts.RPCServers) > 0 {
		params.rpc_servers = C.CString(strings.Join(opts.RPCServers, ","))
		defer free(params.rpc_servers)
	}
	if n := len(opts.TensorSplit); n > 0 {
		split := C.malloc(C.size_t(n) * C.size_t(unsafe.Sizeof(C.float(0))))
		defer C.free(split)
		copy(unsafe.Slice((*float32)(split), n), opts.TensorSplit)
		params.tensor_split, params.n_tensor_split = (*C.float)(split), C.int32_t(n)
	}
	if opts.GPULayers != nil {
		params.n_gpu_layers = C.int32_t(*opts.GPULayers)
	}
	params.n_threads = C.int32_t(opts.Threads)
	params.plain_weights = C.bool(opts.PlainWeights)

	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var e C.plumb_error
	c := C.plumb_model_open(name, &params, &e)
	if c == nil {
		return nil, errorOf(&e)
	}
	return &Model{c: c, path: path}, nil
}

// Close frees the model. Its sessions must be closed before.
func (m *Model) Close() {
	C.plumb_model_free(m.c)
	m.c = nil
}

// ModelInfo is what a file says of its model.
type ModelInfo struct {
	Architecture string
	Description  string // llama.cpp's own, with size and quantisation
	Layers       int
	Width        int // of the residual stream
	Vocabulary   int // tokens; the model has no tokeniser if HasVocabulary is false
	Context      int // tokens that it was trained on
	Parameters   uint64
	Bytes        uint64 // of all tensors

	HasVocabulary bool
	AddsBOS       bool
	IsEncoder     bool   // for an Encoder, not a Session
	AsFloats      bool   // on the CPU its sessions compute as those of its copy in F32 do, to the last bit
	Threads       int    // CPU threads that its sessions compute with
	Devices       string // what its blocks are kept on, for a person
}

// Info describes the model.
func (m *Model) Info() ModelInfo {
	var i C.plumb_model_info
	C.plumb_model_get_info(m.c, &i)
	return ModelInfo{
		Architecture: C.GoString(&i.architecture[0]), Description: C.GoString(&i.description[0]),
		Layers: int(i.n_layer), Width: int(i.n_embd), Vocabulary: int(i.n_vocab), Context: int(i.n_ctx_train),
		Parameters: uint64(i.n_params), Bytes: uint64(i.n_bytes),
		HasVocabulary: bool(i.has_vocab), AddsBOS: bool(i.adds_bos), IsEncoder: bool(i.is_encoder),
		AsFloats: bool(i.as_floats), Threads: int(i.n_threads), Devices: C.GoString(&i.devices[0]),
	}
}

// Metadata returns the value of a GGUF key as text; ok is false where the file has no such key.
func (m *Model) Metadata(key string) (value string, ok bool) {
	k := C.CString(key)
	defer C.free(unsafe.Pointer(k))
	n := C.plumb_model_meta(m.c, k, nil, 0)
	if n < 0 {
		return "", false
	}
	buf := make([]byte, int(n)+1)
	C.plumb_model_meta(m.c, k, (*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf)))
	return string(buf[:n]), true
}

// ChatTemplate returns the chat template inside the file, "" if there is none.
func (m *Model) ChatTemplate() string {
	return C.GoString(C.plumb_model_chat_template(m.c))
}

// ChatPrompt renders a conversation that holds one message of the user and opens the model's answer.
func (m *Model) ChatPrompt(user string) (string, error) {
	u := C.CString(user)
	defer C.free(unsafe.Pointer(u))
	buf := make([]byte, 4*len(user)+4096)
	for {
		var n C.size_t
		var e C.plumb_error
		if C.plumb_chat_prompt(m.c, u, (*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf)), &n, &e) != C.PLUMB_OK {
			return "", errorOf(&e)
		}
		if int(n) <= len(buf) {
			return string(buf[:n]), nil
		}
		buf = make([]byte, n)
	}
}

// Tokenize splits text into tokens. addSpecial adds the BOS that the model asks for, and an encoder's closing token;
// parseSpecial reads the spelling of special tokens as these tokens.
func (m *Model) Tokenize(text string, addSpecial, parseSpecial bool) ([]Token, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("the text holds a zero byte")
	}
	t := C.CString(text)
	defer C.free(unsafe.Pointer(t))
	tokens := make([]Token, len(text)/2+8)
	for {
		var n C.int32_t
		var e C.plumb_error
		status := C.plumb_tokenize(m.c, t, C.size_t(len(text)), C.bool(addSpecial), C.bool(parseSpecial),
			(*C.int32_t)(&tokens[0]), C.int32_t(len(tokens)), &n, &e)
		if status != C.PLUMB_OK {
			return nil, errorOf(&e)
		}
		if int(n) <= len(tokens) {
			return tokens[:n], nil
		}
		tokens = make([]Token, n)
	}
}

// TokenText returns the text of a token.
func (m *Model) TokenText(token Token) string {
	var buf [512]byte
	n := C.plumb_token_text(m.c, C.int32_t(token), (*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf)))
	return string(buf[:min(int(n), len(buf))])
}

// SelfTest is what a few tokens tell about whether Plumb works on a model.
type SelfTest struct {
	HooksFire       bool    `json:"hooks_fire"`       // every block's output and the embeddings appear exactly once a graph
	TrieMatches     bool    `json:"trie_matches"`     // scores by token trie equal scores alone, as far as any two batches agree
	TrieDifference  float32 `json:"trie_difference"`  // the largest difference between trie and alone, in log-probability
	GraphDifference float32 `json:"graph_difference"` // the same between one graph and graphs of four rows
	Reason          string  `json:"reason,omitempty"` // why, where one of them is false
}

// SelfTest runs a few tokens through the model.
func (m *Model) SelfTest() (SelfTest, error) {
	var r C.plumb_self_test
	var e C.plumb_error
	if C.plumb_model_self_test(m.c, &r, &e) != C.PLUMB_OK {
		return SelfTest{}, errorOf(&e)
	}
	return SelfTest{
		HooksFire: bool(r.hooks_fire), TrieMatches: bool(r.trie_matches),
		TrieDifference: float32(r.trie_difference), GraphDifference: float32(r.graph_difference),
		Reason: C.GoString(&r.reason[0]),
	}, nil
}
