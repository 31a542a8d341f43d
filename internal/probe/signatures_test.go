package probe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/run"
	"hotmount/internal/run/runtest"
)

// The constants are outputs of wipefs and blkid from util-linux 2.38.1 (Debian 12).
const (
	wipefsNothing = "{\n   \"signatures\": [\n\n   ]\n}\n"
	wipefsXFS     = `{
   "signatures": [
      {
         "device": "vdb",
         "offset": "0x0",
         "type": "xfs",
         "uuid": "1a87b826-5e06-442a-902d-df3304da8e48",
         "label": "a b=\"x"
      }
   ]
}
`
	wipefsSwap = `{
   "signatures": [
      {
         "device": "vdb",
         "offset": "0xff6",
         "type": "swap",
         "uuid": "7d87a22b-9e9e-48e8-bd5e-e51481945034",
         "label": null
      }
   ]
}
`
	blkidXFS = `ID_FS_LABEL=a_b="x
ID_FS_LABEL_ENC=a\x20b=\x22x
ID_FS_UUID=1a87b826-5e06-442a-902d-df3304da8e48
ID_FS_UUID_ENC=1a87b826-5e06-442a-902d-df3304da8e48
ID_FS_BLOCK_SIZE=512
ID_FS_TYPE=xfs
ID_FS_USAGE=filesystem
`
	blkidSwap = `ID_FS_UUID=7d87a22b-9e9e-48e8-bd5e-e51481945034
ID_FS_UUID_ENC=7d87a22b-9e9e-48e8-bd5e-e51481945034
ID_FS_VERSION=1
ID_FS_TYPE=swap
ID_FS_USAGE=other
`
	blkidAmbivalent = "ID_FS_AMBIVALENT=filesystem:xfs filesystem:ext4:1.0\n"

	wipefsLine = "/usr/sbin/wipefs -n -J /dev/vdb"
	blkidLine  = "/usr/sbin/blkid -p -o udev /dev/vdb"
)

func TestParseWipefs(t *testing.T) {
	for _, tc := range []struct {
		out  string
		want []Signature
	}{
		{wipefsNothing, nil},
		{`{"signatures": []}`, nil},
		{wipefsXFS, []Signature{{Tool: "wipefs", Type: "xfs", UUID: "1a87b826-5e06-442a-902d-df3304da8e48", Label: `a b="x`}}},
		{wipefsSwap, []Signature{{Tool: "wipefs", Type: "swap", UUID: "7d87a22b-9e9e-48e8-bd5e-e51481945034", Offset: 0xff6}}},
	} {
		got, err := parseWipefs([]byte(tc.out))
		if err != nil {
			t.Errorf("%s: %v", tc.out, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.out, diff)
		}
	}
	for _, out := range []string{
		"", " ", "null", "[]", "{}", `{"signatures": null}`, `{"signatures": [null]}`, `{"signatures": [{}]}`,
		`{"signatures": []} {"signatures": [1]}`, `{"signatures": []} x`, `{"signatures": [], "more": 1}`,
		`{"signatures": [{"offset": "0x0", "type": ""}]}`, `{"signatures": [{"type": "xfs"}]}`,
		`{"signatures": [{"offset": "-1", "type": "xfs"}]}`, `{"signatures": [{"offset": "0x0", "type": "xfs", "x": 1}]}`,
		`{"signatures": [`, "DEVICE OFFSET TYPE UUID LABEL\n",
	} {
		if got, err := parseWipefs([]byte(out)); err == nil {
			t.Errorf("%q: understood as %v", out, got)
		}
	}
}

func TestParseBlkid(t *testing.T) {
	for _, tc := range []struct {
		out  string
		want []Signature
	}{
		{"", nil},
		{blkidXFS, []Signature{{Tool: "blkid", Type: "xfs", Usage: "filesystem", UUID: "1a87b826-5e06-442a-902d-df3304da8e48", Label: `a b="x`}}},
		{blkidSwap, []Signature{{Tool: "blkid", Type: "swap", Usage: "other", UUID: "7d87a22b-9e9e-48e8-bd5e-e51481945034"}}},
		{blkidAmbivalent, []Signature{{Tool: "blkid", Type: "filesystem:xfs filesystem:ext4:1.0", Usage: "ambivalent"}}},
		{"ID_PART_TABLE_UUID=1\nID_PART_TABLE_TYPE=gpt\n", []Signature{{Tool: "blkid", Type: "gpt", Usage: "partition table"}}},
		{"ID_FS_TYPE=xfs\nID_PART_TABLE_TYPE=gpt\n", []Signature{{Tool: "blkid", Type: "xfs"}, {Tool: "blkid", Type: "gpt", Usage: "partition table"}}},
		{"ID_NEWS=1\n", []Signature{{Tool: "blkid", Type: "unknown"}}},
		{"ID_FS_TYPE=\n", []Signature{{Tool: "blkid", Type: "unknown"}}},
	} {
		got, err := parseBlkid([]byte(tc.out))
		if err != nil {
			t.Errorf("%s: %v", tc.out, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.out, diff)
		}
	}
	for _, out := range []string{"\n", "x", "=x\n", "/dev/vdb: TYPE\n", "ID_FS_TYPE=xfs\nID_FS_TYPE=ext4\n"} {
		if got, err := parseBlkid([]byte(out)); err == nil {
			t.Errorf("%q: understood as %v", out, got)
		}
	}
}

func TestSignatures(t *testing.T) {
	xfs := []Signature{
		{Tool: "wipefs", Type: "xfs", UUID: "1a87b826-5e06-442a-902d-df3304da8e48", Label: `a b="x`},
		{Tool: "blkid", Type: "xfs", Usage: "filesystem", UUID: "1a87b826-5e06-442a-902d-df3304da8e48", Label: `a b="x`},
	}
	ambivalent := []Signature{{Tool: "blkid", Type: "filesystem:xfs filesystem:ext4:1.0", Usage: "ambivalent"}}
	both := func(stdout, stderr string, code int) runtest.Answer {
		return func(run.Command) (run.Result, error) {
			return run.Result{Stdout: []byte(stdout), Stderr: []byte(stderr), ExitCode: code}, nil
		}
	}
	nothing, silent := runtest.Print(wipefsNothing, 0), runtest.Print("", 2)
	for _, tc := range []struct {
		name          string
		wipefs, blkid runtest.Answer
		want          []Signature
		err           string
	}{
		{"blank", nothing, silent, nil, ""},
		{"xfs", runtest.Print(wipefsXFS, 0), runtest.Print(blkidXFS, 0), xfs, ""},
		{"words count, the exit code does not", nothing, both(blkidAmbivalent, "ambivalent result", 8), ambivalent, ""},
		{"words count with any exit code", nothing, runtest.Print(blkidAmbivalent, 2), ambivalent, ""},

		{"wipefs: missing disk", runtest.Complain("wipefs: error: /dev/vdb: probing initialization failed", 1), silent, nil, "exit code 1"},
		{"wipefs: nothing and exit code 1", runtest.Print(wipefsNothing, 1), silent, nil, "exit code 1"},
		{"wipefs: a signature and exit code 1", runtest.Print(wipefsXFS, 1), silent, nil, "exit code 1"},
		{"wipefs: nothing and a complaint", both(wipefsNothing, "read error", 0), silent, nil, "read error"},
		{"wipefs: no output", runtest.Print("", 0), silent, nil, "cannot understand /usr/sbin/wipefs"},
		{"wipefs: killed", runtest.Fail(errors.New("signal: killed")), silent, nil, "signal: killed"},

		{"blkid: exit code 0 and nothing", nothing, runtest.Print("", 0), nil, "exit code 0"},
		{"blkid: exit code 4", nothing, runtest.Print("", 4), nil, "exit code 4"},
		{"blkid: exit code 8 and nothing", nothing, runtest.Print("", 8), nil, "exit code 8"},
		{"blkid: a complaint", nothing, runtest.Complain("ambivalent result", 2), nil, "ambivalent result"},
		{"blkid: strange words", nothing, runtest.Print("hello\n", 0), nil, "hello"},
		{"blkid: killed", nothing, runtest.Fail(errors.New("signal: killed")), nil, "signal: killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := runtest.New(t)
			r.On(wipefsLine, tc.wipefs)
			r.On(blkidLine, tc.blkid)
			got, err := Signatures(t.Context(), r, "/dev/vdb")
			switch {
			case tc.err == "" && err != nil:
				t.Error(err)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseWipefs(f *testing.F) {
	for _, s := range []string{"", wipefsNothing, wipefsXFS, wipefsSwap, `{"signatures": [], "more": 1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		list, err := parseWipefs(out)
		if err != nil && list != nil {
			t.Error("got an error and a list")
		}
		if err == nil && !strings.Contains(string(out), "[") {
			t.Errorf("%q is understood", out)
		}
		for _, s := range list {
			if s.Type == "" {
				t.Error("got a signature without a type")
			}
		}
	})
}

func FuzzParseBlkid(f *testing.F) {
	for _, s := range []string{"", blkidXFS, blkidSwap, blkidAmbivalent, "ID_NEWS=1\n", "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		list, err := parseBlkid(out)
		if err == nil && len(out) > 0 && len(list) == 0 {
			t.Errorf("%q counts as no output", out)
		}
		for _, s := range list {
			if s.Type == "" {
				t.Error("got a signature without a type")
			}
		}
	})
}
