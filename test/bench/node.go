package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hotmount/test/worker"
)

// numbers runs a script in the worker and gives the numbers that it prints.
func (b *bench) numbers(ctx context.Context, script string) ([]float64, error) {
	said, err := b.w.Run(ctx, script)
	if err != nil {
		return nil, err
	}
	var all []float64
	for _, word := range strings.Fields(said) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", said, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// secondLook in milliseconds is for how long a new filesystem is left alone before
// it is read once more (secondLook in cmd/hotmount): a wait, as settle is, which is 0 here.
const secondLook = 3000

// blank measures a blank disk, from the kernel's event to the mount: one that is read as
// fast as the host fills memory, where all time is that of the emulated processors, and
// one with the speed of a good SATA disk.
func (b *bench) blank(ctx context.Context) error {
	b.direct = true
	defer func() { b.direct, b.limit = false, 0 }()
	for _, speed := range []struct {
		limit int
		name  string
	}{{500_000_000, "read at 500 MB/s"}, {0, "as fast as memory"}} {
		b.limit = speed.limit
		took := map[string][]float64{}
		for round := range max(1, b.rounds/2) {
			all, err := b.blankRound(ctx, round)
			if err != nil {
				return err
			}
			for name, ms := range all {
				took[name] = append(took[name], ms)
				fmt.Fprintf(b.out, "blank disk, %s: round %d, %s: %.0f ms\n", speed.name, round+1, name, ms)
			}
		}
		figure := "kernel add to mounted, blank 5 GiB disk, " + speed.name
		for _, w := range blankWays {
			b.table.add(figure, w.name, "ms", took[w.name])
		}
		busy := slices.Clone(took[byHotmount.name])
		for i := range busy {
			busy[i] -= secondLook
		}
		b.table.add(figure+", the wait for the second look not counted", byHotmount.name, "ms", busy)
		claim := "blank disk, " + speed.name + ", of read + mkfs.xfs -K + systemd-mount"
		b.table.ratio(claim, took[byHotmount.name], took[byParts.name], 1.15)
		b.table.ratio(claim+", the wait for the second look not counted", busy, took[byParts.name], 1.15)
	}
	return nil
}

const blankSize = 5 << 30

// byParts is what a blank disk is measured against: what has to be done with it, one after the other.
var byParts = way{"dd, mkfs.xfs -K, systemd-mount", "", "hear", ""}

// blankWays are those for a blank disk, with which the rule does nothing. The loop reads nothing of it.
var blankWays = []way{byHotmount, byParts, byLoop, byFormat}

// blankRound gives how long a blank disk took each way, in milliseconds. A small one comes before (turn).
func (b *bench) blankRound(ctx context.Context, round int) (map[string]float64, error) {
	took := map[string]float64{}
	for _, size := range []int64{blankSize / 16, blankSize} {
		images, err := b.images(ctx, fmt.Sprintf("blank-%d-%d-%d-", b.limit, round, size), len(blankWays), size, false)
		if err != nil {
			return nil, err
		}
		for i := range blankWays {
			image := (i + round) % len(blankWays)
			w := blankWays[image]
			seen, err := b.turn(ctx, w, images[image:][:1], func(Seen) error {
				if w != byParts {
					return nil
				}
				n, err := b.numbers(ctx, `s=$(date +%s%N)
dd if=/dev/vdb of=/dev/null bs=1M iflag=direct 2>/dev/null; mkfs.xfs -q -K /dev/vdb
systemd-mount -q --fsck=no -t xfs /dev/vdb /mnt/disks/parts; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))`)
				if err == nil {
					took[w.name] = n[0]
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			if w != byParts {
				took[w.name] = last(seen.Mounted) - first(seen.Added)
			}
		}
	}
	return took, nil
}

const mostDisks = 24

// many attaches mostDisks disks with a filesystem while the daemon is stopped,
// starts it, and gives how long it took to READY, in milliseconds.
func (b *bench) many(ctx context.Context) (float64, error) {
	images, err := b.images(ctx, "many", mostDisks, 320<<20, true)
	if err != nil {
		return 0, err
	}
	if _, err := b.w.Run(ctx, "systemctl stop hotmount"); err != nil {
		return 0, err
	}
	for _, image := range images {
		if _, err := b.w.Attach(ctx, worker.Disk{File: image}); err != nil {
			return 0, err
		}
	}
	return b.ready(ctx, fmt.Sprintf("while [ $(ls /dev/vd? | wc -l) -lt %d ]; do sleep 0.2; done; udevadm settle; systemctl start hotmount", mostDisks+1))
}

// ready gives the time from the daemon's start to READY, in milliseconds.
func (b *bench) ready(ctx context.Context, script string) (float64, error) {
	n, err := b.numbers(ctx, script+`
systemctl show -P ExecMainStartTimestampMonotonic hotmount; systemctl show -P ActiveEnterTimestampMonotonic hotmount
findmnt -rno TARGET | grep -c ^/mnt/disks/`)
	if err != nil {
		return 0, err
	}
	if n[2] != mostDisks {
		return 0, fmt.Errorf("%v of %d disks are mounted", n[2], mostDisks)
	}
	return (n[1] - n[0]) / 1000, nil
}

// restart measures a start with all disks mounted against one that mounts them, and against the other ways of it.
func (b *bench) restart(ctx context.Context) error {
	mounting, err := b.many(ctx)
	if err != nil {
		return err
	}
	var again []float64
	for range max(3, b.rounds) {
		ms, err := b.ready(ctx, "systemctl restart hotmount")
		if err != nil {
			return err
		}
		again = append(again, ms)
	}
	figure := fmt.Sprintf("start to READY, %d disks", mostDisks)
	b.table.add(figure, "to be mounted", "ms", []float64{mounting})
	m := b.table.add(figure, "mounted already", "ms", again)
	took, others := map[string][]float64{}, []way{byRule, byTuned, byLoop, byMount}
	for round := range 2 {
		for i := range others {
			w := others[(i+round)%len(others)]
			ms, err := b.triggered(ctx, w)
			if err != nil {
				return err
			}
			took[w.name] = append(took[w.name], ms)
		}
	}
	for _, w := range others {
		theirs := b.table.add(fmt.Sprintf("add to last mount, %d disks that are there", mostDisks), w.name, "ms", took[w.name])
		if w == byRule {
			b.table.claim("start to READY with mounted disks, of the rule's mounting them", m/theirs, 0.1, "x")
		}
	}
	b.table.claim("start to READY with mounted disks, of mounting them itself", m/mounting, 0.1, "x")
	return nil
}

// triggered has the disks that are there mounted by w, as the kernel and udev tell of each once more, and gives
// how long that took, in milliseconds.
func (b *bench) triggered(ctx context.Context, w way) (float64, error) {
	setUp, begin := w.setUp+waited, "udevadm trigger --action=add $(ls -d /sys/class/block/vd[b-z])"
	if w == byLoop { // it waits for no event
		setUp, begin = "true"+waited, begin+"\n"+w.setUp
	}
	if _, err := b.w.Run(ctx, clear+"\n"+setUp); err != nil {
		return 0, err
	}
	seen, err := b.observe(ctx, w.how, mostDisks, func() error {
		_, err := b.w.Run(ctx, begin)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", w.name, err)
	}
	return last(seen.Mounted) - first(seen.Added), nil
}

// watched has the daemon feed the watchdog, as it is installed, where that counts.
func (b *bench) watched(ctx context.Context) error {
	_, err := b.w.Run(ctx, "sed -i /WatchdogSec/d "+dropIn+"; systemctl daemon-reload; systemctl restart hotmount")
	return err
}

// memory measures the daemon's memory with many disks, and the peak of all its
// processes while eight disks are formatted.
func (b *bench) memory(ctx context.Context) error {
	if err := b.watched(ctx); err != nil {
		return err
	}
	if _, err := b.many(ctx); err != nil {
		return err
	}
	const anon, rss = "RssAnon", "VmRSS"
	status := func(field string) string {
		return `awk '/^` + field + `:/ {print $2 / 1024}' /proc/$(systemctl show -P MainPID hotmount)/status`
	}
	n, err := b.numbers(ctx, "sleep 180; "+status(rss)+"; "+status(anon))
	if err != nil {
		return err
	}
	figure := fmt.Sprintf("memory, %d disks mounted, idle", mostDisks)
	idle := b.table.add(figure, "resident", "MiB", n[:1])
	b.table.add(figure, "of its own", "MiB", n[1:])
	b.table.claim("resident memory, idle", idle, 14, "MiB")
	images, err := b.images(ctx, "blank", 8, 1<<30, false)
	if err != nil {
		return err
	}
	if _, err := b.w.Run(ctx, "cd /root; setsid ./bench peak enough >most </dev/null 2>&1 &"); err != nil {
		return err
	}
	for _, image := range images {
		if _, err := b.w.Attach(ctx, worker.Disk{File: image}); err != nil {
			return err
		}
	}
	n, err = b.numbers(ctx, fmt.Sprintf(`for i in $(seq 1200); do
	[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) -lt %d ] || break; sleep 0.2; done
touch /root/enough; while pgrep -xf './bench peak enough' >/dev/null; do sleep 0.1; done; cat /root/most; `, mostDisks+8)+status("VmHWM")+`
findmnt -rno TARGET | grep -c ^/mnt/disks/`)
	if err != nil {
		return err
	}
	if n[4] != mostDisks+8 {
		return fmt.Errorf("%v of %d disks are mounted", n[4], mostDisks+8)
	}
	figure = "memory, peak while 8 disks that come at once are formatted"
	peak := b.table.add(figure, fmt.Sprintf("of its own, all processes (%v)", n[1]), "MiB", n[:1])
	b.table.add(figure, "of its own and of mkfs.xfs and the other tools", "MiB", n[2:3])
	b.table.add(figure, "daemon, resident", "MiB", n[3:4])
	b.table.claim("memory of its own, peak while 8 disks are formatted", peak, 32, "MiB")
	return nil
}

// storm measures what a storm of events costs the daemon, of what it costs udevd.
func (b *bench) storm(ctx context.Context) error {
	images, err := b.images(ctx, "storm", 4, 320<<20, true)
	if err != nil {
		return err
	}
	_, ids, err := b.plug(ctx, "wait", images)
	if err != nil {
		return err
	}
	spent := "awk '/^usage_usec/ {print $2}' /sys/fs/cgroup/system.slice/{hotmount,systemd-udevd}.service/cpu.stat"
	n, err := b.numbers(ctx, fmt.Sprintf(`sleep 2; %[1]s
for i in $(seq %[2]d); do for d in b c d e; do echo change >/sys/block/vd$d/uevent; done; done
udevadm settle --timeout=3000; sleep 10; %[1]s
findmnt -rno TARGET | grep -c ^/mnt/disks/
awk '/^VmHWM:/ {print $2 / 1024}' /proc/$(systemctl show -P MainPID hotmount)/status`, spent, b.events/len(ids)))
	if err != nil {
		return err
	}
	if n[4] != float64(len(ids)) {
		return fmt.Errorf("%v of %d disks are mounted after the storm", n[4], len(ids))
	}
	figure := fmt.Sprintf("CPU of a storm of %d events", b.events)
	ours := b.table.add(figure, "hotmount", "ms", []float64{(n[2] - n[0]) / 1000})
	theirs := b.table.add(figure, "udevd", "ms", []float64{(n[3] - n[1]) / 1000})
	most := b.table.add("memory, peak of a storm", "daemon, resident", "MiB", n[5:])
	b.table.claim("CPU of a storm, of udevd's", ours/theirs, 0.1, "x")
	b.table.claim("resident memory, peak of a storm", most, 14, "MiB")
	return nil
}

// idling counts the wake-ups and the CPU of a daemon that has nothing to do, on a
// quiet node and on one where network devices come and go.
func (b *bench) idling(ctx context.Context) error {
	if err := b.watched(ctx); err != nil {
		return err
	}
	if _, err := b.many(ctx); err != nil {
		return err
	}
	// Every five seconds, by a shell that starts no process, so that what the daemon wakes for by itself, once
	// in that time, is told from the rest.
	const sampled = `pid=$(systemctl show -P MainPID hotmount)
spent() { while read -r name value; do [ $name != usage_usec ] || echo $value; done </sys/fs/cgroup/system.slice/hotmount.service/cpu.stat; }
switches() {
	n=0
	for status in /proc/$pid/task/*/status; do
		while read -r name value; do case $name in *voluntary_ctxt_switches:) n=$((n + value)) ;; esac; done <$status
	done
}
%s &
during=$!
exec 8<> <(:)
spent; switches
for i in $(seq %d); do last=$n; read -rt 5 -u 8 || [ $? -gt 128 ]; switches; echo $((n - last)); done
spent; wait $during
`
	figure := fmt.Sprintf("idle for %s, %d disks mounted", b.idle.Round(time.Minute), mostDisks)
	// idle gives the switches but for the five seconds with most of them, and the CPU.
	idle := func(node, during string) (others, ms float64, err error) {
		before, err := b.drops(ctx)
		if err != nil {
			return 0, 0, err
		}
		n, err := b.numbers(ctx, fmt.Sprintf(sampled, during, int(b.idle.Seconds())/5))
		if err != nil {
			return 0, 0, err
		}
		after, err := b.drops(ctx)
		if err != nil {
			return 0, 0, err
		}
		own := 0.0
		for _, switches := range n[1 : len(n)-1] {
			own, others = max(own, switches), others+switches
		}
		b.table.add(figure+": context switches in the five seconds of its own check", node, "", []float64{own})
		b.table.add(figure+": context switches in the rest", node, "", []float64{others - own})
		b.table.add(figure+": times that QEMU dropped all it had translated", node, "", []float64{after - before})
		return others - own, b.table.add(figure+": CPU", node, "ms", []float64{(n[len(n)-1] - n[0]) / 1000}), nil
	}
	// It is due a quarter of an hour after the boot, in one of the two spans, and wakes the daemon,
	// presumably by the mounts that systemd makes for it.
	if _, err := b.w.Run(ctx, "systemctl stop systemd-tmpfiles-clean.timer; sleep 90"); err != nil {
		return err
	}
	if _, _, err := idle("quiet node", "true"); err != nil {
		return err
	}
	// For most of that time, and by one process: starting a thousand would fill what QEMU has for
	// translated code. udev starts one for each all the same (99-systemd.rules).
	others, ms, err := idle("1000 network devices", fmt.Sprintf(`(exec 8<> <(:)
set -o pipefail
for i in $(seq 1000); do echo "link add bench$i type dummy"; echo "link del bench$i"; read -rt %.3f -u 8 || [ $? -gt 128 ]; done | ip -batch -)`, 0.8*b.idle.Seconds()/1000))
	if err != nil {
		return err
	}
	b.table.claim("wake-ups by 1000 network devices (context switches, but for the five seconds of its own check)", others, 0, "")
	b.table.claim("CPU, idle for 10 minutes", ms*10/b.idle.Minutes(), 10, "ms")
	return nil
}

// drops gives how often QEMU has dropped all that it had translated. What runs after that is translated anew.
func (b *bench) drops(ctx context.Context) (float64, error) {
	answer, err := b.w.QMP(ctx, "human-monitor-command", map[string]any{"command-line": "info jit"})
	if err != nil {
		return 0, err
	}
	var said string
	if err := json.Unmarshal(answer, &said); err != nil {
		return 0, err
	}
	_, counted, _ := strings.Cut(said, "TB flush count")
	var n float64
	if _, err := fmt.Sscan(counted, &n); err != nil {
		return 0, fmt.Errorf("no count of flushes in %q: %w", said, err)
	}
	return n, nil
}

// floorAtBoot has the probe mount what the kernel tells of once more at the cold plug.
const floorAtBoot = `[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service
Before=systemd-udev-trigger.service
[Service]
WorkingDirectory=/root
ExecStartPre=rm -f ready seen
ExecStart=bash -c "./bench probe ready %d mount >seeing && mv seeing seen"
ExecStartPost=bash -c "until [ -e ready ]; do sleep 0.02; done"
[Install]
WantedBy=sysinit.target
`

const loopAtBoot = `[Service]
ExecStart=bash /root/loop
[Install]
WantedBy=multi-user.target
`

// atBoot gives, for each way, what has the worker boot so, once the others are off.
func atBoot() map[way]string {
	const tool = "systemctl enable -q bench-boot"
	unit := func(text string) string { return "echo " + quote(text) + " >/etc/systemd/system/bench-boot.service; " }
	rules := func(text string) string { return "echo " + quote(text) + " >/etc/udev/rules.d/99-bench.rules" }
	return map[way]string{
		// The second removes mount points on which nothing is mounted, also one that systemd-mount has just made.
		byHotmount: "rm /etc/udev/rules.d/90-hotmount.rules; systemctl enable -q hotmount hotmount-tidy",
		byRule:     rules(rule),
		byTuned:    rules(tuned),
		byLoop:     "echo " + quote(loop) + " >/root/loop; " + unit(loopAtBoot) + tool,
		byMount:    unit(fmt.Sprintf(floorAtBoot, mostDisks)) + tool,
	}
}

// nothingAtBoot switches off all that mounts disks at boot.
const nothingAtBoot = `systemctl disable -q hotmount hotmount-tidy
[ ! -e /etc/systemd/system/bench-boot.service ] || systemctl disable -q bench-boot
rm -f /etc/systemd/system/bench-boot.service /etc/udev/rules.d/99-bench.rules; ln -sf /dev/null /etc/udev/rules.d/90-hotmount.rules
`

// boot measures boots with disks that are to be mounted.
func (b *bench) boot(ctx context.Context) error {
	if _, err := b.many(ctx); err != nil {
		return err
	}
	bootWays, setUps := []way{byHotmount, byRule, byTuned, byLoop, byMount}, atBoot()
	ready, ours, took := []float64{}, []float64{}, map[string][]float64{}
	for round := range max(2, b.rounds/3) {
		for i := range bootWays {
			w := bootWays[(i+round)%len(bootWays)]
			if _, err := b.w.Run(ctx, nothingAtBoot+setUps[w]+"; sync"); err != nil {
				return err
			}
			// Not a reboot: QEMU keeps what it has translated before it, and has to find and drop
			// that of each page that is used anew.
			if err := b.w.Shutdown(ctx); err != nil {
				return err
			}
			if err := b.w.PowerOn(ctx); err != nil {
				return err
			}
			if _, err := b.w.WaitBooted(ctx); err != nil {
				return err
			}
			// From the start of udev's cold plug to the last mount.
			n, err := b.numbers(ctx, fmt.Sprintf(`
for i in $(seq 600); do [ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) -lt %d ] || break; sleep 0.5; done
systemctl show -P InactiveExitTimestampMonotonic systemd-udev-trigger
systemctl show -P ActiveEnterTimestampMonotonic 'mnt-disks-*.mount' | sort -n | tail -n 1
findmnt -rno TARGET | grep -c ^/mnt/disks/`, mostDisks))
			if err != nil {
				return err
			}
			if n[2] != mostDisks {
				return fmt.Errorf("%s: %v of %d disks are mounted after a boot", w.name, n[2], mostDisks)
			}
			begun, end := n[0]/1000, n[1]/1000
			switch w {
			case byHotmount:
				n, err := b.numbers(ctx, "systemctl show -P ActiveEnterTimestampMonotonic hotmount; systemctl show -P ExecMainStartTimestampMonotonic hotmount")
				if err != nil {
					return err
				}
				ours, ready = append(ours, n[0]/1000-begun), append(ready, (n[0]-n[1])/1000)
			case byMount:
				// PID 1 may see it a second later.
				if end, err = b.floorEnd(ctx); err != nil {
					return err
				}
			}
			took[w.name] = append(took[w.name], end-begun)
			fmt.Fprintf(b.out, "boot: round %d, %s: %.0f ms\n", round+1, w.name, end-begun)
		}
	}
	figure := fmt.Sprintf("boot, %d disks to mount", mostDisks)
	b.table.add(figure+": cold plug to READY", byHotmount.name, "ms", ours)
	start := b.table.add(figure+": start to READY", byHotmount.name, "ms", ready)
	medians := map[string]float64{}
	for _, w := range bootWays {
		medians[w.name] = b.table.add(figure+": cold plug to last mount", w.name, "ms", took[w.name])
	}
	b.table.claim("start to READY at boot, of the rule's boot", start/medians[byRule.name], 0.5, "x")
	return nil
}

// floorEnd gives when the probe saw the last mount of a boot.
func (b *bench) floorEnd(ctx context.Context) (float64, error) {
	said, err := b.w.Run(ctx, "for i in $(seq 300); do [ ! -e /root/seen ] || break; sleep 0.1; done; cat /root/seen")
	if err != nil {
		return 0, err
	}
	var seen Seen
	if err := json.Unmarshal([]byte(said), &seen); err != nil {
		return 0, err
	}
	return last(seen.Mounted), nil
}

// hundreds attaches 250 disks, eight functions of a slot at a time, and measures
// whether the cost of one stays the same.
func (b *bench) hundreds(ctx context.Context) error {
	const disks, functions, compared = 250, 8, 5
	images, err := b.images(ctx, "hundreds", disks, 320<<20, true)
	if err != nil {
		return err
	}
	var latency, ours, pid1 []float64
	for slot := 0; slot*functions < disks; slot++ {
		some := images[slot*functions : min(disks, (slot+1)*functions)]
		seen, err := b.observe(ctx, "wait", len(some), func() error {
			// The guest looks at a slot when function 0 is there, so that comes last.
			for f := len(some) - 1; f >= 0; f-- {
				if err := b.function(ctx, slot, f, some[f]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		n := float64(len(some))
		latency = append(latency, last(seen.Mounted)-first(seen.Added))
		ours, pid1 = append(ours, seen.CPU["hotmount"]/n), append(pid1, seen.CPU["PID 1"]/n)
		fmt.Fprintf(b.out, "hundreds of disks: %d\n", slot*functions+len(some))
	}
	figure := fmt.Sprintf("%d disks, eight at a time, 4 processors", disks)
	for _, of := range []struct {
		name string
		all  []float64
	}{{"CPU of hotmount per disk", ours}, {"CPU of PID 1 per disk", pid1}, {"first add to last mount", latency}} {
		before := b.table.add(figure+": "+of.name, "the first 40", "ms", of.all[:compared])
		after := b.table.add(figure+": "+of.name, "the last 42", "ms", of.all[len(of.all)-compared-1:])
		b.table.claim(of.name+", disks 209 to 250 of disks 1 to 40", after/before, 1.5, "x")
	}
	return nil
}

// function attaches a disk as one function of a slot. It has a queue more than interrupt vectors for
// queues: so its driver takes two vectors on any processor (vp_find_vqs in the kernel's
// drivers/virtio/virtio_pci_common.c). Else it takes one on each processor, of some 200, and the 193rd disk
// has none left.
func (b *bench) function(ctx context.Context, slot, function int, image string) error {
	id := fmt.Sprintf("function-%d-%d", slot, function)
	if _, err := b.w.QMP(ctx, "blockdev-add", map[string]any{
		"driver": "raw", "node-name": id, "file": map[string]any{"driver": "file", "filename": image, "cache": map[string]any{"direct": false, "no-flush": true}},
		"cache": map[string]any{"direct": false, "no-flush": true},
	}); err != nil {
		return err
	}
	_, err := b.w.QMP(ctx, "device_add", map[string]any{
		"driver": "virtio-blk-pci", "id": id + "-device", "drive": id, "bus": fmt.Sprintf("worker-port%d", slot),
		"addr": fmt.Sprintf("0.%d", function), "multifunction": true, "num-queues": 2, "vectors": 2,
	})
	return err
}
