package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// What a shell runs to complete a command line: the program itself knows its commands, and its flags once a word begins
// with a dash. Where it knows nothing, files are offered.
var completions = map[string]string{
	"bash": `# bash completion of plumb
_plumb() {
	local word=${COMP_WORDS[COMP_CWORD]} ask=("${COMP_WORDS[@]:0:COMP_CWORD}") line
	[[ $word == -* ]] && ask+=("$word")
	COMPREPLY=()
	while IFS= read -r line; do
		[[ $line == "$word"* ]] && COMPREPLY+=("$line")
	done < <("${ask[@]}" --generate-bash-completion 2>/dev/null)
}
complete -o bashdefault -o default -F _plumb plumb
`,
	"zsh": `#compdef plumb
# zsh completion of plumb
_plumb() {
	local -a ask found
	ask=("${(@)words[1,CURRENT-1]}")
	[[ $words[CURRENT] == -* ]] && ask+=("$words[CURRENT]")
	found=("${(@f)$("${ask[@]}" --generate-bash-completion 2>/dev/null)}")
	if [[ -n $found[1] ]]; then
		_describe plumb found
	else
		_files
	fi
}
if [[ $funcstack[1] == _plumb ]]; then
	_plumb "$@"
else
	compdef _plumb plumb
fi
`,
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes plumb's command lines",
		ArgsUsage: "bash|zsh",
		Description: `make install puts both scripts where the shells look for them. By hand:

  source <(plumb completion bash)`,
		Action: func(c *cli.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok || c.Args().Len() != 1 {
				return usageError("completion takes the shell's name, bash or zsh")
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}
