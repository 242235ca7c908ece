package toolweb

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestSpecialAddresses: what is not of the public internet, by the registries of
// special-purpose addresses, and the same addresses in the forms of IPv6.
func TestSpecialAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.255.0.3": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"10.1.2.3": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "fd00:ec2::254": "private",
		"::ffff:10.0.0.1": "private", "64:ff9b::10.0.0.1": "private", "2002:a00:1::1": "private", "64:ff9b::7f00:1": "loopback",
		"169.254.169.254": "link-local", "::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local", "168.63.129.16": "link-local",
		"fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"0.0.0.0": "reserved", "0.1.2.3": "reserved", "100.64.0.1": "reserved", "100.100.100.200": "reserved", "192.0.0.192": "reserved",
		"198.18.0.1": "reserved", "203.0.113.9": "reserved", "224.0.0.1": "reserved", "240.0.0.1": "reserved", "255.255.255.255": "reserved",
		"::": "reserved", "::7f00:1": "reserved", "ff02::1": "reserved", "fec0::1": "reserved", "2001:db8::1": "reserved", "2001::1": "reserved",
		"64:ff9b:1::a00:1": "reserved", "100::1": "reserved",
		"1.1.1.1": "", "8.8.8.8": "", "172.15.0.1": "", "172.32.0.1": "", "100.63.0.1": "", "100.128.0.1": "", "169.253.1.1": "",
		"2606:4700:4700::1111": "", "2a00:1450:4001::1": "", "::ffff:8.8.8.8": "", "64:ff9b::808:808": "", "2002:808:808::1": "",
	} {
		err := newGuard(nil).check(netip.MustParseAddr(address))
		got := ""
		if e, ok := err.(*addressError); ok {
			got = e.kind
		}
		if got != want || (err == nil) != (want == "") {
			t.Errorf("%s: got %q (%v), want %q", address, got, err, want)
		}
	}
}

func TestAllowedAddresses(t *testing.T) {
	g := newGuard([]string{"10.1.0.0/16", "::1/128"})
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "::1": true, "127.0.0.1": false, "8.8.8.8": true,
	} {
		if err := g.check(netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v, want allowed=%v", address, err, want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, tc := range []struct{ text, want, refused string }{
		{text: "http://example.com", want: "https://example.com/"},
		{text: " HTTP://EXAMPLE.com:80/A?b=c#d ", want: "https://example.com/A?b=c"},
		{text: "http://example.com:8080/", want: "http://example.com:8080/"},
		{text: "http://localhost/x", want: "http://localhost/x"},
		{text: "http://app.localhost./x", want: "http://app.localhost./x"},
		{text: "http://127.0.0.1/x", want: "http://127.0.0.1/x"},
		{text: "http://[::1]:80/x", want: "http://[::1]:80/x"},
		{text: "https://example.com:80/", want: "https://example.com:80/"},
		{text: "https://bücher.example/ä", want: "https://b%C3%BCcher.example/%C3%A4"},
		{text: "", refused: "empty"},
		{text: "example.com/x", refused: "begin with https://"},
		{text: "file:///etc/passwd", refused: "begin with https://"},
		{text: "ftp://example.com", refused: "begin with https://"},
		{text: "https:example.com", refused: "no host"},
		{text: "https:///x", refused: "no host"},
		{text: "https://user:pw@example.com", refused: "user or password"},
		{text: "https://exa mple.com", refused: "cannot be read"},
		{text: "https://example.com/\n", want: "https://example.com/"},
		{text: "https://example.com/" + strings.Repeat("x", 5000), refused: "may have 4096"},
	} {
		c := claude()
		u, err := c.target(tc.text)
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) || strings.Contains(err.Error(), "pw") {
				t.Errorf("%.60q: %v, want %q", tc.text, err, tc.refused)
			}
		case err != nil || u.String() != tc.want:
			t.Errorf("%q: got %v, %v, want %q", tc.text, u, err, tc.want)
		}
	}
	c := claude()
	c.KeepHTTP = true
	if u, err := c.target("http://example.com/x"); err != nil || u.String() != "http://example.com/x" {
		t.Errorf("keepHttp: %v, %v", u, err)
	}
}

func TestSameHost(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"https://a.test/x", "https://A.test.:8443/y", true},
		{"https://a.test", "https://www.a.test", false},
		{"https://a.test", "https://b.test", false},
	} {
		a, _ := url.Parse(tc.a)
		b, _ := url.Parse(tc.b)
		if got := sameHost(a, b); got != tc.want {
			t.Errorf("%s, %s: %v", tc.a, tc.b, got)
		}
	}
}
