package corpus

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"plumb/audit/metric"
	"plumb/audit/report"
	"plumb/audit/stats"
)

// Sentiments are the labels that texts are classified by, in the order of the paper's Table 5.
var Sentiments = []string{"negative", "neutral", "positive"}

// SentimentPrompt asks a language model for a text's sentiment; the labels are scored as its continuations.
const SentimentPrompt = "Text: %s\nIs the sentiment of the text positive, negative or neutral?\nSentiment:"

// Validation is what is known of one triplet (section 3, "Automatic validation"). What is not defined or was not asked for
// is nil or empty.
type Validation struct {
	ID           string     `json:"id"`
	BERTScore    *BERTScore `json:"bertscore"`     // of AAE_back against AAE
	SentimentAAE string     `json:"sentiment_aae"` // of Sentiments
	SentimentSAE string     `json:"sentiment_sae"`
	Error        string     `json:"error,omitempty"` // why something is missing
}

// Confusion counts triplets by the sentiment of the AAE text (row) and of the SAE text (column), in the order of Sentiments.
type Confusion [3][3]int

// N is the number of triplets.
func (c *Confusion) N() int {
	n := 0
	for _, row := range c {
		n += row[0] + row[1] + row[2]
	}
	return n
}

// Agreement is the share of triplets whose two texts have one sentiment, with Wilson's interval.
func (c *Confusion) Agreement() metric.Value {
	same, n := c[0][0]+c[1][1]+c[2][2], c.N()
	if n == 0 {
		return metric.Value{}
	}
	v := metric.Value{V: float64(same) / float64(n), OK: true, N: n}
	v.Lo, v.Hi, _ = stats.Wilson(same, n)
	return v
}

// Kappa is Cohen's κ of the two texts' sentiments.
func (c *Confusion) Kappa() (float64, bool) {
	table := make([][]float64, len(c))
	for i, row := range c {
		table[i] = []float64{float64(row[0]), float64(row[1]), float64(row[2])}
	}
	return stats.CohenKappa(table)
}

// Distribution describes a set of numbers.
type Distribution struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	SD     float64 `json:"sd"` // of the sample, n − 1; 0 for one value
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// NewDistribution is not defined for no values.
func NewDistribution(values []float64) (Distribution, bool) {
	if len(values) == 0 {
		return Distribution{}, false
	}
	d := Distribution{N: len(values), Min: slices.Min(values), Max: slices.Max(values)}
	for _, x := range values {
		d.Mean += x / float64(len(values))
	}
	for _, x := range values {
		d.SD += (x - d.Mean) * (x - d.Mean)
	}
	d.SD = math.Sqrt(d.SD / float64(max(1, len(values)-1)))
	d.Median, _ = stats.Percentile(values, 50)
	return d, true
}

// Validated is the automatic validation of a corpus.
type Validated struct {
	Embedder    string // what embedded the texts, in words
	Classifier  string // what classified their sentiment; "" if nothing did
	Validations []Validation
}

// Confusion are the sentiments of the triplets that have both.
func (v *Validated) Confusion() Confusion {
	var c Confusion
	for _, x := range v.Validations {
		row, column := slices.Index(Sentiments, x.SentimentAAE), slices.Index(Sentiments, x.SentimentSAE)
		if row >= 0 && column >= 0 {
			c[row][column]++
		}
	}
	return c
}

func (v *Validated) scores(of func(*BERTScore) float64) []float64 {
	var values []float64
	for _, x := range v.Validations {
		if x.BERTScore != nil {
			values = append(values, of(x.BERTScore))
		}
	}
	return values
}

func f1(b *BERTScore) float64 { return b.F1 }

// Summary is the distribution of BERTScore and the agreement of sentiments.
func (v *Validated) Summary() Summary {
	s := Summary{Stage: "validate"}
	failed := 0
	for _, x := range v.Validations {
		if x.Error != "" {
			failed++
		}
	}
	s.Facts = []Fact{{"Triplets", report.Thousands(len(v.Validations))}, {"Not scored", report.Thousands(failed)}, {"BERTScore by", v.Embedder}}
	details := map[string]any{"triplets": len(v.Validations), "not_scored": failed, "embedder": v.Embedder}
	for _, part := range []struct {
		name, key string
		of        func(*BERTScore) float64
	}{
		{"BERTScore F1 of AAE_back against AAE", "f1", f1},
		{"BERTScore precision", "precision", func(b *BERTScore) float64 { return b.Precision }},
		{"BERTScore recall", "recall", func(b *BERTScore) float64 { return b.Recall }},
	} {
		d, ok := NewDistribution(v.scores(part.of))
		if !ok {
			s.Facts = append(s.Facts, Fact{part.name, metric.Undefined})
			details[part.key] = nil
			continue
		}
		s.Facts = append(s.Facts, Fact{part.name, fmt.Sprintf("mean %s, median %s, standard deviation %s, lowest %s",
			metric.Format(d.Mean), metric.Format(d.Median), metric.Format(d.SD), metric.Format(d.Min))})
		details[part.key] = d
	}
	if v.Classifier != "" {
		c := v.Confusion()
		agreement := c.Agreement()
		s.Facts = append(s.Facts, Fact{"Sentiment by", v.Classifier}, Fact{"Sentiment of AAE and SAE agrees", inWords(agreement)})
		details["classifier"], details["confusion"], details["sentiment_agreement"] = v.Classifier, c, agreement
		if kappa, ok := c.Kappa(); ok {
			s.Facts = append(s.Facts, Fact{"Cohen's κ of the sentiments", metric.Format(kappa)})
			details["sentiment_kappa"] = kappa
		}
		for i, row := range c {
			s.Facts = append(s.Facts, Fact{"AAE " + Sentiments[i], fmt.Sprintf("SAE negative %s, neutral %s, positive %s", report.Thousands(row[0]), report.Thousands(row[1]), report.Thousands(row[2]))})
		}
	}
	s.Details = details
	return s
}

//go:embed validation.html.tmpl
var validationPage string

var validationTemplate = template.Must(template.New("validation").Parse(validationPage))

// bins of the histogram of F1.
const bins = 40

// WriteHTML writes the validation as a page that needs nothing else, with the distribution of BERTScore F1 and the sentiment
// confusion matrix (the paper's Figure 6 and Table 5).
func (v *Validated) WriteHTML(out io.Writer) error {
	values := v.scores(f1)
	var figure report.Figure
	if len(values) > 0 {
		low, high := math.Floor(20*slices.Min(values))/20, math.Ceil(20*slices.Max(values))/20
		high = max(high, low+0.05)
		counts := make([]int, bins)
		for _, x := range values {
			counts[min(bins-1, int((x-low)/(high-low)*bins))]++
		}
		var err error
		if figure, err = report.NewHistogram("BERTScore F1 of AAE_back against AAE", low, high, counts); err != nil {
			return err
		}
	}
	type row struct {
		Label  string
		Counts [3]int
	}
	var confusion []row
	if v.Classifier != "" {
		for i, counts := range v.Confusion() {
			confusion = append(confusion, row{Sentiments[i], counts})
		}
	}
	return validationTemplate.Execute(out, struct {
		Style     template.CSS
		Facts     []Fact
		Figure    report.Figure
		Labels    []string
		Confusion []row
	}{report.Style, v.Summary().Facts, figure, Sentiments, confusion})
}
