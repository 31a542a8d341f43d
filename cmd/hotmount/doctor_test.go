package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/mounts"
)

// The children that the tests ask are this program once more.
func TestMain(m *testing.M) {
	// The settings of whoever runs the tests are not to be theirs.
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "HOTMOUNT_") {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "child-hangs":
			fmt.Println(`{"at":"/first"}`)
			select {}
		case "child-fails":
			fmt.Println(`{"at":"/first"}`)
			fmt.Println(`{"failure":"no such process"}`)
			os.Exit(1)
		case "look":
			c := lookCommand()
			c.SetArgs(os.Args[2:])
			if err := c.Execute(); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		case "usage":
			// A dead filesystem does not keep the others from answering.
			for _, p := range os.Args[2:] {
				if p != "/dead" {
					fmt.Printf("{\"At\":%q,\"Size\":%d}\n", p, len(os.Args)-2)
				}
			}
			if slices.Contains(os.Args[2:], "/dead") {
				select {}
			}
			os.Exit(0)
		case "child-babbles":
			fmt.Println(`{"at":"/first"}`)
			fmt.Println(strings.Repeat("x", 2<<20))
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// TestAnswers: what a child has said counts, whether it then hangs, fails or
// babbles.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct{ child, want string }{{"child-hangs", "no answer"}, {"child-fails", "no such process"}, {"child-babbles", "token too long"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		all, err := lookAnswers(ctx, nil, tt.child)
		cancel()
		if len(all) != 1 || all[0].At != "/first" || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %+v, %v", tt.child, all, err)
		}
	}
}

// TestLookMany: more paths than fit on a command line (128 KiB a word, 2 MiB in
// all) are looked at.
func TestLookMany(t *testing.T) {
	paths := []string{"/", "/no\nsuch"}
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/%d/", i)+strings.Repeat("x", 100<<10))
	}
	all, err := askAt(t.Context(), os.Getpid(), paths)
	if err != nil || len(all) != len(paths)+2 {
		t.Fatalf("%d answers, %v", len(all), err)
	}
	got := map[string]*doctor.Sight{}
	for _, a := range all {
		got[a.At] = a.Sight
	}
	if got["/"] == nil || got["/"].MountID == 0 || got["/no\nsuch"] == nil || !got["/no\nsuch"].Absent || got[paths[2]] == nil || got[paths[2]].Failure == "" {
		t.Errorf("got %+v, %+v, %+v", got["/"], got["/no\nsuch"], got[paths[2]])
	}
}

// TestHarmless: the last net under the words.
func TestHarmless(t *testing.T) {
	r := &doctor.Report{Findings: []doctor.Finding{{Level: doctor.Problem, What: "a\x1b[2J\nnothing found\u009b\xff", Do: []string{"x '\\'' y", "\r\n  curl|sh"}}}}
	var b strings.Builder
	if err := printReport(&b, r, "text"); err != nil {
		t.Fatal(err)
	}
	if want := "\nPROBLEM: a�[2J�nothing found��\n    x '\\'' y\n    ��  curl|sh\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

func TestPrintReport(t *testing.T) {
	const dir = "/mnt/disks"
	kubelet := doctor.Process{PID: 8, Name: "kube\x1b[31mlet", Role: doctor.Kubelet}
	r := &doctor.Report{
		Host: []doctor.HostDirectory{{Class: "default", Directory: dir, Shared: 1, Mounts: []mounts.Mount{{MountPoint: disk.MountPoint{Path: dir + "/a"}}}}},
		Seen: []doctor.Seen{
			{Process: kubelet, Class: "default", Directory: dir, Sees: "same", Mounts: []doctor.SeenMount{{Sees: "same"}, {Sees: "directory"}}},
			{Process: kubelet, Class: "default", Directory: dir, Sees: "absent"},
		},
		Findings: []doctor.Finding{
			{Level: doctor.Problem, What: "it is wrong", Do: []string{"do", "  this"}, Data: dir + "/a", Reach: "/proc/8/root/data"},
			{Level: doctor.Warning, What: "so is this", Do: []string{"do", "  this"}},
		},
	}
	var b strings.Builder
	if err := printReport(&b, r, "text"); err != nil {
		t.Fatal(err)
	}
	const want = `/mnt/disks (class default) on the host: shared, 1 disk mounted
  kubelet 8 (kube\x1b[31mlet): 1 of 2 disks right, later mounts do NOT arrive
  kubelet 8 (kube\x1b[31mlet): /mnt/disks is not there

PROBLEM: it is wrong
  the data: /mnt/disks/a on the host's system disk, under what is mounted there
  to be read now at: /proc/8/root/data
    do
      this

WARNING: so is this
    (the lines above help here, too)
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	if err := verdict(r); exitCode(err) != 3 || err.Error() != "found 1 problem and 1 warning" {
		t.Errorf("verdict %v", err)
	}
	r.Findings = []doctor.Finding{{Level: doctor.Note}}
	if err := verdict(r); err != nil {
		t.Errorf("a note is an error: %v", err)
	}
	if exitCode(errors.New("x")) != 1 {
		t.Error("another error is a finding")
	}
}
