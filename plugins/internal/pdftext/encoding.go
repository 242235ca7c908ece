package pdftext

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The upper halves of the encodings that a file may name; U+FFFD where there is no
// letter.
const (
	// winUpper are the codes 128 to 159; those above are the same in Unicode.
	winUpper = "€•‚ƒ„…†‡ˆ‰Š‹Œ•Ž••‘’“”•–—˜™š›œ•žŸ"
	// macUpper are the codes 128 to 255.
	macUpper = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø" +
		"¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"
	// standardUpper are the codes 161 to 251.
	standardUpper = "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ\ufffd–†‡·\ufffd¶•‚„”»…‰\ufffd¿\ufffd`´ˆ˜¯˘˙¨\ufffd˚¸\ufffd˝˛ˇ—" +
		"\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd" +
		"Æ\ufffdª\ufffd\ufffd\ufffd\ufffdŁØŒº\ufffd\ufffd\ufffd\ufffd\ufffdæ\ufffd\ufffd\ufffdı\ufffd\ufffdłøœß"
)

// encodingOf gives the letters of a simple encoding, by default the standard one.
func encodingOf(which name) (letters [256]string) {
	fill := func(from int, text string) {
		for _, r := range text {
			if r != utf8.RuneError {
				letters[from] = string(r)
			}
			from++
		}
	}
	for c := ' '; c < 0x7f; c++ {
		letters[c] = string(c)
	}
	letters['\t'], letters['\n'], letters['\r'] = " ", " ", " "
	switch which {
	case "WinAnsiEncoding":
		fill(128, winUpper)
		for c := 0xa0; c < 0x100; c++ {
			letters[c] = string(rune(c))
		}
	case "MacRomanEncoding":
		fill(128, macUpper)
	default:
		letters['\''], letters['`'] = "’", "‘"
		fill(161, standardUpper)
	}
	return letters
}

// glyphNames are names of letters, each followed by its letter.
const glyphNames = "space   exclam ! quotedbl \" numbersign # dollar $ percent % ampersand & quotesingle ' parenleft ( parenright ) asterisk * plus + " +
	"comma , hyphen - period . slash / zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 colon : semicolon ; less < equal = " +
	"greater > question ? at @ bracketleft [ backslash \\ bracketright ] asciicircum ^ underscore _ grave ` braceleft { bar | braceright } asciitilde ~ " +
	"quoteright ’ quoteleft ‘ quotedblleft “ quotedblright ” quotesinglbase ‚ quotedblbase „ guillemotleft « guillemotright » guilsinglleft ‹ guilsinglright › " +
	"endash – emdash — bullet • ellipsis … dagger † daggerdbl ‡ perthousand ‰ section § paragraph ¶ periodcentered · exclamdown ¡ questiondown ¿ " +
	"fi fi fl fl ff ff ffi ffi ffl ffl cent ¢ sterling £ yen ¥ Euro € euro € florin ƒ currency ¤ copyright © registered ® trademark ™ degree ° " +
	"plusminus ± minus − multiply × divide ÷ fraction ⁄ onehalf ½ onequarter ¼ threequarters ¾ onesuperior ¹ twosuperior ² threesuperior ³ " +
	"ordfeminine ª ordmasculine º logicalnot ¬ brokenbar ¦ mu µ macron ¯ acute ´ dieresis ¨ cedilla ¸ circumflex ˆ tilde ˜ ring ˚ caron ˇ breve ˘ " +
	"germandbls ß ae æ AE Æ oe œ OE Œ oslash ø Oslash Ø lslash ł Lslash Ł eth ð Eth Ð thorn þ Thorn Þ dotlessi ı dotlessj ȷ nbspace \u00a0 sfthyphen \u00ad " +
	"notequal ≠ lessequal ≤ greaterequal ≥ approxequal ≈ infinity ∞ partialdiff ∂ summation ∑ product ∏ integral ∫ radical √ lozenge ◊ " +
	"arrowleft ← arrowup ↑ arrowright → arrowdown ↓ arrowboth ↔ element ∈ emptyset ∅ intersection ∩ union ∪ universal ∀ existential ∃ " +
	"alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ nu ν xi ξ omicron ο pi π rho ρ sigma σ tau τ " +
	"upsilon υ phi φ chi χ psi ψ omega ω Alpha Α Beta Β Gamma Γ Delta Δ Epsilon Ε Zeta Ζ Eta Η Theta Θ Iota Ι Kappa Κ Lambda Λ Mu Μ Nu Ν Xi Ξ " +
	"Omicron Ο Pi Π Rho Ρ Sigma Σ Tau Τ Upsilon Υ Phi Φ Chi Χ Psi Ψ Omega Ω "

// accents are what follows a letter in the name of one with an accent.
const accents = "grave \u0300 acute \u0301 circumflex \u0302 tilde \u0303 macron \u0304 breve \u0306 dotaccent \u0307 dieresis \u0308 ring \u030a " +
	"hungarumlaut \u030b caron \u030c cedilla \u0327 commaaccent \u0326 ogonek \u0328 "

// letter gives what a glyph's name says; "" if it says nothing.
func (d *Document) letter(glyph string) string {
	glyph, _, _ = strings.Cut(glyph, ".") // a.sc is a small capital
	if len(glyph) == 1 {
		return glyph
	}
	if d.glyphs == nil {
		d.glyphs = map[string]string{}
		for table := glyphNames; table != ""; {
			word, rest, _ := strings.Cut(table, " ")
			_, size := utf8.DecodeRuneInString(rest) // which may be a blank
			end := size + strings.IndexByte(rest[size:], ' ')
			d.glyphs[word], table = rest[:end], rest[end+1:]
		}
	}
	if text, ok := d.glyphs[glyph]; ok {
		return text
	}
	if text := fromHex(glyph); text != "" {
		return text
	}
	if strings.Contains(glyph, "_") { // f_f_i
		var b strings.Builder
		for part := range strings.SplitSeq(glyph, "_") {
			if strings.Contains(part, "_") || part == "" {
				return ""
			}
			b.WriteString(d.letter(part))
		}
		return b.String()
	}
	if len(glyph) > 2 {
		for table := accents; table != ""; {
			word, rest, _ := strings.Cut(table, " ")
			mark, rest, _ := strings.Cut(rest, " ")
			if glyph[1:] == word {
				return norm.NFC.String(glyph[:1] + mark)
			}
			table = rest
		}
	}
	return ""
}

// fromHex reads names such as uni20AC and u1F600.
func fromHex(glyph string) string {
	digits, ok := strings.CutPrefix(glyph, "uni")
	if ok {
		var b strings.Builder
		for ; len(digits) >= 4; digits = digits[4:] {
			n, err := strconv.ParseUint(digits[:4], 16, 16)
			if err != nil {
				return ""
			}
			b.WriteRune(rune(n))
		}
		return b.String()
	}
	if digits, ok = strings.CutPrefix(glyph, "u"); ok && len(digits) >= 4 && len(digits) <= 6 {
		if n, err := strconv.ParseUint(digits, 16, 32); err == nil && utf8.ValidRune(rune(n)) {
			return string(rune(n))
		}
	}
	return ""
}
