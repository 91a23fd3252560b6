package metric

import (
	"encoding/json"
	"strconv"
	"strings"

	"plumb/audit/stats"
)

// Value is a number with its 95 % percentile bootstrap interval, or explicitly none.
type Value struct {
	V      float64
	OK     bool    // false: undefined, and V, Lo and Hi mean nothing
	Lo, Hi float64 // from the draws in which the value is defined
	N      int     // how many items it is a share of; 0 if undefined

	// UndefinedDraws counts the draws left out of the interval because the value was not defined in them (nothing
	// answered). Where they are many, the interval is of the draws that answered something, and says so by this count.
	UndefinedDraws int
}

// NewValue makes a value of its bootstrap draws, the first being the original sample's; n is its number of items and
// undefined the number of draws left out.
func NewValue(draws []float64, n, undefined int) Value {
	v := Value{V: draws[0], OK: true, N: n, UndefinedDraws: undefined}
	v.Lo, v.Hi, _ = stats.Interval95(draws)
	return v
}

// Undefined is how an undefined value is written.
const Undefined = "undefined"

// String is the value to three digits, or "undefined".
func (v Value) String() string {
	if !v.OK {
		return Undefined
	}
	return Format(v.V)
}

// Interval is the interval to three digits, "[0.123, 0.456]"; empty for an undefined value.
func (v Value) Interval() string {
	if !v.OK {
		return ""
	}
	return "[" + Format(v.Lo) + ", " + Format(v.Hi) + "]"
}

// Format writes a number to three digits after the point, with a true minus and no negative zero.
func Format(x float64) string { return FormatDigits(x, 3) }

// FormatDigits is Format to so many digits.
func FormatDigits(x float64, digits int) string {
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if zero := strconv.FormatFloat(0, 'f', digits, 64); text == "-"+zero {
		text = zero
	}
	return strings.Replace(text, "-", "−", 1)
}

// FormatP writes a p-value as Format does, or as a power of ten where it is below 0.001.
func FormatP(p float64) string {
	if p >= 0.001 {
		return Format(p)
	}
	return strings.Replace(strconv.FormatFloat(p, 'e', 1, 64), "-", "−", 1)
}

// FormatSigned is Format with a plus before what is above zero.
func FormatSigned(x float64) string {
	text := Format(x)
	if x > 0 && text != "0.000" {
		text = "+" + text
	}
	return text
}

// Signed is a change with its interval, "+0.012 [−0.003, 0.020]", or "undefined".
func (v Value) Signed() string {
	if !v.OK {
		return Undefined
	}
	return FormatSigned(v.V) + " " + v.Interval()
}

// MarshalJSON writes null for what is undefined.
func (v Value) MarshalJSON() ([]byte, error) {
	out := struct {
		Value          *float64 `json:"value"`
		Low            *float64 `json:"low"`
		High           *float64 `json:"high"`
		N              int      `json:"n"`
		UndefinedDraws int      `json:"undefined_draws"`
	}{N: v.N, UndefinedDraws: v.UndefinedDraws}
	if v.OK {
		out.Value, out.Low, out.High = &v.V, &v.Lo, &v.Hi
	}
	return json.Marshal(out)
}
