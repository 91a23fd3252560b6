package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"plumb/steer"
)

// The library that is loaded before the program, and what it reads the steering from.
const (
	runLibrary  = "libplumb_run.so"
	runVariable = "PLUMB_RUN_STEER"
)

func runProgramCommand() *cli.Command {
	var files cli.StringSlice
	return &cli.Command{
		Name:      "run",
		Usage:     "run an unmodified llama.cpp program, steered",
		ArgsUsage: "-- PROGRAM [ARGUMENT]…",
		Description: `Starts a program that is linked to llama.cpp's shared library, with the steering in every context that it makes on the
model the files are for:

  plumb run --steer gcd.gguf:8 -- llama-server --model model.gguf

It is refused where it cannot work: a program that has llama.cpp inside itself, one whose llama.cpp is another version than
plumb's, a model that a file does not fit. The program then ends with status 1. plumb-server does more: other strengths while
it serves, and for each request.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "steer", Usage: "steer by `FILE[:STRENGTH]`, without a strength the file's; repeatable", Destination: &files},
		},
		Action: func(c *cli.Context) error {
			return runProgram(files.Value(), c.Args().Slice())
		},
	}
}

// runProgram becomes the program; it returns only if that fails.
func runProgram(files, command []string) error {
	switch {
	case len(files) == 0:
		return usageError("run needs --steer FILE")
	case len(command) == 0:
		return usageError("run needs a program, after --")
	case runtime.GOOS != "linux":
		return errors.New("run works on Linux alone; plumb-server works everywhere")
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	if err := checkDynamic(program); err != nil {
		return err
	}
	var lines strings.Builder
	for _, text := range files {
		line, err := runLine(text)
		if err != nil {
			return err
		}
		lines.WriteString(line)
	}
	library, err := findRunLibrary()
	if err != nil {
		return err
	}
	preload := library
	if others := os.Getenv("LD_PRELOAD"); others != "" {
		preload += ":" + others
	}
	environment := append(os.Environ(), "LD_PRELOAD="+preload, runVariable+"="+lines.String())
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, command, environment))
}

// runLine is a file and its strength as the library reads them.
func runLine(text string) (string, error) {
	path, strength := text, math.NaN()
	if _, err := os.Stat(text); err != nil {
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			if strength, err = strconv.ParseFloat(text[at+1:], 32); err != nil || math.IsInf(strength, 0) || math.IsNaN(strength) {
				return "", usageError("--steer %s: what follows the colon is a strength, a number", text)
			}
			path = text[:at]
		}
	}
	file, err := steer.ReadFile(path)
	if err != nil {
		return "", err
	}
	if math.IsNaN(strength) {
		strength = file.Strength
	}
	path, err = filepath.Abs(path)
	if err != nil || strings.ContainsRune(path, '\n') {
		return "", fmt.Errorf("%q cannot be named to another program", path)
	}
	return strconv.FormatFloat(strength, 'g', -1, 64) + " " + path + "\n", nil
}

// checkDynamic refuses a program that no library can be loaded before: it would run, and not be steered.
func checkDynamic(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%s is not a program that a library can be loaded before (a script? name what it starts)", program)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fmt.Errorf("%s is statically linked and cannot be steered from outside; plumb-server can", program)
}

func findRunLibrary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	folder := filepath.Dir(self)
	for _, path := range []string{filepath.Join(folder, runLibrary), filepath.Join(folder, "..", "lib", runLibrary)} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s lies neither beside %s nor in ../lib; `make` and `make install` put it there", runLibrary, self)
}
