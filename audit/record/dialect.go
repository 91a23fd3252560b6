package record

// Feature is a marker of a dialect that a text holds, and the class of the lexicon that it belongs to.
type Feature struct {
	Class  string `json:"class"`
	Marker string `json:"marker"`
}

// Dialect is what a dialect audit was asked beside what every audit is.
type Dialect struct {
	Lexicon      DataFile     `json:"lexicon"`
	Masked       []string     `json:"masked"` // slurs of the lexicon, which reports mask
	Segmentation Segmentation `json:"segmentation"`
	Split        string       `json:"split"`                   // the part of the data that is used: "all", "tracing", "direction", "evaluation"
	SplitSeed    uint64       `json:"split_seed"`              // 0 if all of it is
	SplitSizes   string       `json:"split_sizes,omitempty"`   // tracing/direction/evaluation, if they were asked for
	Wordings     []string     `json:"wordings"`                // of the forced choice
	Instruction  string       `json:"instruction"`             // that stands before every prompt; empty: none
	ReportedOnly bool         `json:"reported_only,omitempty"` // of a sweep's pairs, without those that its strength is chosen on
	Noise        float64      `json:"noise,omitempty"`         // of a causal trace: σ over the embeddings' standard deviation
}

// Trace is what restoring single states of a corrupted run does to b_AAE, the preference of the AAE continuation after the
// AAE context.
type Trace struct {
	Sigma     float64     `json:"sigma"`     // standard deviation of the noise on the embeddings
	Positions []int       `json:"positions"` // of the marker's tokens in the context, those that are corrupted and restored
	Corrupted float64     `json:"corrupted"` // b_AAE of the corrupted run
	Effects   [][]float64 `json:"effects"`   // R = b_AAE(corrupted) − b_AAE(restored), by layer and position
}

// Segmentation says what cut the pairs into context and continuation. It is zero where the data brings all segments.
type Segmentation struct {
	Model  string  `json:"model"` // whose token embeddings were compared
	SHA256 string  `json:"sha256"`
	Layer  int     `json:"layer"` // -1: the output of an encoder
	Rho    float64 `json:"rho"`
	Gamma  float64 `json:"gamma"`
	Margin float64 `json:"margin"` // the share of the words at either end of either sentence that no cut is in
	Given  int     `json:"given"`  // pairs whose segments the data brings

	Sure         float64 `json:"sure"`          // the probability, either way, above which a link of two words is sure
	MostOpen     float64 `json:"most_open"`     // the share of the AAE sentence's words that sure links may leave its cut open over
	MostCrossing float64 `json:"most_crossing"` // the share of the sure links that may cross a cut
}
