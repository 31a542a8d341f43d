package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// one measures a disk with a filesystem that is plugged in.
func (b *bench) one(ctx context.Context) error {
	images, err := b.images(ctx, "one", 1, 1<<30, true)
	if err != nil {
		return err
	}
	// By way: the whole time, udev's part and what comes after it, the CPU, and who has
	// spent it.
	whole, probed, after := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	spent := map[string]map[string][]float64{}
	var decided, added, job []float64
	for round := range b.rounds {
		for i := range ways {
			// Each round begins with another.
			w := ways[(i+round)%len(ways)]
			if _, err := b.turn(ctx, w, images, nil); err != nil {
				return err
			}
			seen, err := b.turn(ctx, w, images, func(seen Seen) error {
				if w.name != "hotmount" {
					return nil
				}
				d, a, j, err := b.unitTimes(ctx, seen)
				decided, added, job = append(decided, d), append(added, a), append(job, j)
				return err
			})
			if err != nil {
				return err
			}
			for seq, at := range seen.Added {
				probed[w.name] = append(probed[w.name], seen.Probed[seq]-at)
				if w.how != "hear" {
					whole[w.name] = append(whole[w.name], seen.Mounted[seq]-at)
					after[w.name] = append(after[w.name], seen.Mounted[seq]-seen.Probed[seq])
				}
			}
			for name, ms := range seen.CPU {
				if spent[w.name] == nil {
					spent[w.name] = map[string][]float64{}
				}
				spent[w.name][name] = append(spent[w.name][name], ms)
			}
		}
		fmt.Fprintf(b.out, "one disk: round %d of %d\n", round+1, b.rounds)
	}
	mounted, took := map[string]float64{}, map[string]float64{}
	for _, w := range ways {
		b.table.add("kernel add to udev event", w.name, "ms", probed[w.name])
		if w.how != "hear" {
			mounted[w.name] = b.table.add("kernel add to mounted, one disk", w.name, "ms", whole[w.name])
		}
	}
	// The mount job of the rule tuned is there when udev's event comes: what passes then is
	// PID 1's alone.
	var beyond float64
	for _, w := range ways[:3] {
		m := b.table.add("udev event to mounted", w.name, "ms", after[w.name])
		switch w.name {
		case "hotmount":
			beyond += m
		case "rule, tuned":
			beyond -= m
		}
	}
	for _, w := range ways {
		for _, name := range slices.Sorted(maps.Keys(spent[w.name])) {
			if m := b.table.add("CPU per attach: "+name, w.name, "ms", spent[w.name][name]); name == "guest" {
				took[w.name] = m
			}
		}
	}
	rest := make([]float64, len(job))
	for i := range job {
		rest[i] = after["hotmount"][i] - job[i]
	}
	b.table.add("udev event to mounted, but for the mount job", "hotmount", "ms", rest)
	b.table.add("udev's event to the decision in the journal", "hotmount", "ms", decided)
	b.table.add("udev's event to the start of the mount job", "hotmount", "ms", added)
	b.table.add("the mount job of PID 1", "hotmount", "ms", job)
	ours := whole[byHotmount.name]
	b.table.ratio("add to mounted, of the rule", ours, whole[byRule.name], 0.45)
	b.table.ratio("add to mounted, of the rule tuned", ours, whole[byTuned.name], 0.8)
	b.table.claim("added by hotmount to a mount job of PID 1, of the rule's whole time", beyond/mounted[byRule.name], 0.1, "x")
	b.table.claim("udev event to mounted but for the mount job, of the rule's whole time", median(rest)/mounted[byRule.name], 0.1, "x")
	b.table.ratio("add to mounted, a disk new to the node, of the rule", whole[newDisk], whole[byRule.name], 0.45)
	b.table.ratio("add to mounted, a disk new to the node, of the rule tuned", whole[newDisk], whole[byTuned.name], 0.8)
	none := took["hot-plug alone"]
	b.table.claim("CPU of the guest per attach beyond hot-plug, of the rule's", (took[byHotmount.name]-none)/(took[byRule.name]-none), 0.5, "x")
	return nil
}

// unitTimes gives, in milliseconds, what passed between udev's event and the
// decision, and the start of the mount job, and how long that took.
func (b *bench) unitTimes(ctx context.Context, seen Seen) (decided, added, job float64, err error) {
	for seq, path := range seen.Units {
		n, err := b.numbers(ctx, `systemctl show -P InactiveExitTimestampMonotonic -P ActiveEnterTimestampMonotonic "$(systemd-escape -p --suffix=mount `+path+`)"
journalctl -b -q -o export _SYSTEMD_UNIT=hotmount.service HOTMOUNT_DISKSEQ=`+seq+` HOTMOUNT_DECISION=mount -n 1 | sed -n 's/^__MONOTONIC_TIMESTAMP=//p'`)
		if err != nil {
			return 0, 0, 0, err
		}
		if len(n) != 3 {
			return 0, 0, 0, fmt.Errorf("%v is not three times", n)
		}
		return n[2]/1000 - seen.Probed[seq], n[0]/1000 - seen.Probed[seq], (n[1] - n[0]) / 1000, nil
	}
	return 0, 0, 0, errors.New("no mount unit")
}

// twenty measures twenty disks that are plugged in at once.
func (b *bench) twenty(ctx context.Context) error {
	images, err := b.images(ctx, "twenty", 20, 320<<20, true)
	if err != nil {
		return err
	}
	whole, spent := map[string][]float64{}, map[string]map[string][]float64{}
	for round := range max(1, b.rounds/3) {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			// The loop takes half a minute for each turn.
			if w.how == "hear" || w.name == byLoop.name && round > 0 {
				continue
			}
			if _, err := b.turn(ctx, w, images, nil); err != nil {
				return err
			}
			seen, err := b.turn(ctx, w, images, nil)
			if err != nil {
				return err
			}
			whole[w.name] = append(whole[w.name], last(seen.Mounted)-first(seen.Added))
			if spent[w.name] == nil {
				spent[w.name] = map[string][]float64{}
			}
			for name, ms := range seen.CPU {
				spent[w.name][name] = append(spent[w.name][name], ms/float64(len(images)))
			}
		}
		fmt.Fprintf(b.out, "twenty disks: round %d\n", round+1)
	}
	for _, w := range ways {
		if len(whole[w.name]) > 0 {
			b.table.add("first add to last mount, 20 disks", w.name, "ms", whole[w.name])
			for _, name := range []string{"guest", "PID 1", "hotmount", "udevd"} {
				b.table.add("CPU per disk, 20 disks: "+name, w.name, "ms", spent[w.name][name])
			}
		}
	}
	b.table.ratio("20 disks, of the rule", whole[byHotmount.name], whole[byRule.name], 0.48)
	b.table.ratio("20 disks, of the rule, the second step", whole[byHotmount.name], whole[byRule.name], 0.4)
	b.table.ratio("20 disks new to the node, of the rule", whole[newDisk], whole[byRule.name], 0.48)
	return nil
}
