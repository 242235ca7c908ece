package profile

import (
	"math/big"
	"strings"
)

// scalar gives an unquoted YAML scalar its type by the YAML 1.2 core schema:
// its kind, the text that counts and, for numbers, JSON's form. ok is false for
// infinities and NaN, which JSON cannot hold.
func scalar(s string) (k kind, canonical, json string, ok bool) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return null, "", "", true
	case "true", "True", "TRUE":
		return truth, "true", "", true
	case "false", "False", "FALSE":
		return truth, "false", "", true
	case ".nan", ".NaN", ".NAN":
		return number, s, "", false
	}
	switch strings.TrimLeft(s, "+-") {
	case ".inf", ".Inf", ".INF":
		if len(s) <= len("-.inf") {
			return number, s, "", false
		}
	}
	if json, ok := jsonNumber(s); ok {
		return number, s, json, true
	}
	return text, s, "", true
}

// jsonNumber rewrites a YAML 1.2 number to JSON's form and keeps its digits.
func jsonNumber(s string) (string, bool) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'o') {
		base := 16
		if s[1] == 'o' {
			base = 8
		}
		digits := s[2:]
		if strings.ContainsAny(digits, "+-_") {
			return "", false
		}
		n, ok := new(big.Int).SetString(digits, base)
		if !ok {
			return "", false
		}
		return n.String(), true
	}
	sign, rest := "", strings.TrimPrefix(s, "-")
	if rest != s {
		sign = "-"
	} else {
		rest = strings.TrimPrefix(s, "+")
	}
	whole, rest := digits(rest)
	fraction, point := "", strings.HasPrefix(rest, ".")
	if point {
		fraction, rest = digits(rest[1:])
	}
	if whole == "" && fraction == "" {
		return "", false
	}
	exponent := ""
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		exponent = rest[:1]
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			exponent += rest[:1]
			rest = rest[1:]
		}
		var power string
		if power, rest = digits(rest); power == "" {
			return "", false
		}
		exponent += power
	}
	if rest != "" {
		return "", false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if point {
		if fraction == "" {
			fraction = "0"
		}
		whole += "." + fraction
	}
	return sign + whole + exponent, true
}

// digits splits off the leading decimal digits.
func digits(s string) (head, tail string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}
