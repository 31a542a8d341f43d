package worker

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDebianSources(t *testing.T) {
	const release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n"
	tests := []struct {
		name  string
		files map[string]string
		suite string
		want  []string // nil if the test case expects an error
	}{
		{
			name: "deb822, as Debian's images have it",
			files: map[string]string{"sources.list.d/debian.sources": `Types: deb deb-src
# a comment in the middle
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`},
			suite: "bookworm",
			want: []string{
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main",
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm-updates main",
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian-security bookworm-security main",
			},
		},
		{
			name: "one line each, for another release",
			files: map[string]string{"sources.list": `# deb http://old.example/debian bookworm main
deb http://mirror.example/debian/ bookworm main non-free # why not
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 trusted=yes] http://mirror.example/security bookworm/updates main
deb http://mirror.example/debian bookworm contrib
`},
			suite: "trixie",
			want: []string{
				"deb http://mirror.example/debian/ trixie main",
				"deb [trusted=yes] http://mirror.example/security trixie-security main",
			},
		},
		{
			name: "other people's archives, switched off ones, and files that apt does not read",
			files: map[string]string{
				"sources.list": "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian bookworm main\n",
				"sources.list.d/a.list": "deb [signed-by=/etc/apt/keyrings/other.gpg] http://other.example/apt bookworm main\n" +
					"deb http://other.example/apt stable main\n",
				"sources.list.d/b.sources": "Types: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n\n\n" +
					"Types: deb\nURIs: http://flat.example/\nSuites: ./\n\n" +
					"Types: deb\nURIs: http://inline.example/\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n xyz\n",
				"sources.list.d/c.sources.disabled": "Types: deb\nURIs: http://c.example/\nSuites: bookworm\nComponents: main\n",
			},
			suite: "bookworm",
			want:  []string{"deb http://mirror.example/debian bookworm main"},
		},
		{
			name:  "nothing of Debian's",
			files: map[string]string{"sources.list.d/a.list": "deb http://other.example/apt stable main\n"},
			suite: "bookworm",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "etc/os-release"), release)
			for name, text := range test.files {
				write(t, filepath.Join(root, "etc/apt", name), text)
			}
			got, err := debianSources(root, test.suite)
			if test.want == nil {
				if err == nil {
					t.Fatalf("no error, but %q", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Split(strings.TrimSpace(got), "\n"); !slices.Equal(lines, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestDebianSourcesElsewhere(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/os-release"), "ID=ubuntu\nVERSION_CODENAME=noble\n")
	if got, err := debianSources(root, "bookworm"); err == nil {
		t.Errorf("no error, but %q", got)
	}
}

func TestFilterAptOptions(t *testing.T) {
	got := filterAptOptions(`APT "";
Acquire::Check-Valid-Until "false";
Acquire::Languages:: "none";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::http::Proxy::mirror.example "DIRECT";
Dir::Etc::trusted "trusted.gpg";
`)
	want := []string{
		`Acquire::Check-Valid-Until "false";`,
		`Acquire::http::Proxy "http://proxy.example:3128";`,
		`Acquire::http::Proxy::mirror.example "DIRECT";`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNeed checks that requirePackages names the missing packages, and only these, to a user who is not root.
func TestNeed(t *testing.T) {
	err := requirePackages(t.Context(), io.Discard, []string{"bash", "hotmount-no-such"}, 1000)
	if err == nil || err.Error() != "these Debian packages are missing: hotmount-no-such" {
		t.Errorf("got %v", err)
	}
	if err := requirePackages(t.Context(), io.Discard, []string{"bash"}, 1000); err != nil {
		t.Errorf("with all there: %v", err)
	}
}

// TestNeedInstalls checks that requirePackages installs missing packages for root. If the installation fails,
// requirePackages updates the package lists and tries once more.
func TestNeedInstalls(t *testing.T) {
	for name, fails := range map[string]int{"at once": 0, "with new lists": 1, "not at all": 2} {
		dir := t.TempDir()
		calls := filepath.Join(dir, "calls")
		write(t, filepath.Join(dir, "apt-get"), fmt.Sprintf("#!/bin/sh\necho $* >>%[1]s\ncase $* in *update*) exit 0 ;; esac\n[ $(grep -c install %[1]s) -gt %[2]d ]\n", calls, fails))
		if err := os.Chmod(filepath.Join(dir, "apt-get"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		t.Setenv("HOTMOUNT_TEST_CACHE", dir)
		err := requirePackages(t.Context(), io.Discard, []string{"bash", "hotmount-no-such"}, 0)
		if (err != nil) != (fails > 1) {
			t.Errorf("%s: %v", name, err)
		}
		b, _ := os.ReadFile(calls)
		const install = "-y -q -o DPkg::Lock::Timeout=600 --no-install-recommends install hotmount-no-such\n"
		want := install
		if fails > 0 {
			want += "-q -o DPkg::Lock::Timeout=600 update\n" + install
		}
		if string(b) != want {
			t.Errorf("%s: called was apt-get\n%s", name, b)
		}
	}
}
