package dialect

import (
	"math"
)

// Metric is a number of a run: Then of the sum over pairs of a numerator, over that of a denominator.
type Metric struct {
	Name    string
	Meaning string
	// Of returns a pair's parts; a denominator of 0 says that the pair is not of the metric.
	Of func(s *Scores) (numerator, denominator float64)
	// Then is what becomes of the quotient; nil: nothing.
	Then func(float64) float64
}

// part makes a metric's part of a value that a pair may lack.
func part(value float64, ok bool) (float64, float64) {
	if !ok {
		return 0, 0
	}
	return value, 1
}

func share(of, among bool) (float64, float64) {
	switch {
	case !among:
		return 0, 0
	case of:
		return 1, 1
	}
	return 0, 1
}

// The names of the metrics that the reports show in places of their own.
const (
	LP      = "lp"
	LPToken = "lp_token"
	BSAE    = "b_sae"
	BAAE    = "b_aae"
	DGI     = "dgi"
	DGI2    = "dgi_two_way"
	CDGI    = "cdgi"
)

// PPL is the name of the perplexity of a continuation after a context of either dialect, over all tokens of the corpus.
func PPL(context, continuation string) string { return "ppl_" + context + "_" + continuation }

// MeanPPL is the name of the mean over pairs of the continuation's perplexity.
func MeanPPL(context, continuation string) string { return "mean_" + PPL(context, continuation) }

// The names of the read-outs of a choice.
const (
	ReadSum    = "sum"    // the continuation with the higher log-probability, the paper's
	ReadToken  = "token"  // with the higher mean token log-probability
	ReadLetter = "letter" // whose letter has the higher log-probability
)

// ReadOuts are all of them.
var ReadOuts = []string{ReadSum, ReadToken, ReadLetter}

// MatchShare is the name of AAE Match or SAE Match, the share of choices after a context of the dialect that took the
// continuation of that dialect. Ties are not among the choices.
func MatchShare(context string, wording Wording, readOut string) string {
	return context + "_match_" + string(wording) + "_" + readOut
}

// FirstShown is the name of the share of choices that took the option shown first; 0.5 is no position bias.
func FirstShown(wording Wording, readOut string) string {
	return "first_" + string(wording) + "_" + readOut
}

// Metrics are all metrics of a run with the given wordings, in the order of the reports.
func Metrics(wordings []Wording) []Metric {
	var list []Metric
	for _, context := range []string{SAE, AAE} {
		for _, continuation := range []string{SAE, AAE} {
			list = append(list, Metric{PPL(context, continuation),
				"perplexity of " + names[continuation] + " continuations after " + names[context] + " contexts, exp(−Σ log p / Σ tokens)",
				func(s *Scores) (float64, float64) {
					l := s.likelihood(context, continuation)
					return -l.Sum, float64(l.Tokens)
				}, math.Exp})
		}
	}
	for _, context := range []string{SAE, AAE} {
		for _, continuation := range []string{SAE, AAE} {
			list = append(list, Metric{MeanPPL(context, continuation),
				"the same for each pair, then the mean over pairs",
				func(s *Scores) (float64, float64) {
					l := s.likelihood(context, continuation)
					if l.Tokens == 0 {
						return 0, 0
					}
					return math.Exp(-l.PerToken()), 1
				}, nil})
		}
	}
	for _, per := range []struct {
		suffix, words string
		token         bool
	}{{"", "log-probability", false}, {"_token", "mean token log-probability", true}} {
		list = append(list,
			Metric{BSAE + per.suffix, "after SAE contexts, " + per.words + " of the SAE continuation less the AAE one's (eq. 2)",
				func(s *Scores) (float64, float64) { return part(s.BSAE(per.token)) }, nil},
			Metric{BAAE + per.suffix, "after AAE contexts, " + per.words + " of the AAE continuation less the SAE one's (eq. 3)",
				func(s *Scores) (float64, float64) { return part(s.BAAE(per.token)) }, nil},
			Metric{LP + per.suffix, "b_SAE − b_AAE: above 0, the model prefers SAE whatever the context (eq. 4)",
				func(s *Scores) (float64, float64) { return part(s.LP(per.token)) }, nil})
	}
	for _, wording := range wordings {
		for _, readOut := range ReadOuts {
			for _, context := range []string{AAE, SAE} {
				list = append(list, Metric{MatchShare(context, wording, readOut),
					"share of choices after " + names[context] + " contexts that took the " + names[context] + " continuation",
					func(s *Scores) (float64, float64) {
						picked, ok := s.picked(context, wording, readOut)
						return share(picked.Matched, ok)
					}, nil})
			}
			list = append(list, Metric{FirstShown(wording, readOut),
				"share of choices that took the option shown first (0.5: no position bias)",
				func(s *Scores) (float64, float64) {
					a, okA := s.picked(AAE, wording, readOut)
					b, okB := s.picked(SAE, wording, readOut)
					n1, d1 := share(a.First, okA)
					n2, d2 := share(b.First, okB)
					return n1 + n2, d1 + d2
				}, nil})
		}
	}
	return append(list,
		Metric{DGI, "share of pairs whose AAE and SAE sentence get the same sentiment",
			func(s *Scores) (float64, float64) {
				return share(s.LabelAAE == s.LabelSAE, s.LabelAAE != "" && s.LabelSAE != "")
			}, nil},
		Metric{DGI2, "share of triplets whose AAE, SAE and back-translated sentence all get the same sentiment",
			func(s *Scores) (float64, float64) {
				return share(s.LabelAAE == s.LabelSAE && s.LabelAAE == s.LabelBack, s.LabelAAE != "" && s.LabelSAE != "" && s.LabelBack != "")
			}, nil},
		Metric{CDGI, "the same as DGI, of triplets whose back-translation was judged natural and gets the AAE sentence's sentiment (eq. 1)",
			func(s *Scores) (float64, float64) {
				natural := s.Natural != nil && *s.Natural
				return share(s.LabelAAE == s.LabelSAE, natural && s.LabelAAE != "" && s.LabelSAE != "" && s.LabelAAE == s.LabelBack)
			}, nil})
}

var names = map[string]string{AAE: "AAE", SAE: "SAE"}

func (s *Scores) likelihood(context, continuation string) Likelihood {
	after := s.After.SAE
	if context == AAE {
		after = s.After.AAE
	}
	if continuation == AAE {
		return after.AAE
	}
	return after.SAE
}

// picked is how a choice came out; not ok: it was not scored, or is a tie.
func (s *Scores) picked(context string, wording Wording, readOut string) (picked Picked, ok bool) {
	choices := s.Choices.SAE
	if context == AAE {
		choices = s.Choices.AAE
	}
	choice, ok := choices[wording]
	switch readOut {
	case ReadSum:
		picked = choice.Sum
	case ReadToken:
		picked = choice.Token
	default:
		picked = choice.Letter
	}
	return picked, ok && !picked.Tied
}
