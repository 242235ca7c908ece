package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"dsh/sdkproto/wirejson"
)

// loginLimit is how long a login page may take.
const loginLimit = 10 * time.Minute

// callbackPath is where the browser comes back.
const callbackPath = "/callback"

// loginClient talks with authorization servers.
func loginClient() *http.Client { return &http.Client{Timeout: 30 * time.Second} }

// login is how one connection is authorized. It implements auth.OAuthHandler:
// the SDK does the protocol, login keeps the tokens and waits for the person.
type login struct {
	c      *conn
	file   string
	client *http.Client

	mu     sync.Mutex
	source oauth2.TokenSource
}

// saved is what is kept of a login.
type saved struct {
	URL          string    `json:"url"`
	ClientID     string    `json:"clientId"`
	ClientSecret string    `json:"clientSecret,omitzero"`
	TokenURL     string    `json:"tokenUrl"`
	AuthStyle    int       `json:"authStyle,omitzero"`
	AccessToken  string    `json:"accessToken"`
	RefreshToken string    `json:"refreshToken,omitzero"`
	TokenType    string    `json:"tokenType,omitzero"`
	Expiry       time.Time `json:"expiry,omitzero"`
}

// login gives what authorizes a connection, with the tokens of an earlier login
// if there are any.
func (s *server) login(c *conn) (*login, error) {
	sum := sha256.Sum256([]byte(c.target.url))
	l := &login{c: c, client: loginClient(), file: filepath.Join(s.m.self.Home, "mcp", hex.EncodeToString(sum[:12])+".json")}
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	} else if err != nil {
		s.log.Warn("the login of an mcp server cannot be read; it may have to be made again", "error", err)
		return l, nil
	}
	var kept saved
	if err := wirejson.Unmarshal(data, &kept); err != nil || kept.URL != c.target.url {
		s.log.Warn("the login of an mcp server is of no use; it may have to be made again", "file", l.file)
		return l, nil
	}
	config := &oauth2.Config{ClientID: kept.ClientID, ClientSecret: kept.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: kept.TokenURL, AuthStyle: oauth2.AuthStyle(kept.AuthStyle)}}
	token := &oauth2.Token{AccessToken: kept.AccessToken, RefreshToken: kept.RefreshToken, TokenType: kept.TokenType, Expiry: kept.Expiry}
	l.source = l.keeping(config, config.TokenSource(context.WithValue(c.ctx, oauth2.HTTPClient, l.client), token), token.AccessToken)
	return l, nil
}

// TokenSource implements auth.OAuthHandler.
func (l *login) TokenSource(context.Context) (oauth2.TokenSource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source, nil
}

// Authorize implements auth.OAuthHandler: it tells where a person has to log in
// and waits for them.
func (l *login) Authorize(ctx context.Context, r *http.Request, resp *http.Response) error {
	s := l.c.s
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.OAuth.CallbackPort)))
	if err != nil {
		resp.Body.Close()
		return &loginError{fmt.Sprintf("the server wants a login, and there is no port to come back to: %v", err)}
	}
	back := newCallback(listener)
	defer back.close()
	redirect := "http://" + listener.Addr().String() + callbackPath
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect, Client: l.client, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			pending := &loginError{"the server wants a login: open " + a.URL}
			s.mu.Lock()
			patience := s.patience
			s.mu.Unlock()
			if patience == nil || !patience(pending) {
				return nil, &loginError{"the login is not valid any more; reconnect to log in again"}
			}
			return back.wait(ctx)
		},
		NewTokenSource: func(ctx context.Context, config *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			source := l.keeping(config, config.TokenSource(ctx, t), "")
			_, err := source.Token() // keeps it
			return source, err
		},
	}
	if id := s.OAuth.ClientID; id != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
		if name := s.OAuth.ClientSecretEnv; name != "" {
			config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: os.Getenv(name)}
		}
	} else {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "dsh", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	if len(s.OAuth.Scopes) > 0 {
		config.ScopeFilter = func([]string) []string { return s.OAuth.Scopes }
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		resp.Body.Close()
		return &loginError{fmt.Sprintf("the server wants a login, and oauth is not configured well: %v", err)}
	}
	if err := handler.Authorize(ctx, r, resp); err != nil {
		var pending *loginError
		if errors.As(err, &pending) {
			return err
		}
		return &loginError{fmt.Sprintf("the server wants a login, which has failed: %v; reconnect to try again", err)}
	}
	source, err := handler.TokenSource(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if source != nil {
		l.source = source
	}
	return nil
}

// keeper is a token source that keeps each new token on the disk.
type keeper struct {
	l      *login
	config *oauth2.Config
	from   oauth2.TokenSource

	mu   sync.Mutex
	last string
}

func (l *login) keeping(config *oauth2.Config, from oauth2.TokenSource, last string) *keeper {
	return &keeper{l: l, config: config, from: from, last: last}
}

// Token implements oauth2.TokenSource.
func (k *keeper) Token() (*oauth2.Token, error) {
	t, err := k.from.Token()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.AccessToken == k.last {
		return t, nil
	}
	k.last = t.AccessToken
	if err := k.l.keep(saved{
		URL: k.l.c.target.url, ClientID: k.config.ClientID, ClientSecret: k.config.ClientSecret,
		TokenURL: k.config.Endpoint.TokenURL, AuthStyle: int(k.config.Endpoint.AuthStyle),
		AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, TokenType: t.TokenType, Expiry: t.Expiry,
	}); err != nil {
		k.l.c.s.log.Warn("the login of an mcp server cannot be kept; it has to be made again next time", "error", err)
	}
	return t, nil
}

// keep writes a login where only its owner reads it.
func (l *login) keep(what saved) error {
	data, err := wirejson.Marshal(what)
	if err != nil {
		return err
	}
	dir := filepath.Dir(l.file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "login-*") // for its owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// callback takes the browser's return.
type callback struct {
	server *http.Server
	done   chan struct{}
	result chan *auth.AuthorizationResult
	failed chan error
}

func newCallback(l net.Listener) *callback {
	b := &callback{done: make(chan struct{}), result: make(chan *auth.AuthorizationResult, 1), failed: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if code := q.Get("code"); code != "" {
			select {
			case b.result <- &auth.AuthorizationResult{Code: code, State: q.Get("state"), Iss: q.Get("iss")}:
			default:
			}
			fmt.Fprintln(w, "You are logged in. You may close this page.")
			return
		}
		select {
		case b.failed <- fmt.Errorf("the login page says: %s %s", clip(q.Get("error"), 200), clip(q.Get("error_description"), 500)):
		default:
		}
		fmt.Fprintln(w, "The login has failed. You may close this page.")
	})
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(l) // ends with close
	}()
	return b
}

func (b *callback) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case r := <-b.result:
		return r, nil
	case err := <-b.failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *callback) close() {
	// The page that says so must still get out.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.server.Shutdown(ctx)
	_ = b.server.Close()
	<-b.done
}
