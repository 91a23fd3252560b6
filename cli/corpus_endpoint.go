package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/urfave/cli/v2"
	"golang.org/x/time/rate"

	"plumb/audit/corpus"
)

// endpointOptions say which OpenAI-compatible endpoint translates, and how hard it may be asked.
type endpointOptions struct {
	url         string
	model       string
	keyVariable string
	concurrency int
	rate        float64
	retries     int
	timeout     time.Duration
}

func (o *endpointOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "endpoint", Usage: "translate by the OpenAI-compatible endpoint `URL`, as http://localhost:8080/v1", Destination: &o.url},
		&cli.StringFlag{Name: "endpoint-model", Usage: "ask the endpoint for the model `NAME`", Destination: &o.model},
		&cli.StringFlag{Name: "key-variable", Usage: "take the endpoint's key from the environment variable `NAME`; it is never written anywhere", Value: "OPENAI_API_KEY", Destination: &o.keyVariable},
		&cli.IntFlag{Name: "concurrency", Usage: "send `N` requests at a time to the endpoint", Value: 4, Destination: &o.concurrency},
		&cli.Float64Flag{Name: "rate", Usage: "send at most `N` requests a minute (0: no limit)", Destination: &o.rate},
		&cli.IntFlag{Name: "retries", Usage: "ask up to `N` times again, ever later, where the endpoint fails, limits or breaks off", Value: 6, Destination: &o.retries},
		&cli.DurationFlag{Name: "timeout", Usage: "wait `TIME` for an answer", Value: 2 * time.Minute, Destination: &o.timeout},
	}
}

func (o *endpointOptions) check() error {
	address, err := url.Parse(o.url)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return usageError("--endpoint takes a URL such as http://localhost:8080/v1 or https://host/v1")
	case address.User != nil || address.RawQuery != "":
		return usageError("--endpoint takes a URL without a password or query; give the key by an environment variable (--key-variable)")
	case o.model == "":
		return usageError("which of the endpoint's models? --endpoint-model NAME")
	case o.concurrency < 1 || o.concurrency > 1000:
		return usageError("--concurrency %d: at least 1, at most 1000", o.concurrency)
	case !(o.rate >= 0 && o.rate < 1e9):
		return usageError("--rate %v: a number of requests is not negative", o.rate)
	case o.retries < 0:
		return usageError("--retries %d: a number of retries is not negative", o.retries)
	case o.timeout <= 0:
		return usageError("--timeout %v: a time above 0", o.timeout)
	}
	return nil
}

// endpoint translates by an OpenAI-compatible endpoint.
type endpoint struct {
	chat       openai.ChatCompletionService
	model      string
	key        string
	maxTokens  int
	retries    int
	limiter    *rate.Limiter
	firstPause time.Duration   // before the first retry
	stopped    <-chan struct{} // closed: ask nothing again
}

// longestPause is the longest that is waited before a request is sent again, unless the endpoint asks for more.
const longestPause = time.Minute

func (o *endpointOptions) open(maxTokens int) *endpoint {
	limit := rate.Inf
	if o.rate > 0 {
		limit = rate.Limit(o.rate / 60)
	}
	key := os.Getenv(o.keyVariable)
	settings := []option.RequestOption{
		option.WithBaseURL(o.url),
		option.WithRequestTimeout(o.timeout),
		option.WithMaxRetries(0), // ours also retry an answer that broke off or took too long
	}
	if key != "" {
		settings = append(settings, option.WithAPIKey(key))
	}
	return &endpoint{
		chat: openai.NewChatCompletionService(settings...), model: o.model, key: key, maxTokens: maxTokens,
		retries: o.retries, limiter: rate.NewLimiter(limit, 1), firstPause: time.Second,
	}
}

// Translate asks until there is an answer, an error that asking again would not change, or no retry left.
func (e *endpoint) Translate(ctx context.Context, prompt string) (corpus.Reply, error) {
	for attempt := 1; ; attempt++ {
		if err := e.limiter.Wait(ctx); err != nil {
			return corpus.Reply{}, err
		}
		reply, err := e.ask(ctx, prompt)
		if err == nil {
			reply.Attempts = attempt
			return reply, nil
		}
		if ctx.Err() != nil {
			return corpus.Reply{}, ctx.Err()
		}
		atLeast, final := e.judge(err)
		if final != nil {
			return corpus.Reply{}, final
		}
		if attempt > e.retries {
			return corpus.Reply{}, fmt.Errorf("asked %d times: %w", attempt, e.inWords(err))
		}
		pause := min(longestPause, e.firstPause<<min(attempt-1, 16))
		pause = max(atLeast, pause/2+rand.N(pause/2+1)) // so that requests do not come back all at once
		select {
		case <-time.After(pause):
		case <-e.stopped:
			return corpus.Reply{}, corpus.ErrStopped
		case <-ctx.Done():
			return corpus.Reply{}, ctx.Err()
		}
	}
}

// errNoJSON is of what answers, but not as an endpoint does: another server, or another path of it.
var errNoJSON = errors.New("the answer is no JSON; --endpoint is the address that /chat/completions follows, as http://localhost:8080/v1")

func (e *endpoint) ask(ctx context.Context, prompt string) (corpus.Reply, error) {
	var answer *http.Response
	completion, err := e.chat.New(ctx, openai.ChatCompletionNewParams{
		Model:       e.model,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(int64(e.maxTokens)), // servers know it more often than its successor
	}, option.WithResponseInto(&answer))
	if err != nil && answer != nil && answer.StatusCode == http.StatusOK && !isJSON(answer) {
		return corpus.Reply{}, errNoJSON
	}
	if err != nil {
		return corpus.Reply{}, err
	}
	if len(completion.Choices) == 0 {
		return corpus.Reply{}, fmt.Errorf("the endpoint answered without a choice: %s", completion.RawJSON())
	}
	choice := completion.Choices[0]
	if choice.FinishReason == "content_filter" || choice.Message.Content == "" && choice.Message.Refusal != "" {
		return corpus.Reply{}, &corpus.Refused{Err: errors.New("the endpoint's filter keeps the answer back")}
	}
	return corpus.Reply{Text: choice.Message.Content, Finish: choice.FinishReason}, nil
}

// isJSON says whether an answer calls itself JSON, in the words that the client knows.
func isJSON(answer *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return strings.Contains(kind, "application/json") || strings.HasSuffix(kind, "+json")
}

// judge says whether an error is final, as a *corpus.Refused or *corpus.Unusable, or else how long the endpoint wants to be
// left alone. What is no answer of the endpoint (a lost connection, a time-out, an answer that broke off) is not final.
func (e *endpoint) judge(err error) (wait time.Duration, final error) {
	var refused *corpus.Refused
	if errors.As(err, &refused) {
		return 0, refused
	}
	var status *openai.Error
	if !errors.As(err, &status) {
		return 0, nil
	}
	switch code := status.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound, status.Code == "insufficient_quota":
		return 0, &corpus.Unusable{Err: fmt.Errorf("the endpoint does not serve us: %w", e.inWords(err))}
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= 500:
		return retryAfter(status.Response), nil
	}
	return 0, &corpus.Refused{Err: e.inWords(err)}
}

// retryAfter is the time that an answer's header asks to wait, at most an hour; 0 if it does not.
func retryAfter(answer *http.Response) time.Duration {
	if answer == nil {
		return 0
	}
	text := answer.Header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < 1e6 {
		wait = time.Duration(seconds * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	}
	return max(0, min(wait, time.Hour))
}

// inWords is an error on one line, with what the endpoint said, and without the key.
func (e *endpoint) inWords(err error) error {
	text := err.Error()
	var status *openai.Error
	if errors.As(err, &status) {
		text = fmt.Sprintf("%d %s", status.StatusCode, cmp.Or(status.Message, http.StatusText(status.StatusCode)))
	}
	text = strings.Join(strings.Fields(text), " ")
	if e.key != "" {
		text = strings.ReplaceAll(text, e.key, "(the key)")
	}
	const longest = 300
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return errors.New(text)
}
