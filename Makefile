# hotmount: builds the package and runs the tests. "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The go in PATH; where it is too old, as Debian's is, or there is none, the one that
# Go's own installer has placed.
GO_NEEDED := 1.26
GO_INSTALLED := /usr/local/go/bin
new_enough = have=$$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) && have=$${have\#go} && \
	[[ $$(printf '%s\n' $(GO_NEEDED) "$$have" | sort -V | head -n 1) = $(GO_NEEDED) ]]
export PATH := $(if $(shell $(new_enough) && echo yes),,$(GO_INSTALLED):)$(PATH)

# The architecture of the package, in Debian's words, and Go's name for it.
ARCH ?= $(shell dpkg --print-architecture)
GOARCH_amd64 := amd64
GOARCH_arm64 := arm64

# All that says when and from what this was built comes from the commit, so that
# two builds of one commit are the same. A commit after the tag v0.1.0 is version
# 0.1.0+N.gCOMMIT; before the first release it is 0.1.0~gitTIME.COMMIT, which is
# older than 0.1.0.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)
DATE := $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
# Asked once: git may come with what the first target installs.
VERSION := $(or $(VERSION),$(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-/~/g'),0.1.0~git$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y%m%d%H%M%S).$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown))

DEB := build/hotmount_$(VERSION)_$(ARCH).deb
STAGE := build/deb
test-container test-vm test-full: export HOTMOUNT_DEB = $(abspath $(DEB))
# What the package is upgraded to by the tests: the same under a later version.
NEXT := $(VERSION)+next
test-vm test-full: export HOTMOUNT_DEB_NEXT = $(abspath build/hotmount_$(NEXT)_$(ARCH).deb)
# What it is upgraded from: the last release, once there is one.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null)
test-vm test-full: export HOTMOUNT_DEB_PREVIOUS = $(if $(PREVIOUS),$(abspath build/previous.deb))

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.1
BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260709024250-82a0b07e230d

# What the build and the tests need of Debian. The virtual machines' own needs are
# installed by test/worker, when they are needed.
PACKAGES_deb := debhelper dpkg-dev git
PACKAGES_test := $(PACKAGES_deb) e2fsprogs fdisk fish gcc libc6-dev lintian lvm2 man-db prometheus strace systemd util-linux xfsprogs zsh

say = @echo "==> $$(date +%T) $(1)"
comma := ,
BEGUN := $(shell date +%s)

.PHONY: help
help:
	@echo "make try         build the package, show it on loop devices in a container, leave a shell to play in (a minute, without a virtual machine)"
	@echo "make demo        build the package, boot a Debian worker under libvirt, attach a disk, show what comes of it (5 minutes)"
	@echo "make test        pass the tests, those in virtual machines included (25 minutes)"
	@echo "make build       build/hotmount"
	@echo "make deb         $(DEB); ARCH=arm64 for another architecture"
	@echo "make lint        gofmt, go vet, staticcheck"
	@echo "make test-unit   the tests without virtual machines (2 minutes)"
	@echo "make test-fuzz   each parser with random input"
	@echo "make test-deb    lintian, the units' exposure"
	@echo "make test-same   whether two builds are the same"
	@echo "make test-container the tests in containers; RUN=Name for some of them"
	@echo "make test-vm     the tests in containers and in virtual machines; RUN=Name for some of them, WORKER=vm for all in virtual machines"
	@echo "make test-long   more tests in virtual machines, whose class of fault make test has once already (45 minutes)"
	@echo "make test-full   every test there is, for hours; can be stopped and called again; writes a report (ONLY=regexp for a part)"
	@echo "make bench       measure, against other ways to mount, in a container: build/bench.txt, .json, two plots (an hour at most; ONLY=one,twenty for a part, ROUNDS=5 for fewer turns, BASE=other.deb to compare with)"
	@echo "make bench-idle  measure what a daemon does for ten minutes that has nothing to do: build/idle/bench.txt"
	@echo "make bench-inner measure the inner parts and compare them with those of BASE, the commit before"
	@echo "make bench-scan  measure the proof of blankness against dd; fails if it is too slow"
	@echo "make deps        install the Debian packages that these need"
	@echo "make clean       remove build/"

.PHONY: check-go
check-go:
	@command -v go >/dev/null || { echo "hotmount is built with Go $(GO_NEEDED) or later, and there is no go here: https://go.dev/doc/install" >&2; exit 1; }
	@$(new_enough) || { echo "hotmount is built with Go $(GO_NEEDED) or later, and $$(command -v go) is $$have: https://go.dev/doc/install" >&2; exit 1; }

# The packages named in $(1) that are not installed are, by root; others are told.
define need
	@missing=; for p in $(1); do [[ $$(dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null) = installed ]] || missing+=" $$p"; done; \
	if [[ -n $$missing ]]; then \
		if [[ $$EUID != 0 ]]; then echo "these Debian packages are missing: apt-get install$$missing" >&2; exit 1; fi; \
		echo "==> installing$$missing"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get -q -y -o DPkg::Lock::Timeout=600 --no-install-recommends install $$missing >build/apt.log 2>&1 \
		|| { apt-get -q -o DPkg::Lock::Timeout=600 update && apt-get -q -y -o DPkg::Lock::Timeout=600 --no-install-recommends install $$missing; } >>build/apt.log 2>&1 \
		|| { tail -n 20 build/apt.log >&2; exit 1; }; \
	fi
endef

.PHONY: deps deps-deb
deps: | build/.made
	$(call need,$(PACKAGES_test))
deps-deb: | build/.made
	$(call need,$(PACKAGES_deb))

.PHONY: build
build: build/hotmount

build/.made:
	@mkdir -p build && touch $@

# Go knows what has changed; make does not try to.
.PHONY: FORCE
build/hotmount build/$(ARCH)/hotmount: FORCE check-go | build/.made
	$(call say,building hotmount $(VERSION) for $(ARCH))
	@CGO_ENABLED=0 GOOS=linux GOARCH=$(or $(GOARCH_$(ARCH)),$(error no package for $(ARCH))) go build -trimpath -buildvcs=false \
		-ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o $@ ./cmd/hotmount

.PHONY: deb
deb: deps-deb build/$(ARCH)/hotmount
	$(call say,packing $(DEB))
	@rm -rf $(STAGE)
	@mkdir -p $(STAGE)
	@cp -R packaging/catalog packaging/debian packaging/man packaging/doc packaging/examples systemd udev packaging/config.yaml README.md CHANGELOG.md $(STAGE)/
	@cp build/$(ARCH)/hotmount $(STAGE)/hotmount
	@# By a program for this machine: the scripts are the same for all.
	@mkdir $(STAGE)/completion
	@for of in bash/hotmount zsh/_hotmount fish/hotmount.fish; do \
		env -u GOOS -u GOARCH CGO_ENABLED=0 go run -trimpath -buildvcs=false ./cmd/hotmount completion $${of%/*} >$(STAGE)/completion/$${of#*/}; done
	@packaging/copyright $(STAGE)/hotmount >$(STAGE)/debian/copyright
	@packaging/sbom $(STAGE)/hotmount '$(VERSION)' '$(DATE)' >$(STAGE)/sbom.cdx.json
	@# The versions that NEWS is about have to be in the changelog.
	@{ printf 'hotmount (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md; built from commit\n    %s.\n\n -- %s  %s\n\n' '$(VERSION)' '$(COMMIT)' \
		"$$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$$(date -u -R -d @$(SOURCE_DATE_EPOCH))"; \
		cat packaging/debian/NEWS; } >$(STAGE)/debian/changelog
	@chmod -R u=rwX,go=rX $(STAGE)
	@# -d: nothing is compiled here, so no compiler for the architecture is needed.
	@(cd $(STAGE) && umask 022 && dpkg-buildpackage -b -uc -us -d -a$(ARCH)) >build/dpkg-buildpackage.log 2>&1 || { tail -n 40 build/dpkg-buildpackage.log >&2; exit 1; }
	@# Whoever installs one should not have to choose among those of all commits.
	@[[ '$(VERSION)' = *+next ]] || ln -sfn $(notdir $(DEB)) build/hotmount_$(ARCH).deb
	@ls -sh $(DEB)

.PHONY: deb-next
deb-next: deb
	@$(MAKE) --no-print-directory deb VERSION='$(NEXT)'

.PHONY: deb-previous
deb-previous: | build/.made
	@[[ -n '$(PREVIOUS)' ]] || exit 0; \
	tree=$$(mktemp -d); trap 'git worktree remove --force "$$tree/previous"; rmdir "$$tree"' EXIT; \
	git worktree add -q --detach "$$tree/previous" '$(PREVIOUS)'; \
	env -u VERSION -u SOURCE_DATE_EPOCH $(MAKE) --no-print-directory -C "$$tree/previous" deb; \
	cp "$$(ls -t "$$tree"/previous/build/hotmount_[0-9]*_$(ARCH).deb | head -n 1)" build/previous.deb

.PHONY: lint
lint: check-go
	$(call say,gofmt)
	@bad=$$(gofmt -l cmd internal test); [[ -z $$bad ]] || { echo "not formatted: $$bad" >&2; exit 1; }
	$(call say,go vet)
	@go vet ./...
	@go vet -tags root,vm,full ./...
	$(call say,staticcheck)
	@$(STATICCHECK) ./...
	@$(STATICCHECK) -tags root,vm,full ./...

# make test-full tries all that the others take a choice of.
UNIT_TIMEOUT := $(if $(HOTMOUNT_TEST_FULL),2h,10m)
.PHONY: test-unit
test-unit: check-go deps
	$(call say,unit tests with the race detector)
	@[[ $$EUID = 0 ]] || { go test -race ./...; echo "==> NOT RUN: tests that need root" >&2; exit 1; }
	@# Those of internal/format wait for the disk below their loop devices, if there is one.
	@# They are two processes: a child that has not called execve(2) yet still has the disk of
	@# another test open. In internal/policy, which only computes, nothing runs beside another.
	@memory=$$(mktemp -d); trap 'wait; rmdir $$memory' EXIT; format=; \
	for which in run skip; do \
		unshare --mount bash -ec "mount -t tmpfs tmpfs $$memory; TMPDIR=$$memory go test -race -timeout $(UNIT_TIMEOUT) -tags root -$$which '^TestReal(CrashOverOldData|CrashAgain|ClassOptions)$$' ./internal/format" & format+=" $$!"; \
	done; \
	go test -race ./test/...; \
	go test -race -timeout $(UNIT_TIMEOUT) -tags root $$(go list ./internal/... ./cmd/... | grep -vE '/internal/(format|policy)$$'); \
	go test -timeout $(UNIT_TIMEOUT) -tags root ./test/corpus ./internal/policy; \
	for f in $$format; do wait $$f; done; \
	echo "==> $$(date +%T) the unit tests took $$SECONDS s"

# What a unit may be exposed to (systemd-analyze(1), security), times ten.
EXPOSURE := hotmount.service=16 hotmount-format@.service=13 hotmount-cleanup@.service=25 hotmount-tidy.service=30 hotmount-unmount@.service=38 hotmount-wait@.service=11 hotmount-gone@.service=11 hotmount-stage@.service=17 hotmount-grow@.service=35 hotmount-block@.service=29 hotmount-trim.service=34 hotmount-udev.service=12

.PHONY: check-deb
check-deb: deps deb
	$(call say,lintian and what is in the package for $(ARCH))
	@lintian --pedantic --tag-display-limit 0 --fail-on error,warning,pedantic --allow-root $(DEB)
	@packaging/check build/hotmount_$(ARCH).deb $(ARCH) '$(VERSION)' $(COMMIT) $(DATE)

.PHONY: test-deb
test-deb: check-deb
	@$(MAKE) --no-print-directory check-deb ARCH=$(if $(filter arm64,$(ARCH)),amd64,arm64)
	$(call say,man pages)
	@for page in packaging/man/*; do \
		bad=$$(LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z $$page 2>&1 >/dev/null); [[ -z $$bad ]] || { echo "$$bad" >&2; exit 1; }; \
		lexgrog $$page; done
	$(call say,alerts)
	@cd packaging/examples/prometheus; promtool check rules hotmount-alerts.yaml; promtool test rules hotmount-alerts.test.yaml
	$(call say,completion)
	@bash -n $(STAGE)/completion/hotmount; zsh -n $(STAGE)/completion/_hotmount; fish -n $(STAGE)/completion/hotmount.fish
	@# zsh's own part, which needs a terminal, is stood in for.
	@export PATH=$(CURDIR)/build/$(ARCH):$$PATH; cd $(STAGE)/completion; offered=$$( \
		fish --no-config -c 'source hotmount.fish; complete -C "hotmount rel"' | sed 's/^/fish: /'; \
		zsh -fc 'compdef() { :; }; _describe() { print -rl -- $$completions; }; source ./_hotmount; words=(hotmount rel); CURRENT=2; _hotmount' | sed 's/^/zsh: /'); \
		[[ $$offered = $$'fish: release\t'*$$'\nzsh: release:'* ]] || { echo "hotmount rel is completed to: $$offered" >&2; exit 1; }
	$(call say,exposure of the units)
	@for u in systemd/*.service; do [[ " $(EXPOSURE)" = *" $${u#*/}="* ]] || { echo "what may $$u be exposed to? say it in EXPOSURE" >&2; exit 1; }; done
	@for want in $(EXPOSURE); do u=$${want%=*}; \
		grep -q '^TimeoutStartSec=' systemd/$$u || { echo "systemd/$$u has no time limit" >&2; exit 1; }; \
		systemd-analyze security --offline=true --no-pager --threshold=$${want#*=} systemd/$$u >build/exposure.log 2>&1 || { cat build/exposure.log >&2; exit 1; }; \
		figure=$$(sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p' build/exposure.log); \
		may=$$(sed -n 's/^CapabilityBoundingSet=//p' systemd/$$u | sed 's/CAP_//g; s/ /, /g'); \
		grep -q "^| \`$$u\` | $$figure | $${may:-none} |" README.md || { echo "README.md does not say that the exposure of $$u is $$figure, its capabilities $${may:-none}" >&2; exit 1; }; \
		echo "$$u $$figure"; done
	$(call say,size of the package: under 4 MB$(comma) installed under 14 MB)
	@size=$$(stat -c %s $(DEB)); installed=$$(( $$(dpkg-deb -f $(DEB) Installed-Size) * 1024 )); \
	echo "$$size bytes, installed $$installed bytes"; (( size < 4000000 && installed < 14000000 ))

# Compiled anew: from the cache it would be the same whatever it is made of.
.PHONY: test-same
test-same: check-go deps deb
	$(call say,the same package from another folder)
	@again=$$(mktemp -d); trap 'rm -rf "$$again"' EXIT; \
	mkdir "$$again/else"; cp -R .git $$(ls -A | grep -vxE 'build|\.git') "$$again/else/"; \
	(umask 077; GOCACHE="$$again/cache" $(MAKE) --no-print-directory -C "$$again/else" deb VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' ARCH='$(ARCH)' TZ=Asia/Tokyo >"$$again/log" 2>&1) || { tail -n 20 "$$again/log" >&2; exit 1; }; \
	cmp $(DEB) "$$again/else/$(DEB)"

# RUN names tests of whatever length; with WORKER=vm all run in virtual machines.
TAGS := $(if $(RUN),vm$(comma)full,vm)
# As root: systemd in namespaces on this machine's kernel.
.PHONY: test-container
test-container: deps deb
	$(call say,tests in containers)
	@go test -race -tags root -timeout 20m -count 1 $(if $(RUN),-run '$(RUN)') ./test/worker

.PHONY: test-vm
test-vm: deps deb deb-next deb-previous
	$(call say,tests in virtual machines)
	@# One package at a time: only so does go test print while it runs.
	@HOTMOUNT_TEST_WORKER=$(WORKER) go test -p 1 -tags $(TAGS) -timeout 60m -count 1 $(if $(RUN),-run '$(RUN)') -v ./test/... 2>&1 | tee build/test-vm.log | grep --line-buffered -vE '^=== (PAUSE|CONT|NAME)'

# Those that take long, of features that unit tests have, too, and of faults whose class
# another test of test-vm has. After UNTIL, in seconds since 1970, no more of them begin: then they
# come in an order that each commit has another of, and those are named that were not run.
BATCH := 4
.PHONY: test-long
test-long: deps test-same
	@mapfile -t long < <(comm -13 <(go test -tags vm -list ^Test ./test/system | sort) <(go test -tags vm,long -list ^Test ./test/system | sed -n /^Test/p | sort) | \
		sort -R --random-source=<(yes '$(COMMIT)')); (( $${#long[@]} )); n=$(if $(UNTIL),$(BATCH),$${#long[@]}); \
	while (( $${#long[@]} )); do \
		if [[ -n '$(UNTIL)' ]] && (( $$(date +%s) > $(or $(UNTIL),0) )); then echo "==> NOT RUN, for the time is over: $${long[*]}" >&2; break; fi; \
		$(MAKE) --no-print-directory test-vm TAGS=vm,long RUN="^($$(IFS='|'; echo "$${long[*]:0:n}"))\$$"; \
		long=("$${long[@]:n}"); \
	done

# Each parser that eats foreign bytes, with that many inputs; test-full takes a minute.
# Not a time: go test calls it a failure, now and then, when the time ends within an input.
FUZZ := 20000x
.PHONY: test-fuzz
test-fuzz: check-go deps
	$(call say,each parser fuzzed with $(FUZZ:x=) inputs)
	@grep -ro --include='*_test.go' '^func Fuzz[[:alnum:]_]*' internal cmd | sed 's|/[^/]*:func | |' | sort | while read -r dir f; do \
		echo "$$dir $$f"; \
		go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZ) ./$$dir </dev/null >build/fuzz.log 2>&1 || { cat build/fuzz.log >&2; exit 1; }; \
	done

.PHONY: test
test: lint
	@# Neither keeps both processors busy.
	@$(MAKE) --no-print-directory -j2 test-unit test-deb
	@$(MAKE) --no-print-directory test-fuzz
	@$(MAKE) --no-print-directory test-container
	@$(MAKE) --no-print-directory test-vm
	$(call say,the tests have passed in $$((($$(date +%s) - $(BEGUN)) / 60)) minutes; make test-long and make test-full have more)

# For hours; what a report says has passed for these sources is not run again. The
# report is to be committed.
SOURCES := cmd internal packaging systemd udev test go.mod go.sum Makefile README.md CHANGELOG.md
.PHONY: test-full
test-full: deps deb deb-next deb-previous
	@[[ -z $$(git status --porcelain -- . ":!test/reports") ]] || { echo "the report names a commit: commit what is changed first" >&2; exit 1; }
	@tree=$$(git ls-tree -r HEAD -- $(SOURCES) | grep -v '	test/reports/' | sha256sum | cut -c 1-16); \
	go run ./test/full -commit $(COMMIT) -tree $$tree -dir build/full -only '$(ONLY)'

.PHONY: try
try: deb
	@go run ./test/try -deb $(DEB)

.PHONY: demo
demo: deb
	@go run ./test/demo -deb $(DEB)

# In a container, in turns. ONLY names figures, ROUNDS is how many turns each way takes at most, BASE is another
# package to compare with, ROOT the container's userland.
ROUNDS := 30
.PHONY: bench bench-idle
bench: deb | build/.made
	@CGO_ENABLED=0 go build -trimpath -o build/bench ./test/bench
	@build/bench -deb $(DEB) -commit $(COMMIT) -turns $(ROUNDS) $(if $(ONLY),-only '$(ONLY)') $(if $(BASE),-base '$(BASE)') $(if $(ROOT),-root '$(ROOT)') $(BENCH)

bench-idle:
	@$(MAKE) --no-print-directory bench ONLY=idle BENCH='-dir build/idle'

# Takes turns of the inner parts that have benchmarks, here and at the commit BASE.
bench-inner: BASE = HEAD~1
INNER := go test -run '^$$' -bench . -benchtime 0.3s -benchmem ./internal/policy ./internal/uevent ./internal/probe ./internal/inventory ./internal/mounts ./internal/store ./internal/disk ./internal/unit
.PHONY: bench-inner
bench-inner: check-go deps
	$(call say,the inner parts against those of $(BASE))
	@base=$$(mktemp -d); trap 'git worktree remove --force "$$base/tree"; rm -rf "$$base"' EXIT; \
	git worktree add -q --detach "$$base/tree" $(BASE); \
	for i in 1 2 3 4 5 6; do (cd "$$base/tree" && $(INNER)) >>"$$base/before"; $(INNER) >>"$$base/after"; done; \
	(cd "$$base" && $(BENCHSTAT) before after)

# It needs root, a loop device, and an idle machine.
.PHONY: bench-scan
bench-scan: check-go deps
	$(call say,how fast a blank disk is read: of dd's speed in the same run (scan/dd) at least 0.8)
	@go test -tags root -run '^$$' -bench RealScan -benchtime 9x ./internal/format

.PHONY: clean
clean:
	rm -rf build
