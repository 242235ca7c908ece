package toolweb

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// decode makes text of a body: by its byte order mark, else by the charset that
// the server says, else by the one the document says, else as UTF-8 where it is
// that, else as windows-1252, which is what the web means by nothing. cut says
// that the body may end within a character.
func decode(body []byte, label string, markup, cut bool) string {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return string(body[3:])
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("\xfe\xff")):
		return through(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), body)
	}
	e, known := encodingOf(label)
	if !known && (markup || bytes.HasPrefix(body, []byte("<?xml"))) {
		label = declared(body)
		if strings.HasPrefix(label, "utf-16") {
			label = "utf-8" // it could not be read otherwise
		}
		e, known = encodingOf(label)
	}
	switch {
	case e != nil:
		return through(e, body)
	case known, utf8.Valid(whole(body, cut)):
		return string(whole(body, cut))
	}
	return through(charmap.Windows1252, body)
}

// whole is a body without the beginning of a character at its end.
func whole(body []byte, cut bool) []byte {
	for i := 1; cut && i < utf8.UTFMax && i <= len(body); i++ {
		if utf8.RuneStart(body[len(body)-i]) {
			if !utf8.FullRune(body[len(body)-i:]) {
				return body[:len(body)-i]
			}
			break
		}
	}
	return body
}

func through(e encoding.Encoding, body []byte) string {
	text, err := e.NewDecoder().Bytes(body)
	if err != nil {
		return string(body)
	}
	return string(text)
}

// encodingOf knows the labels of the WHATWG encoding standard that are met; nil is
// UTF-8. (The table of all of them costs every start of the process more than its
// use is worth.)
func encodingOf(label string) (e encoding.Encoding, known bool) {
	label = strings.ToLower(strings.Trim(label, " \t\r\n\"'"))
	if rest, ok := strings.CutPrefix(label, "windows-"); ok {
		label = "cp" + rest
	}
	switch label {
	case "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, true
	case "utf-16", "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), true
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), true
	case "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "l1", "us-ascii", "ascii", "cp1252", "x-cp1252":
		return charmap.Windows1252, true
	case "iso-8859-2", "iso8859-2", "latin2":
		return charmap.ISO8859_2, true
	case "iso-8859-3", "latin3":
		return charmap.ISO8859_3, true
	case "iso-8859-4", "latin4":
		return charmap.ISO8859_4, true
	case "iso-8859-5", "cyrillic":
		return charmap.ISO8859_5, true
	case "iso-8859-6", "arabic":
		return charmap.ISO8859_6, true
	case "iso-8859-7", "greek":
		return charmap.ISO8859_7, true
	case "iso-8859-8", "iso-8859-8-i", "hebrew":
		return charmap.ISO8859_8, true
	case "iso-8859-9", "latin5", "cp1254":
		return charmap.Windows1254, true
	case "iso-8859-10", "latin6":
		return charmap.ISO8859_10, true
	case "iso-8859-13":
		return charmap.ISO8859_13, true
	case "iso-8859-14":
		return charmap.ISO8859_14, true
	case "iso-8859-15", "latin9":
		return charmap.ISO8859_15, true
	case "iso-8859-16":
		return charmap.ISO8859_16, true
	case "cp866", "ibm866":
		return charmap.CodePage866, true
	case "koi8-r", "koi8":
		return charmap.KOI8R, true
	case "koi8-u":
		return charmap.KOI8U, true
	case "macintosh":
		return charmap.Macintosh, true
	case "cp874", "tis-620", "iso-8859-11":
		return charmap.Windows874, true
	case "cp1250":
		return charmap.Windows1250, true
	case "cp1251":
		return charmap.Windows1251, true
	case "cp1253":
		return charmap.Windows1253, true
	case "cp1255":
		return charmap.Windows1255, true
	case "cp1256":
		return charmap.Windows1256, true
	case "cp1257":
		return charmap.Windows1257, true
	case "cp1258":
		return charmap.Windows1258, true
	case "shift_jis", "shift-jis", "sjis", "x-sjis", "cp31j", "ms_kanji":
		return japanese.ShiftJIS, true
	case "euc-jp", "x-euc-jp":
		return japanese.EUCJP, true
	case "iso-2022-jp":
		return japanese.ISO2022JP, true
	case "euc-kr", "ks_c_5601-1987", "korean", "cp949":
		return korean.EUCKR, true
	case "gb2312", "gbk", "x-gbk", "chinese":
		return simplifiedchinese.GBK, true
	case "gb18030":
		return simplifiedchinese.GB18030, true
	case "big5", "big5-hkscs", "x-x-big5":
		return traditionalchinese.Big5, true
	}
	return nil, false
}
