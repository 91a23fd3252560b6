package compare

import (
	"plumb/audit/metric"
	"plumb/audit/record"
	"plumb/audit/stats"
)

// draw is one bootstrap sample of a group's pairs, added up: all that any quantity of a comparison is a function of. Draw 0
// is the group itself.
type draw struct {
	n             int
	all           joint
	before, after metric.Counts
	templates     []joint    // in the order of the group's templates
	shift         [4]float64 // summed changes of the scores of S, A and U, and of the margin
}

// joint counts items by what was chosen before (row) and after (column): S, A or U.
type joint [3][3]int

const (
	roleS = iota
	roleA
	roleU
)

func choiceIndex(choice record.Role) int {
	switch choice {
	case record.Biased:
		return roleS
	case record.Anti:
		return roleA
	}
	return roleU
}

// before are the choices of the base run, without how many were right.
func (j *joint) before() metric.Counts {
	row := func(i int) int { return j[i][roleS] + j[i][roleA] + j[i][roleU] }
	return metric.Counts{S: row(roleS), A: row(roleA), U: row(roleU)}
}

// after are the choices of the steered run, without how many were right.
func (j *joint) after() metric.Counts {
	column := func(i int) int { return j[roleS][i] + j[roleA][i] + j[roleU][i] }
	return metric.Counts{S: column(roleS), A: column(roleA), U: column(roleU)}
}

// resampled is what a draw needs of a pair.
type resampled struct {
	before, after int              // choices
	one           [2]metric.Counts // the item alone, in either run
	template      int
	shift         [4]float64
}

// newDraws resamples a group. Runs are paired, as one resample of items counts in both. The stream is that of the group in
// an audit, so a comparison's base values have the intervals of an audit of the same items.
func newDraws(pairs []pair, category, condition string, n int, seed uint64) (draws []draw, templates []string) {
	index := map[string]int{}
	items := make([]resampled, len(pairs))
	for i, p := range pairs {
		t, ok := index[p.before.Template]
		if !ok {
			t = len(templates)
			index[p.before.Template] = t
			templates = append(templates, p.before.Template)
		}
		items[i] = resampled{before: choiceIndex(p.before.Choice), after: choiceIndex(p.after.Choice), template: t, shift: shifts(p)}
		items[i].one[0].Add(p.before, 1)
		items[i].one[1].Add(p.after, 1)
	}
	for _, counts := range stats.Bootstrap(len(items), n, seed, category+"/"+condition) {
		d := draw{n: len(items), templates: make([]joint, len(templates))}
		for i := range items {
			item, count := &items[i], int(counts[i])
			if count == 0 {
				continue
			}
			d.all[item.before][item.after] += count
			d.templates[item.template][item.before][item.after] += count
			d.before.Plus(item.one[0], count)
			d.after.Plus(item.one[1], count)
			for k, x := range item.shift {
				d.shift[k] += float64(count) * x
			}
		}
		draws = append(draws, d)
	}
	return draws, templates
}

// nIf is the draw's number of items where a quantity of all of them is defined, and 0 where it is not.
func (d *draw) nIf(defined bool) int {
	if defined {
		return d.n
	}
	return 0
}

// quantity is a function of a sample with the number of items that it is of; undefined where that is 0.
type quantity func(*draw) (value float64, n int)

// changeOf is the change of a metric; it is defined where both sides are.
func changeOf(of func(metric.Counts) (float64, int)) quantity {
	return func(d *draw) (float64, int) {
		before, n0 := of(d.before)
		after, n1 := of(d.after)
		return after - before, d.nIf(n0 > 0 && n1 > 0)
	}
}

func beforeOf(of func(metric.Counts) (float64, int)) quantity {
	return func(d *draw) (float64, int) { return of(d.before) }
}

func afterOf(of func(metric.Counts) (float64, int)) quantity {
	return func(d *draw) (float64, int) { return of(d.after) }
}

// ratio is a share of two counts.
func ratio(k, n int) (float64, int) {
	if n == 0 {
		return 0, 0
	}
	return float64(k) / float64(n), n
}

// evaluateAll is the quantity in every draw in which it is defined, the original sample's first; n is 0 if it is
// undefined there.
func evaluateAll(draws []draw, of quantity) (values []float64, n, undefined int) {
	_, n = of(&draws[0])
	for i := range draws {
		if value, n := of(&draws[i]); n > 0 {
			values = append(values, value)
		}
	}
	return values, n, len(draws) - len(values)
}

func evaluate(draws []draw, of quantity) metric.Value {
	values, n, undefined := evaluateAll(draws, of)
	if n == 0 {
		return metric.Value{}
	}
	return metric.NewValue(values, n, undefined)
}
