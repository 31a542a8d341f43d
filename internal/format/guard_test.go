package format

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/run/runtest"
)

// newest returns the guard for the newest xfsprogs in Debian.
func newest(t *testing.T) guard {
	t.Helper()
	text, err := os.ReadFile("testdata/lts_6.1.conf")
	if err != nil {
		t.Fatal(err)
	}
	features, err := parseFeatures(string(text))
	if err != nil || len(features) == 0 {
		t.Fatalf("%v, %v", features, err)
	}
	return guard{lts, features}
}

// TestNewestFeatures checks the list ltsFeatures, which replaces a missing file lts. The list ltsFeatures must equal
// the configuration file of Debian's newest xfsprogs, and must contain every feature of the installed configuration
// file.
func TestNewestFeatures(t *testing.T) {
	var known []feature
	for _, f := range ltsFeatures {
		known = append(known, f.feature)
	}
	if diff := cmp.Diff(newest(t).features, known, cmp.AllowUnexported(feature{})); diff != "" {
		t.Errorf("testdata/lts_6.1.conf (-) and ltsFeatures (+): %s", diff)
	}
	text, err := os.ReadFile(lts)
	if err != nil {
		t.Fatal(err)
	}
	installed, err := parseFeatures(string(text))
	if err != nil {
		t.Error(err)
	}
	for _, f := range installed {
		// The configuration file of xfsprogs 6.1.0 sets nrext64 in the wrong section, so chooseGuard must not use the
		// file.
		if !slices.Contains(known, f) && f != (feature{"-m", "nrext64", "0"}) {
			t.Errorf("%s has %v", lts, f)
		}
	}
}

// TestGuard checks that the arguments switch off the XFS features that Debian 12's kernel does not support. Each
// version of mkfs.xfs must get only options that this version accepts.
func TestGuard(t *testing.T) {
	for _, tc := range []struct {
		version string
		there   bool
		file    string
		without string // the first feature that is missing
		many    int
	}{
		{"5.10.0", true, "", "", 0},
		{"6.1.0", true, "", "", 0}, // Debian 12
		{"6.4.9", true, "", "", 0},
		{"6.5.0", true, lts, "", 12},
		{"6.13.0", true, lts, "", 12}, // Debian 13
		{"7.0.0-rc1", true, lts, "", 12},
		{"6.4.9", false, "", "", 0},
		{"6.5.0", false, "", "exchange", 8},
		{"6.9.0", false, "", "autofsck", 8},
		{"6.10.0", false, "", "metadir", 11},
		{"6.12.0", false, "", "metadir", 11},
		{"6.13.0", false, "", "", 12},
		{"7.0.0-rc1", false, "", "", 12},
	} {
		r := runtest.New(t)
		r.On(versionLine, runtest.Print("mkfs.xfs version "+tc.version+"\n", 0))
		got, err := chooseGuard(t.Context(), r, &world{lts: tc.there})
		has := slices.ContainsFunc(got.features, func(f feature) bool { return f.key == tc.without })
		if err != nil || got.file != tc.file || len(got.features) != tc.many || has {
			t.Errorf("%+v: %+v, error %v", tc, got, err)
		}
	}
}

// TestParseFeatures checks that an unknown line is an error, because the line may set a feature.
func TestParseFeatures(t *testing.T) {
	got, err := parseFeatures("# a comment\n\n[metadata]\n rmapbt = 0 \n[inode]\n[naming]\nparent=0")
	if want := []feature{{"-m", "rmapbt", "0"}, {"-n", "parent", "0"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"rmapbt=0", "[new]\nx=1", "[metadata]\nrmapbt", "[metadata]\n=1", "[metadata]\nrmapbt=", "[metadata]\nrmapbt=0 -f", "[metadata]\nrmapbt=0,uuid=1", "[metadata", "[metadata]\n[a=b]", "[metadata]\nrmapbt=0 ; why"} {
		if got, err := parseFeatures(text); err == nil || !strings.Contains(err.Error(), lts) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestClassFeatures checks that an option of the class replaces the same feature in the mkfs.xfs configuration file.
// mkfs.xfs refuses an option that is given twice ("-m reflink option respecified"). If a class sets one feature, all
// other features must stay as in the mkfs.xfs configuration file.
func TestClassFeatures(t *testing.T) {
	g := newest(t)
	for want, class := range map[string][]string{
		"-c options=" + lts + " -i size=1024,maxpct=5 -d noalign": {"-i size=1024,maxpct=5", "-d noalign"},
		"-m bigtime=1 -m crc=1 -m finobt=1 -m inobtcount=1 -m metadir=0 -m autofsck=0 -i sparse=1 -i nrext64=0 -i exchange=0 -n parent=0 -m reflink=0,rmapbt=1":                        {"-m reflink=0,rmapbt=1"},
		"-m bigtime=1 -m crc=1 -m finobt=1 -m inobtcount=1 -m metadir=0 -m reflink=1 -m rmapbt=0 -m autofsck=0 -i nrext64=0 -i exchange=0 -n parent=0 -i size=512,sparse=0 -n size=8k": {"-i size=512,sparse=0", "-n size=8k"},
	} {
		m := MakeOptions{Mkfs: class, Intent: disk.Intent{UUID: uuid}}
		if got := strings.Join(m.making("/dev/vdb", g).args(), " "); got != "-N "+want+" -K -m uuid="+uuid+" /dev/vdb" {
			t.Error(got)
		}
	}
	g.file = "" // without the file lts
	m := MakeOptions{Intent: disk.Intent{UUID: uuid}}
	if got := m.making("/dev/vdb", g).args(); !strings.Contains(strings.Join(got, " "), " -m rmapbt=0 ") || slices.Contains(got, "-c") {
		t.Errorf("without the file: %q", got)
	}
}
