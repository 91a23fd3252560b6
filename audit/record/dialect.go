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
	Split        string       `json:"split"`       // the part of the data that is used: "all", "tracing", "direction", "evaluation"
	SplitSeed    uint64       `json:"split_seed"`  // 0 if all of it is
	Wordings     []string     `json:"wordings"`    // of the forced choice
	Instruction  string       `json:"instruction"` // that stands before every prompt; empty: none
}

// Segmentation says what cut the pairs into context and continuation. It is zero where the data brings all segments.
type Segmentation struct {
	Model  string  `json:"model"` // whose hidden states were compared
	SHA256 string  `json:"sha256"`
	Layer  int     `json:"layer"` // -1: the model's own output, of an encoder
	Rho    float64 `json:"rho"`
	Gamma  float64 `json:"gamma"`
	Given  int     `json:"given"` // pairs whose segments the data brings
}
