package mounts

import "testing"

func TestPod(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/kubepods.slice/kubepods-pod0e3b1b0a_1111_2222_3333_444444444444.slice/x\n":       "0e3b1b0a-1111-2222-3333-444444444444",
		"12:cpu:/kubepods/besteffort/pod0e3b1b0a-1111-2222-3333-444444444444/x\n0::/\n":       "0e3b1b0a-1111-2222-3333-444444444444",
		"0::/kubepods/pod0123456789abcdef0123456789abcdef/x\n":                                "0123456789abcdef0123456789abcdef",
		"0::/machine.slice/libpod-89abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n": "",
		"0::/system.slice/x.service\n":                                                        "",
	} {
		if got := Pod(groups); got != want {
			t.Errorf("%q: %q", groups, got)
		}
	}
}

func TestField(t *testing.T) {
	const status = "Name:\tCapEff:\nUmask:\t0022\nCapEff:\t00000000a80425fb\n"
	for name, want := range map[string]string{"CapEff": "00000000a80425fb", "Name": "CapEff:", "Cap": "", "Groups": ""} {
		if got := Field(status, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
