package record

import (
	"cmp"
	"io"
)

// CopyWithoutText copies a run for sharing, without the texts of data set and user: contexts, questions, options and a
// prompt template of the user's own. Scores, roles, ids and hashes stay. An unfinished run is copied as far as it goes.
func CopyWithoutText(src, dst string) (err error) {
	from, err := Open(src)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, from.Close()) }()
	run := from.Run
	run.NoText = true
	if run.Prompt.Own {
		run.Prompt.Template = ""
	}
	to, err := Create(dst, run)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, to.Close()) }()
	for {
		group, err := from.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range group {
			group[i].Text = ""
			for j := range group[i].Options {
				group[i].Options[j].Text = ""
			}
		}
		if err := to.Append(group); err != nil {
			return err
		}
	}
}
