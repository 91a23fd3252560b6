package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plumb/audit/corpus"
)

// translatingServer is an OpenAI-compatible endpoint that answers with the text in capitals. before, where it is there, may
// do something else with the n-th request for a prompt, counted from 1, and says whether it did.
type translatingServer struct {
	*httptest.Server
	before func(w http.ResponseWriter, prompt string, n int) bool

	mutex    sync.Mutex
	asked    map[string]int // requests, by prompt
	answered map[string]int // whole answers
	key      string         // of the last request
	body     string
}

func newTranslatingServer(t *testing.T, before func(w http.ResponseWriter, prompt string, n int) bool) *translatingServer {
	s := &translatingServer{before: before, asked: map[string]int{}, answered: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *translatingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model       string
		Temperature *float64
		Messages    []struct{ Role, Content string }
	}
	if err := json.Unmarshal(body, &request); err != nil || len(request.Messages) != 1 || request.Temperature == nil || *request.Temperature != 0 || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "not what an endpoint takes", http.StatusTeapot)
		return
	}
	prompt := request.Messages[0].Content
	s.mutex.Lock()
	s.asked[prompt]++
	n := s.asked[prompt]
	s.key, s.body = r.Header.Get("Authorization"), string(body)
	s.mutex.Unlock()
	if s.before != nil && s.before(w, prompt, n) {
		return
	}
	_, text, _ := strings.Cut(prompt, "Text: ")
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(completion(strings.ToUpper(text)))
	if err == nil {
		s.mutex.Lock()
		s.answered[prompt]++
		s.mutex.Unlock()
	}
}

func completion(text string) []byte {
	content, _ := json.Marshal(text)
	return fmt.Appendf(nil, `{"id":"x","object":"chat.completion","created":1,"model":"stub","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}]}`, content)
}

func (s *translatingServer) requests() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n := 0
	for _, k := range s.asked {
		n += k
	}
	return n
}

func breakOff(w http.ResponseWriter, part []byte) {
	w.Header().Set("Content-Length", "5000")
	_, _ = w.Write(part)
	_ = http.NewResponseController(w).Flush()
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// sentences are n texts, and a file of them.
func sentences(t *testing.T, n int) ([]corpus.Sentence, string) {
	t.Helper()
	var list []corpus.Sentence
	for i := range n {
		list = append(list, corpus.Sentence{ID: fmt.Sprintf("t/%d", i), AAE: fmt.Sprintf("she be workin late number %d", i)})
	}
	path := filepath.Join(t.TempDir(), "clean.jsonl")
	if err := corpus.WriteJSONLines(path, list); err != nil {
		t.Fatal(err)
	}
	return list, path
}

// translation is a translation by the server that pauses hardly at all between retries.
func translation(t *testing.T, s *translatingServer, options endpointOptions, dir string, resume bool) *corpus.Translation {
	t.Helper()
	options.url, options.model = s.URL+"/v1", "stub"
	e := options.open(100)
	e.firstPause = time.Millisecond
	toSAE, err := corpus.ReadPrompt("", corpus.DefaultToSAE)
	if err != nil {
		t.Fatal(err)
	}
	toAAE, err := corpus.ReadPrompt("", corpus.DefaultToAAE)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := corpus.OpenJournal(filepath.Join(dir, answersFile), resume)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	return &corpus.Translation{
		Translator: e, Model: "stub", ToSAE: toSAE, ToAAE: toAAE, Journal: journal, Concurrency: options.concurrency,
		Stopped: func() bool { return false }, Progress: func(int) {},
	}
}

// wholeTranslation checks that every text has its triplet, in order.
func wholeTranslation(t *testing.T, texts []corpus.Sentence, triplets []corpus.Triplet) {
	t.Helper()
	if len(triplets) != len(texts) {
		t.Fatalf("%d triplets of %d texts", len(triplets), len(texts))
	}
	for i, s := range texts {
		upper := strings.ToUpper(s.AAE)
		if triplets[i] != (corpus.Triplet{ID: s.ID, AAE: s.AAE, SAE: upper, AAEBack: upper}) {
			t.Errorf("text %d became %+v", i, triplets[i])
		}
	}
}

// TestTranslateThroughFailures: a server that fails, limits, breaks answers off, answers without a choice, with garbage and
// too slowly is asked until every text has an answer, and never after its answer.
func TestTranslateThroughFailures(t *testing.T) {
	var slow atomic.Int32
	faults := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) },
		func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
		},
		func(w http.ResponseWriter) { breakOff(w, completion("half of it")[:60]) },
		func(w http.ResponseWriter) { breakOff(w, nil) },
		func(w http.ResponseWriter) { // twice too slow; more would make the test slow
			if slow.Add(1) <= 2 {
				time.Sleep(4 * time.Second)
			}
			breakOff(w, nil)
		},
		func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"choices":[]}`)) },
		func(w http.ResponseWriter) { http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway) },
	}
	var mutex sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		mutex.Lock()
		fault := random.IntN(2 * len(faults)) // half of the requests go wrong
		mutex.Unlock()
		if n > 6 || fault >= len(faults) {
			return false
		}
		faults[fault](w)
		return true
	})
	texts, _ := sentences(t, 60)
	dir := t.TempDir()
	options := endpointOptions{concurrency: 8, retries: 8, timeout: 3 * time.Second}
	tr := translation(t, s, options, dir, false)
	result, err := tr.Run(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	wholeTranslation(t, texts, result.Triplets)
	if s.requests() < 180 || result.Attempts != s.requests() || result.Asked != 120 || result.Failed() != 0 {
		t.Errorf("%d requests were sent; %+v", s.requests(), result)
	}
	for prompt, n := range s.answered {
		if n != 1 {
			t.Errorf("%q was answered %d times", prompt, n)
		}
	}

	// all of it again asks for nothing
	before := s.requests()
	tr.Journal.Close()
	again, err := translation(t, s, options, dir, true).Run(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	wholeTranslation(t, texts, again.Triplets)
	if s.requests() != before || again.Reused != 120 || again.Asked != 0 {
		t.Errorf("%d requests were sent again; %+v", s.requests()-before, again)
	}
}

// TestTranslateRefusals: a text that the endpoint refuses is left out and asked for once; one that always fails is reported.
func TestTranslateRefusals(t *testing.T) {
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		switch {
		case strings.HasSuffix(prompt, "number 3"):
			http.Error(w, `{"error":{"message":"content\nfiltered"}}`, http.StatusBadRequest)
		case strings.HasSuffix(prompt, "number 5"):
			http.Error(w, "out of order", http.StatusServiceUnavailable)
		case strings.HasSuffix(prompt, "NUMBER 6"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"choices":[{"finish_reason":"content_filter","message":{"role":"assistant","content":""}}]}`))
		default:
			return false
		}
		return true
	})
	texts, _ := sentences(t, 8)
	result, err := translation(t, s, endpointOptions{concurrency: 2, retries: 2, timeout: 10 * time.Second}, t.TempDir(), false).Run(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Triplets) != 5 || len(result.Failures) != 3 || result.Failed() != 1 {
		t.Fatalf("%+v", result)
	}
	for i, want := range []corpus.Failure{
		{ID: "t/3", Step: "sae", Refused: true, Error: "400 content filtered"},
		{ID: "t/5", Step: "sae", Error: "asked 3 times: 503 Service Unavailable"},
		{ID: "t/6", Step: "aae_back", Refused: true, Error: "the endpoint's filter keeps the answer back"},
	} {
		if result.Failures[i] != want {
			t.Errorf("failure %+v, want %+v", result.Failures[i], want)
		}
	}
	if n := s.requests(); n != 1+3+2+5*2 {
		t.Errorf("%d requests", n)
	}
}

// TestTranslateLimits: a server that asks to wait is left alone as long, and --rate holds back requests.
func TestTranslateLimits(t *testing.T) {
	var first time.Time
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		if n > 1 || !strings.HasSuffix(prompt, "number 0") {
			return false
		}
		first = time.Now()
		w.Header().Set("Retry-After", "0.3")
		http.Error(w, "later", http.StatusTooManyRequests)
		return true
	})
	texts, _ := sentences(t, 1)
	if _, err := translation(t, s, endpointOptions{concurrency: 1, retries: 1, timeout: 10 * time.Second}, t.TempDir(), false).Run(context.Background(), texts); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(first); waited < 300*time.Millisecond {
		t.Errorf("asked again after %v, where the server wanted 300 ms", waited)
	}
	texts, _ = sentences(t, 4)
	start := time.Now()
	if _, err := translation(t, s, endpointOptions{concurrency: 4, rate: 60 * 20, timeout: 10 * time.Second}, t.TempDir(), false).Run(context.Background(), texts); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 350*time.Millisecond {
		t.Errorf("8 requests at 20 a second took %v", took)
	}
}

// TestTranslateKeyStaysSecret: the key is sent, and stands in no file, note or error, even if the server repeats it.
func TestTranslateKeyStaysSecret(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	t.Setenv("TEST_ENDPOINT_KEY", key)
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		if strings.HasSuffix(prompt, "number 1") && n == 1 {
			http.Error(w, `{"error":{"message":"the key `+key+` may not say this"}}`, http.StatusBadRequest)
			return true
		}
		return false
	})
	_, path := sentences(t, 3)
	dir := filepath.Join(t.TempDir(), "out")
	arguments := []string{"corpus", "translate", path, "--endpoint", s.URL + "/v1", "--endpoint-model", "stub", "--key-variable", "TEST_ENDPOINT_KEY", "--out", dir}
	out, notes := mustPlumb(t, arguments...)
	if s.key != "Bearer "+key {
		t.Errorf("the server got the key %q", s.key)
	}
	contains(t, tableWords(out), "Translated there and back 2", "Refused by the translator 1")
	texts := []string{out, notes}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	for _, text := range texts {
		if strings.Contains(text, key) {
			t.Errorf("the key stands in %s", text)
		}
	}
	contains(t, strings.Join(texts, ""), "(the key)")

	s.before = func(w http.ResponseWriter, prompt string, n int) bool {
		http.Error(w, `{"error":{"message":"wrong key `+key+`"}}`, http.StatusUnauthorized)
		return true
	}
	requests := s.requests()
	_, _, err = plumb(append(arguments, "--resume")...)
	refused(t, err, 1, "the endpoint does not serve us: 401 wrong key (the key)", "2 of 3 texts translated; the same command with --resume goes on")
	if n := s.requests() - requests; n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestTranslateKilled: a program that is killed while answers come, again and again, asks for none of the kept answers twice.
func TestTranslateKilled(t *testing.T) {
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		time.Sleep(5 * time.Millisecond)
		return false
	})
	texts, path := sentences(t, 60)
	dir := filepath.Join(t.TempDir(), "out")
	arguments := []string{"corpus", "translate", path, "--endpoint", s.URL + "/v1", "--endpoint-model", "stub", "--out", dir, "--concurrency", "3", "--resume"}
	kept := func() int {
		data, _ := os.ReadFile(filepath.Join(dir, answersFile))
		return strings.Count(string(data), "\n")
	}
	for kills := 1; kills <= 3; kills++ {
		cmd := process(arguments...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(120 * time.Second); kept() < 25*kills && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if n := kept(); n < 25*kills || n >= 120 {
			t.Fatalf("killed with %d answers", n)
		}
	}
	// what a kill in the middle of a line leaves
	journal, err := os.OpenFile(filepath.Join(dir, answersFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = journal.WriteString(`{"id":"t/59","step":"sae","mod`)
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, s0 := kept(), s.requests()
	_, notes := mustPlumb(t, arguments...)
	contains(t, notes, fmt.Sprintf("going on after %d answers", before))
	if asked := s.requests() - s0; asked != 120-before {
		t.Errorf("%d requests for the %d answers that were not kept", asked, 120-before)
	}
	triplets, err := corpus.ReadTriplets(filepath.Join(dir, tripletsFile))
	if err != nil {
		t.Fatal(err)
	}
	wholeTranslation(t, texts, triplets)
	// an answer can be asked for twice only if it was under way when the program was killed
	if n := s.requests(); n > 120+3*3 {
		t.Errorf("%d requests for 120 answers and three kills of three requests each", n)
	}
}

func TestTranslateStopsWhenNothingWorks(t *testing.T) {
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		http.Error(w, `{"error":{"message":"no such parameter"}}`, http.StatusBadRequest)
		return true
	})
	texts, _ := sentences(t, 100)
	result, err := translation(t, s, endpointOptions{concurrency: 1, timeout: 10 * time.Second}, t.TempDir(), false).Run(context.Background(), texts)
	if err == nil || !strings.Contains(err.Error(), "12 texts in a row failed, the last, t/11: 400 no such parameter") || s.requests() != 12 || result.Left < 87 {
		t.Errorf("%v after %d requests, %d left", err, s.requests(), result.Left)
	}
}

// TestTranslateSaysWhatTheEndpointSaid: the first failure is named where the command ends, in words that help.
func TestTranslateSaysWhatTheEndpointSaid(t *testing.T) {
	for _, c := range []struct{ kind, answer, want string }{
		{"text/html", "<html>hello</html>", "the answer is no JSON; --endpoint is the address that /chat/completions follows"},
		{"application/json", `{"error":{"message":"overloaded"}}`, `answered without a choice: {"error":{"message":"overloaded"}}`},
	} {
		s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
			w.Header().Set("Content-Type", c.kind)
			_, _ = w.Write([]byte(c.answer))
			return true
		})
		_, path := sentences(t, 2)
		earlier := testFile(t, tripletsFile, "precious\n")
		_, _, err := plumb("corpus", "translate", path, "--endpoint", s.URL+"/v1", "--endpoint-model", "stub", "--retries", "0", "--out", filepath.Dir(earlier))
		refused(t, err, 1, "2 texts failed, see ", "(the first, t/0: asked 1 times: ", c.want)
		if data, _ := os.ReadFile(earlier); string(data) != "precious\n" {
			t.Errorf("the triplets became %q", data)
		}
	}
}

func TestTranslateCountsEmptyAnswers(t *testing.T) {
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		if !strings.HasSuffix(prompt, "number 1") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(completion(" \n"))
		return true
	})
	_, path := sentences(t, 3)
	out, _ := mustPlumb(t, "corpus", "translate", path, "--endpoint", s.URL+"/v1", "--endpoint-model", "stub", "--out", t.TempDir())
	contains(t, tableWords(out), "Empty answers 1")
}

// TestTranslateInterruptedWhileItWaits: Ctrl-C ends the wait that an endpoint asked for, which may be an hour.
func TestTranslateInterruptedWhileItWaits(t *testing.T) {
	asked := make(chan struct{}, 10)
	s := newTranslatingServer(t, func(w http.ResponseWriter, prompt string, n int) bool {
		w.Header().Set("Retry-After", "3000")
		http.Error(w, "later", http.StatusTooManyRequests)
		asked <- struct{}{}
		return true
	})
	_, path := sentences(t, 1)
	cmd := process("corpus", "translate", path, "--endpoint", s.URL+"/v1", "--endpoint-model", "stub", "--out", t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	time.Sleep(100 * time.Millisecond) // until the answer is read
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	_ = cmd.Wait()
	if want := "plumb: interrupted; 0 of 1 text translated; the same command with --resume goes on\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

// TestTranslationThatCannotBeWritten: whatever could not be written, the answers that were kept are not asked for again.
func TestTranslationThatCannotBeWritten(t *testing.T) {
	options := &corpusTranslateOptions{out: filepath.Join(t.TempDir(), "missing")}
	for _, c := range []struct {
		ended error
		want  string
	}{{nil, "no such file"}, {errors.New("an answer cannot be kept"), "an answer cannot be kept"}} {
		err := finishTranslation(options, &corpus.Translated{Texts: 2}, c.ended, false, io.Discard)
		refused(t, err, 1, c.want, "0 of 2 texts translated; the same command with --resume goes on")
	}
}

func TestTranslateOtherPromptIsAskedFor(t *testing.T) {
	s := newTranslatingServer(t, nil)
	_, path := sentences(t, 2)
	prompt := filepath.Join(t.TempDir(), "prompt.txt")
	if err := os.WriteFile(prompt, []byte("In plain English.\nText: {{.Text}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	arguments := []string{"corpus", "translate", path, "--endpoint", s.URL + "/v1", "--endpoint-model", "stub", "--out", dir}
	mustPlumb(t, arguments...)
	_, _, err := plumb(arguments...)
	refused(t, err, 1, answersFile+" holds 4 answers already; go on after them by --resume")
	mustPlumb(t, append(arguments, "--resume", "--to-sae", prompt)...)
	if n := s.requests(); n != 4+2 { // SAE anew; it came out the same, so AAE_back is there
		t.Errorf("%d requests", n)
	}
}

func TestTranslateLocally(t *testing.T) {
	_, path := sentences(t, 2)
	model := tinyModelFile(t, tinyModel{seed: 2})
	dir := filepath.Join(t.TempDir(), "out")
	arguments := []string{"corpus", "translate", path, "--model", model, "--threads", "1", "--max-tokens", "8", "--out", dir}
	out, _ := mustPlumb(t, arguments...)
	contains(t, tableWords(out), "Translator tiny.gguf (SHA-256 ", "Texts 2")
	first, err := os.ReadFile(filepath.Join(dir, tripletsFile))
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "out")
	mustPlumb(t, append(arguments[:len(arguments)-1], again)...)
	second, err := os.ReadFile(filepath.Join(again, tripletsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(first) == 0 || !slices.Equal(first, second) {
		t.Errorf("the same model translated\n%s\nand\n%s", first, second)
	}
}

func TestTranslateUsage(t *testing.T) {
	_, path := sentences(t, 1)
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{nil, "who translates?"},
		{[]string{"--model", "a", "--endpoint", "http://b"}, "who translates?"},
		{[]string{"--endpoint", "b/v1"}, "--endpoint takes a URL such as"},
		{[]string{"--endpoint", "http://me:secret@b/v1"}, "without a password"},
		{[]string{"--endpoint", "http://b/v1"}, "--endpoint-model NAME"},
		{[]string{"--endpoint", "http://b/v1", "--endpoint-model", "m", "--concurrency", "0"}, "--concurrency 0"},
		{[]string{"--endpoint", "http://b/v1", "--endpoint-model", "m", "--timeout", "0s"}, "--timeout 0s"},
	} {
		_, _, err := plumb(append([]string{"corpus", "translate", path, "--out", t.TempDir()}, c.arguments...)...)
		refused(t, err, 2, c.want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password stands in %q", err)
		}
	}
}
