package permissions

import (
	"path/filepath"
	"testing"

	"dsh/kernel/approval"
	"dsh/kernel/process"
)

// TestCommandRules: the forms of rules on commands (spec stream-json 7.2).
func TestCommandRules(t *testing.T) {
	c := newCourt(t)
	for _, tc := range []struct {
		rule, command string
		want          bool
	}{
		{"Bash(npm test)", "npm test", true},
		{"Bash(npm test)", "npm  test", true},
		{"Bash(npm test)", "npm test x", false},
		{"Bash(npm test)", "'npm test'", false},
		{"bash(npm test)", "npm test", true},
		{"Bash(git:*)", "git", true},
		{"Bash(git:*)", "git push", true},
		{"Bash(git:*)", "gitk", false},
		{"Bash(git *)", "git", true},
		{"Bash(git *)", "git push", true},
		{"Bash(git *)", "gitk", false},
		{"Bash(git:*)", "/tmp/git push", false},
		{"Bash(npm run test*)", "npm run test", true},
		{"Bash(npm run test*)", "npm run test:unit -- x", true},
		{"Bash(npm run test*)", "npm run build", false},
		{"Bash(* --version)", "node --version", true},
		{"Bash(* --version)", "node --versions", false},
		{"Bash", "anything at all $X", true},
		{"Bash()", "make", true},
		{"Bash(*)", "make", true},
		{"Read(./**)", "make", false},

		// Each part needs its own.
		{"Bash(make:*)", "make && make install", true},
		{"Bash(make:*)", "make && cc x.c", false},
		{"Bash(make:*)", "(make; make) | make", true},
		{"Bash(make:*)", "if make; then make x; else make y; fi", true},
		{"Bash(make:*)", "while make; do cc; done", false},
		{"Bash(make:*)", "! make &", true},
		{"Bash(make:*)", "make && git status", true},
		{"Bash(make:*)", "# make", true},

		// What is not literal, and what changes what a word means.
		{"Bash(make:*)", "make $X", false},
		{"Bash(make:*)", `make "$X"`, false},
		{"Bash(make:*)", "make $(cc)", false},
		{"Bash(make:*)", "make `cc`", false},
		{"Bash(make:*)", "make <(make)", false},
		{"Bash(make:*)", "X=1 make", false},
		{"Bash(make:*)", "PATH=/tmp make", false},
		{"Bash(make:*)", "LD_PRELOAD=x make", false},
		{"Bash(make:*)", "export PATH=/tmp; make", false},
		{"Bash(make:*)", "make() { rm x; }; make", false},
		{"Bash(make:*)", "coproc make", false},
		{"Bash(make:*)", "make $((1+1))", false},
		{"Bash(make:*)", "((x=1)); make", false},
		{"Bash(make:*)", "make <<< $(rm x)", false},
		{"Bash(make:*)", "make <<X\n$(rm x)\nX", false},
		{"Bash(make:*)", "make <<'X'\n$(rm x)\nX", true},
		{"Bash(make:*)", "make <<X\n$(make)\nX", false},
		{"Bash(make:*)", "[[ -n $(make) ]] && make", false},
		{"Bash(make:*)", "make <<X\n$HOME\nX", false},
		{"Bash(make:*)", "make {fd}>x", false},
		{"Bash(make:*)", "make ${x@P}", false},
		{"Bash(make:*)", "make 'unfinished", false},
		{"Bash(make:*)", "make )", false},
		{"Bash(make:*)", "$MAKE x", false},
		{"Bash(make:*)", "m'a'ke x", true},
		{"Bash(make:*)", `m\ake x`, true},
		{"Bash(echo x:*)", "eval echo x", false},

		// Redirections.
		{"Bash(make:*)", "make > /dev/null 2>&1", true},
		{"Bash(make:*)", "make > out", false},
		{"Bash(make:*)", "make >& /etc/cron.d/x", false},
		{"Bash(make:*)", "make &> out", false},
		{"Bash(make:*)", "make >> out", false},
		{"Bash(make:*)", "make < in", true},
		{"Bash(make:*)", "make < /etc/passwd", false},

		// Wrappers.
		{"Bash(make:*)", "timeout 5 make x", true},
		{"Bash(make:*)", "timeout -s KILL -k 1 5 make x", true},
		{"Bash(make:*)", "timeout --foreground 5 cc x", false},
		{"Bash(make:*)", "time make", true},
		{"Bash(make:*)", "nice -n 5 make", true},
		{"Bash(make:*)", "nice -5 make", true},
		{"Bash(make:*)", "nohup make", true},
		{"Bash(make:*)", "stdbuf -oL -eL make", true},
		{"Bash(make:*)", "command make", true},
		{"Bash(make:*)", "builtin make", true},
		{"Bash(make:*)", "nohup nice timeout 5 make", true},
		{"Bash(make:*)", "LANG=C NODE_ENV=test make", true},
		{"Bash(make:*)", "LANG=$(cc) make", false},
		{"Bash(make:*)", "make | xargs make", true},
		{"Bash(make x)", "make x | xargs make x", false},
		{"Bash(make:*)", "make | xargs -I{} make {}", false},
		{"Bash(make:*)", "env make", false},
		{"Bash(make:*)", "sudo make", false},
		{"Bash(make:*)", "bash -c make", false},
		{"Bash(make:*)", "bash -c 'make'", false},
		{"Bash(bash -c:*)", "bash -c 'make'", true},
		{"Bash(make:*)", "find . -exec make ;", false},
		{"Bash(timeout:*)", "timeout 5 cc", true},
	} {
		v := c.shell(c.judge(ModeDefault, rules{allow: []string{tc.rule}}), tc.command)
		want := approval.Ask
		if tc.want {
			want = approval.Allow
		}
		wantBehavior(t, tc.rule+" for "+tc.command, v, want)
	}
}

// TestRefusedParts: deny and ask rules fire on any part, wherever it stands.
func TestRefusedParts(t *testing.T) {
	c := newCourt(t)
	for _, command := range []string{
		"rm x", "/bin/rm x", `r\m x`, "r'm' x", `"rm" x`, `$'\x72m' x`, "ls; rm x", "(rm x)", "{ rm x; }", "if true; then rm x; fi",
		"for f in a; do rm $f; done", "case a in a) rm x;; esac", "echo $(rm x)", `echo "$(rm x)"`, "echo `rm x`", "cat <(rm x)",
		"X=$(rm x) ls", "f() { rm x; }", "coproc rm x", "cat <<X\n$(rm x)\nX", "echo ${X:-$(rm x)}", "echo $(( $(rm x) ))", "[[ -n $(rm x) ]]",
		"timeout 5 rm x", "nohup rm x", "LANG=C rm x", "PATH=/x rm x", "command rm x", "exec rm x", "env rm x", "env -i A=1 rm x", "env -u X rm x",
		"sudo rm x", "sudo -u root rm x", "sudo -- rm x", "doas rm x", "nice -n 3 ionice -c 2 rm x", "setsid -w rm x", "flock /tmp/l rm x", "chroot / rm x",
		"ls | xargs rm", "ls | xargs -0 -n1 rm -f", "find . -exec rm {} \\;", "find . -execdir rm {} +", "find . -ok rm {} ;",
		"bash -c 'rm x'", "sh -c \"ls; rm x\"", "bash -lc 'rm x'", "bash -o pipefail -c 'rm x'", "bash -c 'bash -c \"rm x\"'", "su -c 'rm x' root",
		"eval rm x", "eval 'ls; rm x'", "trap 'rm x' EXIT", "watch -n 1 rm x", "watch 'rm x'", "busybox rm x", "! rm x", "rm x &", "time rm x", "rm",
	} {
		for _, behavior := range []string{approval.Deny, approval.Ask} {
			r := rules{allow: []string{"Bash"}, deny: []string{"Bash(rm:*)"}}
			if behavior == approval.Ask {
				r = rules{allow: []string{"Bash"}, ask: []string{"Bash(rm:*)"}}
			}
			wantBehavior(t, command, c.shell(c.judge(ModeBypass, r), command), behavior)
		}
	}
	for _, command := range []string{"ls", "echo rm", "rmdir x", "git rm x", "grep rm x", "env ls rm", "timeout 5 ls rm"} {
		wantBehavior(t, command, c.shell(c.judge(ModeBypass, rules{deny: []string{"Bash(rm:*)"}}), command), approval.Allow)
	}
	// git's own options in front of its command do not hide it.
	for _, command := range []string{"git push", "git -C /x push", "git -c a=b --no-pager push -f"} {
		wantBehavior(t, command, c.shell(c.judge(ModeBypass, rules{deny: []string{"Bash(git push:*)"}}), command), approval.Deny)
	}
}

// TestUnseen: where a rule about commands may apply and it cannot be seen, the
// call is asked, in every mode.
func TestUnseen(t *testing.T) {
	c := newCourt(t)
	for _, command := range []string{
		"$X y", "${X} y", "$(echo rm) x", "bash -c \"$X\"", "eval $X", "env $X", "xargs $X", "ls 'unfinished", "echo x | sh", "bash <<X\nrm x\nX", "r{m,x} y",
	} {
		j := c.judge(process.FullAccess, rules{deny: []string{"Bash(rm:*)"}})
		v := c.shell(j, command)
		if v.Behavior == approval.Allow {
			t.Errorf("%s runs under a deny rule that may be about it", command)
		}
		wantBehavior(t, command+" without rules", c.shell(c.judge(process.FullAccess, rules{}), command), approval.Allow)
	}
}

// TestReadOnlyCommands: a fixed set runs without a question in mode default;
// what such commands could do beyond reading is not in it (spec stream-json 7.2).
func TestReadOnlyCommands(t *testing.T) {
	c := newCourt(t)
	c.put("a.txt", "b.txt", "sub/c.txt")
	c.link("/etc", "out")
	inside := filepath.Join(c.cwd, "a.txt")
	for _, tc := range []struct {
		command string
		want    bool
	}{
		{"ls", true}, {"ls -la sub", true}, {"cat a.txt", true}, {"cat " + inside, true}, {"echo hi", true}, {"pwd", true}, {"echo 'a;b'", true},
		{"grep -rn x sub", true}, {"grep -e x -f a.txt b.txt", true}, {"head -n 5 a.txt | tail -1", true}, {"wc -l *.txt", true}, {"cat ./*.txt", true},
		{"find . -name '*.go' -type f", true}, {"git status", true}, {"git log --oneline -5", true}, {"git diff HEAD~1 -- a.txt", true}, {"git branch -a", true},
		{"git diff main..dev", true}, {"sort a.txt | uniq -c", true}, {"cd sub && ls", true}, {"test -f a.txt && echo y", true}, {"date +%s", true}, {"sed -n 1,5p a.txt", true},
		{"which go", true}, {"command -v go", true}, {"true || false", true}, {"LC_ALL=C sort a.txt", true}, {"rg x sub", true}, {"printf '%s' x", true},

		{"touch a", false}, {"rm a.txt", false}, {"ls > x", false}, {"echo x > a.txt", false}, {"cat a.txt | tee b", false},
		{"find . -delete", false}, {"find . -exec rm {} ;", false}, {"find . -fprint x", false}, {"find . -okdir x ;", false},
		{"sort -o a.txt b.txt", false}, {"sort -uo a.txt b.txt", false}, {"sort --output=a.txt b.txt", false}, {"sort --compress-program=x a.txt", false}, {"uniq a.txt b.txt", false},
		{"git push", false}, {"git checkout .", false}, {"git branch -D x", false}, {"git branch new", false}, {"git diff --output=x", false}, {"git diff --ext-diff", false},
		{"git -c core.pager=x log", false}, {"git -c alias.status='!rm x' status", false}, {"git grep -O x", false}, {"git config x y", false}, {"git tag v1", false},
		{"rg --pre x y", false}, {"date -s 2020", false}, {"date 0101", false}, {"hostname x", false}, {"file -C -m x", false}, {"tree -o x", false}, {"printf -v x y", false},
		{"sed -i s/a/b/ a.txt", false}, {"sed 'w x' a.txt", false}, {"sed '1e rm x' a.txt", false}, {"sed s/a/b/e a.txt", false}, {"sed 's/a/b/w x' a.txt", false}, {"sed -f x a.txt", false},
		{"awk '{print}' a.txt", false}, {"python x.py", false}, {"./ls", false}, {"/tmp/ls", false}, {"env", false}, {"xargs cat", false}, {"ls | xargs rm", false},
		{"find *", false}, {"sort *", false}, {"echo $X", false}, {"cat $X", false}, {"echo $(ls)", false}, {"ls\nrm x", false},

		// Reading is only for the working directories.
		{"cat /etc/passwd", false}, {"cat ../x", false}, {"cat ~/x", false}, {"ls /", false}, {"cat out/passwd", false}, {"cat sub/../../x", false}, {"head < /etc/passwd", false},
		{"grep x /etc/passwd", false}, {"grep --file=/etc/passwd a.txt", false}, {"grep -f/etc/passwd a.txt", false}, {"cd .. && ls", false}, {"cd / && cat etc/passwd", false},
		{"cd sub && cat ../../x", false}, {"cd - && ls a", false}, {"cd $X; ls a", false}, {"while true; do cd ..; cat x; done", false}, {"cat out/../passwd", false}, {"cat ou*/passwd", false},
		{"find / -name x", false}, {"git diff --no-index /etc/passwd a.txt", false}, {"cat */passwd", false},
	} {
		want := approval.Ask
		if tc.want {
			want = approval.Allow
		}
		wantBehavior(t, tc.command, c.shell(c.judge(ModeDefault, rules{}), tc.command), want)
	}
	// A preset does not restrict reading.
	for _, word := range []string{process.ReadOnly, process.WorkspaceWrite} {
		wantBehavior(t, word, c.shell(c.judge(word, rules{}), "cat /etc/passwd"), approval.Allow)
	}
}

// TestEditCommands: mode acceptEdits lets some commands write in the working
// directories, never what is protected (spec stream-json 7.1).
func TestEditCommands(t *testing.T) {
	c := newCourt(t)
	c.put("a.txt", "sub/b.txt", ".git/config")
	c.link(c.base, "up")
	c.link(filepath.Join(c.base, "nowhere"), "dangling")
	for _, tc := range []struct {
		command string
		want    bool
	}{
		{"mkdir -p x/y", true}, {"touch a", true}, {"rm a.txt", true}, {"rm -rf sub", true}, {"rmdir sub", true}, {"mv a.txt b", true}, {"cp -r sub x", true},
		{"sed -i s/a/b/g a.txt", true}, {"mkdir x && touch x/y", true}, {"echo hi > x", true}, {"cd sub && rm b.txt", true}, {"touch " + filepath.Join(c.cwd, "z"), true},

		{"touch ../x", false}, {"touch /etc/x", false}, {"touch ~/x", false}, {"rm up/x", false}, {"touch dangling", false}, {"echo x > dangling", false}, {"mv a.txt /tmp/x", false},
		{"cp /etc/passwd x", false}, {"touch .git/hooks/x", false}, {"rm -rf .git", false}, {"echo x > .git/config", false}, {"echo x >> .bashrc", false}, {"touch .claude/settings.json", false},
		{"touch sub/.git/x", false}, {"rm -rf .", false}, {"rm -rf " + c.cwd, false}, {"rm -rf ..", false}, {"rm -rf *", false}, {"rm $X", false}, {"cp -t /x a.txt", false},
		{"rm --no-preserve-root a", false}, {"mkdir -m 777 x", false}, {"sed -i 's/a/b/e' a.txt", false}, {"sed -i w\\ /x a.txt", false}, {"chmod +x a.txt", false}, {"ln -s a b", false},
		{"cd .. && rm x", false}, {"cd up && rm x", false}, {"git commit -m x", false}, {"xargs rm", false}, {"touch a; make", false}, {"for i in 1 2; do cd ..; rm x; done", false},
	} {
		want := approval.Ask
		if tc.want {
			want = approval.Allow
		}
		wantBehavior(t, tc.command, c.shell(c.judge(ModeAcceptEdits, rules{}), tc.command), want)
		if tc.want {
			wantBehavior(t, "default: "+tc.command, c.shell(c.judge(ModeDefault, rules{}), tc.command), approval.Ask)
		}
		// Where the machine cannot confine, preset workspace-write is as careful.
		wantBehavior(t, "unconfined: "+tc.command, c.shell(c.judge(process.WorkspaceWrite, rules{}), tc.command), map[bool]string{true: approval.Allow, false: approval.Ask}[tc.want || reads(tc.command)])
	}
}

// reads names the commands above that a preset, which opens all files for
// reading, allows though mode acceptEdits does not.
func reads(command string) bool { return command == "cp /etc/passwd x" }

// TestWorkdir: relative words start at the folder that the call names.
func TestWorkdir(t *testing.T) {
	c := newCourt(t)
	c.put("sub/secret/key")
	j := c.judge(ModeAcceptEdits, rules{deny: []string{"Read(./sub/secret/**)"}})
	for _, tc := range []struct{ command, workdir, want string }{
		{"touch x", "sub", approval.Allow},
		{"touch x", "..", approval.Ask},
		{"cd ..; touch x", "sub", approval.Allow},
		{"for i in 1 2; do cd ..; done; touch x", "sub", approval.Ask},
		{"while true; do cd ..; touch x; done", "sub", approval.Ask},
		{"touch x", "/", approval.Ask},
		{"cat key", "sub/secret", approval.Deny},
		{"cat secret/key", "sub", approval.Deny},
		{"cat secret/key", "", approval.Allow},
	} {
		v := j.Decide(bashSpec, args(t, map[string]any{"command": tc.command, "workdir": tc.workdir}))
		wantBehavior(t, tc.command+" in "+tc.workdir, v, tc.want)
	}
}
